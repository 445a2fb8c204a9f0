"""Random IR: the simulated Metal device against the interpreter, bit by bit where the language says what they are."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import random_ir
from metal_rig import EXACT, bind, build, load

from quadrants_lab.backends.metal.executable import Executable
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.passes.pipeline import run
from quadrants_lab.pipelines import front
from quadrants_lab.runtime.interpreter import interpret

# what C libraries and numpy round differently, and what shows the sign of a NaN or of a zero
LOOSE = {p.name for p in PRIMS.values() if "@math" in p.llvm} | {"bitcast", "min", "max", "raw_mod"}
BATCH = 25  # kernels compiled at once
BATCHES = 40 if os.environ.get("QL_NIGHTLY") else 2


def differing(seed: int, exe: Executable) -> dict[str, Any]:
    want, got = random_ir.arrays(seed, wide=False), random_ir.arrays(seed, wide=False)
    interpret(exe.kernel, {"s": 3}, want)
    assert bind(exe, got, {"s": 3}).launch() == 0
    return {
        name: (want[name], got[name])
        for name in want
        if not np.array_equal(want[name], got[name], equal_nan=want[name].dtype.kind == "f")
    }


@pytest.fixture(autouse=True)
def exact_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_ir, "PRIMS", {name: p for name, p in PRIMS.items() if name not in LOOSE})


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_kernels(batch: int) -> None:
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    loaded = {s: load(run(random_ir.random_kernel(s, wide=False), front(EXACT))) for s in seeds}
    build(loaded.values())
    for seed, exe in loaded.items():
        assert not differing(seed, exe), seed
