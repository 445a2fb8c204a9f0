"""The garbage collector around imports."""

import gc
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

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


@pytest.mark.parametrize("own", [True, False], ids=["objects of Python's start are frozen", "nothing is frozen"])
def test_what_was_made_is_old_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    gc.unfreeze()
    if own:
        monkeypatch.setattr("quadrants_lab.ir.importing._FEW", 1 << 30)
        gc.freeze()
    (tmp_path / "made_of_lists.py").write_text("made = [[] for _ in range(10_000)]")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "made_of_lists", raising=False)
    with importing():
        made = import_module("made_of_lists").made
    assert any(o is made[0] for o in gc.get_objects(generation=2))


def test_cycles_of_a_program_that_compiles_and_imports_nothing_are_found() -> None:
    """Each compilation enters the with; Python counts searches until it looks among what is old."""
    gc.collect()
    gc.collect(0)
    gc.collect(0)
    young = gc.get_count()[1]
    with importing():
        pass
    assert gc.get_count()[1] >= young > 0


def test_what_a_program_froze_stays_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_of_nothing.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "made_of_nothing", raising=False)
    gc.freeze()
    with importing():
        import_module("made_of_nothing")
    assert gc.get_freeze_count() > 0
