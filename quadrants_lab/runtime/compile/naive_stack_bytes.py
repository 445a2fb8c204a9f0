"""The stack memory that a gradient would take if it kept every value that its reverse slice needs, for comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.adstack.evaluate import Live, evaluate
from quadrants_lab.adstack.report import START, stack_allocas
from quadrants_lab.adstack.size import determine_ad_stack_size
from quadrants_lab.analysis.algebra import subexpressions
from quadrants_lab.autodiff.unreduced import unreduced
from quadrants_lab.autodiff.unroll import unrolled_loops
from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.runtime.compile.compile import forward_ir

if TYPE_CHECKING:
    from quadrants_lab.runtime.gradient.plan import GradientPlan


@deeply_recursive
def bytes_before(plan: GradientPlan, live: Live) -> int | None:
    """Bytes per iteration in flight of a launch with the data ``live``, without recomputation, packed truth values and
    narrowed integers; None where a loop's trips are not known, because nothing in it is kept and so none were
    counted."""
    compiled = plan.compiled
    forward = forward_ir(compiled.lowered.kernel, compiled.options)
    naive = unreduced(forward)
    allocas = stack_allocas(plan.kernel)
    known = {naive.home.get(s.primal): depth for s, depth in zip(allocas, plan.depths, strict=True)}
    for loop in unrolled_loops(forward, compiled.options.ad_unroll):
        known.pop((loop, 0), None)  # a slot holds values of several trips
    if compiled.options.ad_stack_size or any(s.reason.startswith(START) for s in allocas):
        known = {}  # forced depths, and those of segments, are no trip counts
    total = 0
    for s in stack_allocas(determine_ad_stack_size(naive.kernel)):
        assert s.size is not None
        depth = known.get(naive.home[s.primal])
        if depth is None:
            if any(isinstance(part, S.SizeCounted) for part in subexpressions(s.size)):
                return None
            try:
                depth = evaluate(s.size, live)
            except KeyError:  # reads an argument that did not matter for the depths, or was freed
                return None
        total += depth * s.type.nbytes
    return total
