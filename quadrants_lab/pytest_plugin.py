"""For pytest, `pytest -p quadrants_lab.pytest_plugin --cov`: with QD_KERNEL_COVERAGE=1 the report of pytest-cov has the
lines that ran in kernels, too."""

import atexit
import os
import sys
from collections.abc import Iterator

import pytest


@pytest.hookimpl(hookwrapper=True, trylast=True)  # so that its data are there when pytest-cov combines what it finds
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    yield
    coverage = sys.modules.get("quadrants_lab.lang.coverage")
    if coverage is not None:
        folder, name = os.path.split(os.environ.get("COVERAGE_FILE", ".coverage"))
        coverage.write(os.path.join(folder, f"{name}.kernels.{os.getpid()}"))
        atexit.unregister(coverage.at_exit)
