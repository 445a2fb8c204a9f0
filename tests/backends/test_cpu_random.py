"""Random IR: the CPU against the interpreter, bit by bit where the language says what the bits are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import random_ir
from cpu_rig import EXACT, bind, load
from hypothesis import given
from hypothesis import strategies as st

from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.passes.pipeline import run
from quadrants_lab.pipelines import front
from quadrants_lab.runtime.interpreter import interpret

# what C libraries and numpy round differently, and what shows the sign of a NaN or of a zero
LOOSE = {p.name for p in PRIMS.values() if "@math" in p.llvm} | {"bitcast", "min", "max", "raw_mod"}


def differing(seed: int) -> dict[str, Any]:
    kernel = run(random_ir.random_kernel(seed), front(EXACT))
    want, got = random_ir.arrays(seed), random_ir.arrays(seed)
    interpret(kernel, {"s": 3}, want)
    frame = bind(load(kernel), got, {"s": 3}, threads=1)
    assert frame.launch() == 0
    return {
        name: (want[name], got[name])
        for name in want
        if not np.array_equal(want[name], got[name], equal_nan=want[name].dtype.kind == "f")
    }


@pytest.fixture(autouse=True)
def exact_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_ir, "PRIMS", {name: p for name, p in PRIMS.items() if name not in LOOSE})


@given(st.integers(0, 2**32))
def test_random_kernels(seed: int) -> None:
    assert not differing(seed)
