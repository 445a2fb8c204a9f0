"""The garbage collector around imports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from quadrants_lab.ir.importing import importing


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_off_within_and_as_it_was_behind(on: bool) -> None:
    (gc.enable if on else gc.disable)()
    within = []

    def fail() -> None:
        with importing():
            within.append(gc.isenabled())
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert (within, gc.isenabled()) == ([False], on)


@pytest.mark.parametrize("new", [True, False])
def test_what_was_made_is_old_behind(new: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where nothing was imported: a program that compiles many kernels would make all that it has old."""
    with importing():
        made = [[] for _ in range(10_000)]  # type: ignore[var-annotated]
        if new:
            monkeypatch.setitem(sys.modules, "made_here", ModuleType("made_here"))
    assert any(o is made[0] for o in gc.get_objects(generation=2)) == new


def test_what_a_program_froze_stays_frozen() -> None:
    gc.freeze()
    with importing():
        pass
    assert gc.get_freeze_count() > 0
