"""A plugin (`pytest -p plugins.compare_cached`): every session has a disk cache, and each kernel whose IR comes from
there is compiled again and compared.

The environment variable COMPARED_CACHE names the cache's folder, so that a second run finds the kernels of the first;
without it the folder is a temporary one. The summary says how many kernels were compared.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.runtime import session as sessions
from quadrants_lab.runtime.compile import compile as compiler, kernel_cache
from quadrants_lab.runtime.compile.specialisation import Compiled

FOLDER = Path(os.environ.get("COMPARED_CACHE") or tempfile.mkdtemp(prefix="compared-"))
counts = {"compiled": 0, "compared": 0}
compile_kernel, cached_kernel, begin = compiler.compile_kernel, kernel_cache.cached_kernel, sessions.Session.__init__


def counted(*args: Any, **more: Any) -> Compiled:
    counts["compiled"] += 1
    return compile_kernel(*args, **more)


def with_cache(self: sessions.Session, *args: Any, **more: Any) -> None:
    begin(self, *args, **more)
    if self.cache.folder is None:
        self.cache = DiskCache(FOLDER)


def parts(made: Compiled) -> dict[str, Any]:
    front, counter = made.taken_back(), made.counter
    return {
        "front end": print_kernel(front.kernel), "kernel": print_kernel(made.kernel), "options": made.options,
        "bindings": {name: id(x) for name, x in front.bindings.items()}, "returns": made.returns,
        "returned": (front.returns, front.returns_tuple, repr(front.returns_as)),
        "reads": [(id(owner), name) for owner, name in front.reads],
        "counter": counter and (print_kernel(counter.kernel), counter.results),
    }  # fmt: skip


def compared(source: Any, *how: Any) -> Compiled:
    before = counts["compiled"]
    found = cached_kernel(source, *how)
    if counts["compiled"] == before:
        counts["compared"] += 1
        fresh = compile_kernel(source, *how[:5])  # without stages of another mode
        cached, compiled = parts(found), parts(fresh)
        differ = [name for name, part in compiled.items() if part != cached[name]]
        assert not differ, f"{source.name} from the disk is another kernel: {', '.join(differ)}"
    return found


compiler.compile_kernel = counted
kernel_cache.cached_kernel = compared
sessions.Session.__init__ = with_cache  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"{counts['compared']} kernels from {FOLDER} compared, {counts['compiled']} compiled")
