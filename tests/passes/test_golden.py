"""Golden tests: text in, passes, text out.

A ``.qlir`` file holds the input, a line ``// run: pass, pass, ...`` and, after ``// expect:``, the output. What stands
in front of the input as ``//`` lines says what the case shows. Both kernels are verified.
"""

from pathlib import Path

import pytest

from quadrants_lab.adstack.counting import counting_kernel
from quadrants_lab.adstack.size import determine_ad_stack_size
from quadrants_lab.autodiff.forward import forward
from quadrants_lab.autodiff.reverse import reverse
from quadrants_lab.autodiff.temporaries import drop_unread_temporaries
from quadrants_lab.autodiff.unroll import unroll
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import u64
from quadrants_lab.passes.check_bounds import check_bounds, check_division
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.hoist import hoist
from quadrants_lab.passes.narrow_stacks import narrow_stacks
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.pipeline import run
from quadrants_lab.passes.pipelines import FRONT
from quadrants_lab.passes.private import mark_private
from quadrants_lab.passes.reach import mark_reach
from quadrants_lab.passes.simplify import simplify
from quadrants_lab.passes.structure_exits import structure_exits
from quadrants_lab.passes.watch_races import watch_races

PASSES = {
    fn.__name__: (fn,)
    for fn in (
        check_bounds, check_division, counting_kernel, cse, dce, determine_ad_stack_size, drop_unread_temporaries, fold,
        forward, hoist, mark_private, mark_reach, narrow_stacks, offload, reverse, simplify, structure_exits,
    )
} | {"front": FRONT, "unroll 3": (unroll((3, 3)),), "watch_races": (watch_races(suspect=True), dce, simplify)}
PASSES |= {"lower_adstacks": (lower_adstacks(Layout()),), "lower_adstacks 64": (lower_adstacks(Layout(u64, False)),)}
PASSES["lower_adstacks together"] = (lower_adstacks(Layout(lockstep=True, numbered=True)),)
RUN, EXPECT = "// run:", "// expect:"


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[1].glob("*/*.qlir")), ids=lambda p: p.stem)
def test_golden(path, golden):
    head, _, rest = path.read_text().partition(RUN)
    names, _, _ = rest.partition(EXPECT)
    names = names.split("\n", 1)[0]
    kernel = parse_kernel(head)
    after = run(kernel, [p for n in names.split(",") for p in PASSES[n.strip()]], verify=True)
    text = print_kernel(after)
    assert print_kernel(parse_kernel(text)) == text
    golden(path, f"{head}{RUN}{names}\n{EXPECT}\n{text}")
