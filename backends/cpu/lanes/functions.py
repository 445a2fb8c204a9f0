"""Elementary functions of values that differ between lanes become functions of the kernel, for emission on vectors."""

from functools import cache

from quadrants_lab.analysis.divergence import divergence
from quadrants_lab.backends._llvm.ops import is_library
from quadrants_lab.backends.cpu.lanes.choose import local_arrays
from quadrants_lab.backends.lower.expression import Scope, X
from quadrants_lab.backends.lower.functions import FUNCTIONS, NEAR, function
from quadrants_lab.backends.lower.math import CIRCULAR
from quadrants_lab.backends.lower.rewrite import Site, rewrite
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType

_HORNER = 4  # with it loops over sines of f32 and f64 in four vectors take 4 % less time than with 2


def lower_lanes(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that elementary functions of values that differ between lanes are calls; others are left to the C
    library."""
    divergent: set[int] = set()
    for task in kernel.tasks:
        if task.lanes:
            divergent |= divergence(task.body, [task.indices[-1].id], (), local_arrays(kernel)).divergent
    rules = {p: _own for p in PRIMS if p in FUNCTIONS}
    return rewrite(kernel, rules, lambda s: s.id in divergent) if divergent else kernel


def _own(s: Site, *args: X) -> X | None:
    return s.call(_function(s.prim, s.t), *args) if is_library(s.prim, s.t) else None


@cache
def _function(prim: str, t: DType) -> N.Function:
    """The function of all devices, except that the C library takes large arguments of circular functions."""
    if prim not in CIRCULAR:
        return function(prim, t)
    s = Scope(t, False, horner=_HORNER)
    x = s.b.param(t, "a")
    with s.b.block() as body:
        a = X(s.b, x.id)
        near = FUNCTIONS[prim][0](s, a)
        (y,) = s.choose(~(a.abs() < NEAR[t]), [t], lambda: [X(s.b, s.b.op(prim, a.id))], lambda: [near])
        s.b.yield_(y.id)
    return N.Function(f"{prim}.{t}.lanes", (x,), t, tuple(body))
