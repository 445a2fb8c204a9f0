"""A shell with the extension loaded, one for each file of tests."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

import quadrants_lab as qd


@pytest.fixture(scope="module")
def shell():
    ip = InteractiveShell.instance()
    ip.run_cell("%load_ext quadrants_lab")
    yield ip
    qd.reset()
    InteractiveShell.clear_instance()
