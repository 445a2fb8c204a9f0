"""A plugin for pytest: `pytest -p quadrants_lab.pytest_plugin --cov`. With QD_KERNEL_COVERAGE=1 the report of
pytest-cov also counts the lines that ran in kernels."""

import atexit
import os
import sys
from collections.abc import Iterator

import pytest


@pytest.hookimpl(hookwrapper=True, trylast=True)  # so that the data are written before pytest-cov combines data files
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    yield
    coverage = sys.modules.get("quadrants_lab.lang.coverage")
    if coverage is not None:
        folder, name = os.path.split(os.environ.get("COVERAGE_FILE", ".coverage"))
        coverage.write(os.path.join(folder, f"{name}.kernels.{os.getpid()}"))
        atexit.unregister(coverage.at_exit)
