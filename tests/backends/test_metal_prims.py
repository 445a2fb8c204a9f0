"""The primitives on the simulated Metal device."""

from __future__ import annotations

from typing import Any

import metal_rig
import pytest
from conformance_prims import *  # noqa: F403
from conformance_prims import check, pairs, typed_rows, values

from quadrants_lab.backends.metal import simulator
from quadrants_lab.ir.types import DTYPES, f64

NARROW = {name: t for name, t in DTYPES.items() if t is not f64}


@pytest.fixture
def rig() -> Any:
    return metal_rig


@pytest.mark.parametrize("name", NARROW)
def test_casts(rig: Any, name: str) -> None:
    t = NARROW[name]
    a = values(t, 200, 6)
    check(rig, [("cast", u, (t,)) for u in NARROW.values()], a, a, ulps=0)


@pytest.mark.parametrize("name", NARROW)
def test_nothing_that_c_leaves_undefined(
    rig: Any, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No signed overflow, no shift by the width, no division by zero, no float that its integer cannot hold: MSL has
    C++'s rules."""
    checks = "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,bounds,alignment"
    monkeypatch.setattr(simulator, "_FLAGS", (*simulator._FLAGS, checks))
    monkeypatch.setattr(simulator, "_version", lambda: checks)
    monkeypatch.setattr(simulator, "_loaded", {})
    t = NARROW[name]
    a = values(t, 200, 6)
    check(rig, [("cast", u, (t,)) for u in NARROW.values()], a, a, ulps=0)
    check(rig, typed_rows(t, math=False), *pairs(t, 1), ulps=0)
    assert "runtime error" not in capfd.readouterr().err
