"""The primitives on the simulated Metal device."""

from __future__ import annotations

from typing import Any

import metal_rig
import pytest
from conformance_prims import *  # noqa: F403
from conformance_prims import check, values

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
