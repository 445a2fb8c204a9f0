"""Code objects of every program of the table, forward and reverse: a selection by day, all of them for three chips by
night."""

import pytest
from programs import PROGRAMS, Program
from rigs import amdgpu_objects
from running import f32, interpreted, job_of
from sessions import NIGHT

from quadrants_lab.backends.amdgpu import listings
from quadrants_lab.ir.options import CompileOptions

BY_DAY = 108  # one program of so many
WAYS = [
    pytest.param(p, chip, id=f"{p.name}-{chip}")
    for k, chip in enumerate(("gfx90a", "gfx942", "gfx1100"))
    for n, p in enumerate(PROGRAMS.values())
    if NIGHT or (n % BY_DAY == k and not p.large)
]


@pytest.mark.parametrize(("program", "chip"), WAYS)
def test_code_objects(program: Program, chip: str) -> None:
    job = job_of(program, program.cases[0])
    run = interpreted(job, f32, gradient=program.grad)
    kernels = [run.forward[-1].kernel, *([run.reverse[-1].kernel] if program.grad else [])]
    if run.counting is not None:
        kernels.append(run.counting)
    for kernel in kernels:
        for options in (CompileOptions(), CompileOptions(fast_math=False, debug=True)):
            read = amdgpu_objects.check(listings.object_of(kernel, options, chip), kernel, chip)
            assert all(p.spilled == 0 for p in read.programs)
