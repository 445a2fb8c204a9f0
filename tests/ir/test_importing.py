"""The garbage collector around imports."""

from __future__ import annotations

import gc
from collections.abc import Iterator

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


def test_what_was_made_is_old_behind() -> None:
    with importing():
        made = [[] for _ in range(10_000)]  # type: ignore[var-annotated]
    assert any(o is made[0] for o in gc.get_objects(generation=2))


def test_what_a_program_froze_stays_frozen() -> None:
    gc.freeze()
    with importing():
        pass
    assert gc.get_freeze_count() > 0
