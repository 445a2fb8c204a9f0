"""Every program of the table, values and gradients in f32: the simulated Metal device against the oracle."""

from __future__ import annotations

from typing import Any

import metal_rig
import numpy as np
import pytest
from programs import PROGRAMS, Program
from running import Arrays, differences, f32, interpreted, job_of

from quadrants_lab.adstack.evaluate import evaluate
from quadrants_lab.backends.metal.executable import Executable
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.gradient import Live


def run(exe: Executable, arrays: Arrays, scalars: dict[str, Any], caps: list[int]) -> metal_rig.Bound:
    kernel = exe.kernel
    used = {name: arrays[name] for name, b in kernel.buffers.items() if b.kind in ("field", "ndarray")}
    given = {a.name: scalars[a.name] for a in kernel.args}
    bound = metal_rig.bind(exe, used, given, caps)
    assert bound.launch() & ~8 == 0, bound.failure()
    return bound


@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in PROGRAMS.values()])
def test_program(program: Program) -> None:
    for case in program.cases:
        job = job_of(program, case)
        outcome = job.oracle()
        made = interpreted(job, f32, program.grad)
        kernels: list[N.Kernel] = [made.forward[-1].kernel]
        if program.grad:
            kernels.append(made.reverse[-1].kernel)
        if made.counting is not None:
            kernels.append(made.counting)
        forward, *rest = loaded = [metal_rig.load(k) for k in kernels]
        metal_rig.build(loaded)
        arrays = job.arrays(f32)
        named = made._named(arrays)
        bound = run(forward, named, job.scalars, [])
        if outcome.returned is not None:
            np.testing.assert_allclose(bound.ret("ret0"), outcome.returned, rtol=program.tol32)
        if rest:
            counted = {}
            for counting in rest[1:]:
                frame = run(counting, named, job.scalars, [0] * len(counting.layout.frame.stacks))
                rets = [b.name for b in counting.kernel.buffers.values() if b.kind == "ret"]
                counted = {int(name.removeprefix("depth")): frame.ret(name) for name in rets}
            live = Live(dict(job.scalars), named)
            stacks = rest[0].layout.frame.stacks
            caps = [evaluate(s.size, live, counted) for s in stacks if s.size is not None]
            run(rest[0], named, job.scalars, caps)
        assert not differences(job, outcome, arrays, program.tol32, gradient=program.grad), case
