"""Imports the engine of this process, the module named by the environment variable QL_ENGINE, as `qd`, the name that
kernels use."""

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
    """Imports the module ``name`` of a folder; its `import quadrants_lab` gets this process's engine."""
    sys.modules.setdefault("quadrants_lab", qd)
    path = Path(__file__).resolve().parent.parent / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def synced(run: Callable[[], Any]) -> Callable[[], None]:
    """A function that calls ``run`` and waits for its launches."""

    def whole() -> None:
        run()
        qd.sync()

    return whole


def init(arch: str = "cpu", **options: Any) -> None:
    """Starts a new session on ``arch``, with ``options`` in addition to those of every case. The peer needs an option
    for adstacks; quadrants_lab accepts it, too."""
    with warnings.catch_warnings():
        # cases for "cuda" may fall back to the CPU, so that they can be tried anywhere
        if arch != "cuda":
            warnings.filterwarnings("error", message=".*falling back")
        qd.init(
            arch=getattr(qd, arch),
            log_level=qd.ERROR,
            ad_stack_experimental_enabled=True,
            offline_cache=True,
            offline_cache_file_path=os.environ["QL_BENCH_CACHE"],
            **options,
        )
