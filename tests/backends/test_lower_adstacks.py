"""Lowering adstacks to memory keeps the meaning: the interpreter runs the gradients of the programs both ways."""

import numpy as np
import pytest
from programs import PROGRAMS, Program
from programs.seeded import SEEDED
from running import Interpreted, each, f64, interpreted, job_of

from quadrants_lab.backends.lower.adstacks import LowerAdstacks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import u32, u64
from quadrants_lab.ir.verify import verify
from quadrants_lab.ir.walk import walk

LAYOUTS = {
    "one": LowerAdstacks(u64, False), "lanes": LowerAdstacks(u32, True),
    "together": LowerAdstacks(u32, True, True, True),
}  # fmt: skip
STACKED = [*SEEDED.values(), *(p for p in PROGRAMS.values() if p.grad and not p.large)]

pytestmark = pytest.mark.filterwarnings("ignore")


def gradient(program: Program) -> tuple[Interpreted, N.Kernel]:
    run = interpreted(job_of(program, program.cases[-1]), f64)
    return run, run.reverse[-1].kernel


def agree(run: Interpreted, kernel: N.Kernel, *layouts: LowerAdstacks, most: int | None = None) -> bool:
    """Whether stacks of at most ``most`` slots suffice. Every lowered form must give the same results and the same
    first failing iteration."""
    want, expected, _ = run.run_reverse(kernel, most=most)
    for layout in layouts:
        got, result, _ = run.run_reverse(kernel, layout, most)
        assert want.keys() == got.keys()
        for name in want:
            assert np.array_equal(want[name], got[name], equal_nan=True), name
        assert (expected.overflow is None) == (result.overflow is None)
        assert expected.overflow is None or result.overflow is None or expected.overflow[1] == result.overflow[1]
    return expected.overflow is None


@each(STACKED, every=6)
def test_gradients_are_the_same(program: Program) -> None:
    run, kernel = gradient(program)
    if not any(isinstance(s, N.AdStackAlloca) for s in walk(kernel.body)):
        assert LowerAdstacks()(kernel) is kernel
        return
    for layout in LAYOUTS.values():
        lowered = layout(kernel)
        verify(lowered)
        assert not any(type(s).__name__.startswith("AdStack") for s in walk(lowered.body))
        assert print_kernel(parse_kernel(print_kernel(lowered))) == print_kernel(lowered)
    assert agree(run, kernel, *LAYOUTS.values())


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_stacks_that_are_too_small_skip_the_reverse(layout: LowerAdstacks) -> None:
    run, kernel = gradient(PROGRAMS["trip_count_per_iteration"])
    assert not agree(run, kernel, layout, most=1)


def test_every_line_has_its_place_in_the_source() -> None:
    _, kernel = gradient(PROGRAMS["trip_count_per_iteration"])
    lowered = LowerAdstacks()(kernel)
    before = {s.id: s.span for s in walk(kernel.body)}
    places = set(before.values())
    for s in walk(lowered.body):
        assert s.span in places
        assert s.id not in before or s.span == before[s.id]
