"""The counting slice of a gradient writes nothing but its counts."""

import pytest
from programs import PROGRAMS
from running import each, interpreted, job_of
from seeded import SEEDED

from quadrants_lab.adstack.counting import counting_kernel
from quadrants_lab.adstack.sparse_iterations import ROWS, sparse_iterations
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.dce import dce

ALL = [*(p for p in PROGRAMS.values() if p.grad), *SEEDED.values()]


def written(kernel: N.Kernel) -> set[str]:
    return {s.buffer for s in walk(dce(kernel).body) if isinstance(s, (N.Store, N.Atomic))}


@pytest.mark.filterwarnings("ignore")
@each(ALL, every=2)
def test_only_counts_are_written(program) -> None:
    reverse = interpreted(job_of(program, program.cases[0])).reverse[-1].kernel
    for counter in (counting_kernel(reverse), (found := sparse_iterations(reverse)) and found.lists):
        if counter is not None:
            kinds = {name: counter.buffers[name].kind for name in written(counter) if not name.startswith(ROWS)}
            put_back = {name for name in kinds if any(b.startswith(f"{name}.kept") for b in counter.buffers)}
            assert {kind for name, kind in kinds.items() if name not in put_back} <= {"temp", "ret", "scratch"}, kinds
