"""The engine of this process under the name that kernels use, `qd`: the module named by QL_ENGINE."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_start = time.perf_counter()
qd: Any = importlib.import_module(os.environ["QL_ENGINE"])
IMPORT_SECONDS = time.perf_counter() - _start


def sample(name: str, folder: str = "kernels") -> Any:
    """The module of this name, whose `quadrants_lab` is this process's engine."""
    sys.modules.setdefault("quadrants_lab", qd)
    path = Path(__file__).resolve().parent.parent / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def synced(run: Callable[[], Any]) -> Callable[[], None]:
    """The same, to its end."""

    def whole() -> None:
        run()
        qd.sync()

    return whole


def init(arch: str = "cpu", **options: Any) -> None:
    """A fresh runtime on ``arch``, ``options`` beside what every case has. Adstacks have to be asked for in the peer;
    ours accepts the option too."""
    with warnings.catch_warnings():
        if arch != "cuda":  # the race on an NVIDIA GPU can be tried anywhere; else times of the CPU are no answer
            warnings.filterwarnings("error", message=".*falling back")
        qd.init(
            arch=getattr(qd, arch),
            log_level=qd.ERROR,
            ad_stack_experimental_enabled=True,
            offline_cache=True,
            offline_cache_file_path=os.environ["QL_BENCH_CACHE"],
            **options,
        )
