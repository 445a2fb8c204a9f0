"""Random IR on every backend against the interpreter, bit by bit where the language defines the bits."""

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from programs import random_ir
from rigs import EXACT
from sessions import skips

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.passes.pipeline import run
from quadrants_lab.pipelines.launch import front
from quadrants_lab.runtime.interpret.interpreter import interpret

# what libraries and numpy round differently, and what shows the sign of a NaN or of a zero
LOOSE = {p.name for p in PRIMS.values() if "@math" in p.llvm} | {"bitcast", "min", "max", "raw_mod"}
BATCH = 25  # kernels that simulated Metal compiles at once
BATCHES = 40 if os.environ.get("QL_NIGHTLY") else 1


def one_after_the_other(kernel: N.Kernel) -> N.Kernel:
    """The kernel with a serial loop for each parallel task, because races have no unique outcome."""
    tasks, id = [], kernel.next_id
    for task in kernel.body:
        assert isinstance(task, N.Offload)
        if task.kind != "serial":
            begin, end = task.bounds[-1].operands()
            loop = N.For(id, task.indices[0], begin, end, (), (), task.body, ())
            body = (*task.bounds[:-1], loop, N.Yield(id + 1, ()))
            task = N.Offload(task.id, "serial", (N.Yield(id + 2, ()),), (), body)
            id += 3
        tasks.append(task)
    return replace(kernel, body=tuple(tasks), next_id=id)


def check(rig: Any, exe: Any, seed: int, wide: bool = True, **how: Any) -> None:
    want, got = random_ir.arrays(seed, wide), random_ir.arrays(seed, wide)
    interpret(exe.kernel, {"s": 3}, want)
    assert rig.bind(exe, got, {"s": 3}, **how).launch() == 0
    for name, w in want.items():
        assert np.array_equal(w, got[name], equal_nan=w.dtype.kind == "f"), (seed, name)


@pytest.fixture(autouse=True)
def exact_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_ir, "PRIMS", {name: p for name, p in PRIMS.items() if name not in LOOSE})


ARCHS = ("cpu", "c", "cuda", "vulkan", "wasm")


@pytest.mark.parametrize("arch", [pytest.param(arch, marks=skips(arch)) for arch in ARCHS])
@given(seed=st.integers(0, 2**32))
def test_random_kernels(arch: str, seed: int) -> None:
    rig, kernel = import_module(f"rigs.{arch}_rig"), run(random_ir.random_kernel(seed), front(EXACT))
    if arch == "cpu":  # one thread takes the iterations in their order
        check(rig, rig.load(kernel), seed, threads=1)
    else:
        check(rig, rig.load(one_after_the_other(kernel)), seed)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_kernels_in_msl(batch: int) -> None:
    rig = import_module("rigs.metal_rig")
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    loaded = {s: rig.load(run(random_ir.random_kernel(s, wide=False), front(EXACT))) for s in seeds}
    rig.build(loaded.values())
    for seed, exe in loaded.items():
        check(rig, exe, seed, wide=False)
