"""The engine of this process under the name that kernels use, `qd`: the module named by QL_ENGINE."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

_start = time.perf_counter()
qd: Any = importlib.import_module(os.environ["QL_ENGINE"])
IMPORT_SECONDS = time.perf_counter() - _start


def init(**options: Any) -> None:
    """A fresh runtime on the CPU, ``options`` beside what every case has. Adstacks have to be asked for in the peer; ours accepts the option too."""
    qd.init(
        arch=qd.cpu,
        log_level=qd.ERROR,
        ad_stack_experimental_enabled=True,
        offline_cache=True,
        offline_cache_file_path=os.environ["QL_BENCH_CACHE"],
        **options,
    )
