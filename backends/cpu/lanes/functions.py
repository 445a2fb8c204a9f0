"""Functions over lanes. Each function of a lowered kernel becomes one on vectors and a mask; elementary functions that
have none call the C library, lane by lane."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm.body import HANDLERS, Unit
from quadrants_lab.backends._llvm.ops import library
from quadrants_lab.backends._llvm.text import Ty, ty
from quadrants_lab.backends.cpu.lanes.divergence import divergence
from quadrants_lab.backends.lower.expression import Scope, X
from quadrants_lab.backends.lower.functions import FUNCTIONS, NEAR, function
from quadrants_lab.backends.lower.math import CIRCULAR
from quadrants_lab.backends.lower.rewrite import Site, rewrite
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.lanes.body import LaneBody


def is_library(prim: str, t: DType) -> bool:
    """Whether the primitive is a function of the C library on operands of dtype ``t``."""
    return t.is_float and PRIMS[prim].llvm[0] in ("@math", "frem")


# --- as IR ----------------------------------------------------------------------------------------------------------


def lower_lanes(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that elementary functions of values that differ between lanes are calls; others are left to the C
    library."""
    divergent: set[int] = set()
    for task in kernel.tasks:
        if task.lanes:
            divergent |= divergence(task.body, [task.indices[-1].id]).divergent
    rules = {p: _own for p in PRIMS if p in FUNCTIONS}
    return rewrite(kernel, rules, lambda s: s.id in divergent) if divergent else kernel


def _own(s: Site, *args: X) -> X | None:
    return s.call(_function(s.prim, s.t), *args) if is_library(s.prim, s.t) else None


@cache
def _function(prim: str, t: DType) -> N.Function:
    """The function of all devices, except that the C library takes large arguments of circular functions."""
    if prim not in CIRCULAR:
        return function(prim, t)
    s = Scope(t, False)
    x = s.b.param(t, "a")
    with s.b.block() as body:
        a = X(s.b, x.id)
        near = FUNCTIONS[prim][0](s, a)
        (y,) = s.choose(~(a.abs() < NEAR[t]), [t], lambda: [X(s.b, s.b.op(prim, a.id))], lambda: [near])
        s.b.yield_(y.id)
    return N.Function(f"{prim}.{t}.lanes", (x,), t, tuple(body))


# Functions in which a product and a sum may be rounded once; "pow" relies on what rounding lost.
_FUSED = frozenset(FUNCTIONS) - {"pow", "fmod"}

# --- as LLVM --------------------------------------------------------------------------------------------------------


def call(b: LaneBody, s: N.Call) -> None:
    if b.uniform(s.id):  # the function has ids of its own, which `divergent` does not mean
        outer, b.divergent = b.divergent, set()
        HANDLERS[N.Call](b, s)
        b.divergent = outer
        return
    f = b.kernel.functions[s.function]
    out, types = ty(f.type, b.width), [ty(p.type, b.width).text for p in f.params]
    symbol = f"qd.{f.name}.v{b.width}"
    if symbol not in b.fn.module.defined:
        _make(b, f, symbol, out, types)
    args = zip(types, (b.vector(i) for i in s.args), strict=True)
    b.define(s.id, s.type, b.fn.call(out.text, symbol, *args, (b.truth, b.mask)))


def _make(b: LaneBody, f: N.Function, symbol: str, out: Ty, types: list[str]) -> None:
    """Emits the function, without the user's fast-math flags."""
    names = [f"%a{n}" for n in range(len(types))]
    params = ", ".join([*(f"{t} {a}" for t, a in zip(types, names, strict=True)), f"{b.truth} %mask"])
    fn = b.fn.module.function(symbol, f"define internal {out.text} @{symbol}({params}) noinline nounwind")
    found = divergence(f.body, [p.id for p in f.params])
    kernel = replace(b.kernel, body=f.body)
    inner = type(b)(fn, Unit(kernel, b.unit.options, b.frame), found, b.width)
    inner.fast = "contract " if f.name.partition(".")[0] in _FUSED else ""
    inner.mask = "%mask"
    inner.polls = False
    fn.stmt = b.fn.stmt
    for p, a in zip(f.params, names, strict=True):
        inner.define(p.id, p.type, a)
    for s in f.body[:-1]:
        inner.statement(s)
    fn.put(f"ret {out.text} {inner.vector(f.body[-1].operands()[0])}")
    fn.ids = [b.fn.stmt] * len(fn.ids)
    fn.close(library=True)


def lane_by_lane(b: LaneBody, prim: str, t: Ty, args: tuple[str, ...]) -> str:
    """Calls a function of the C library for each lane that takes part."""
    c_name = library({"raw_mod": "fmod"}.get(prim, prim), t.dtype)
    one, helper = ty(t.dtype).text, f"qd.{prim}.each.{t.suffix}"
    b.fn.module.declare(c_name, one, (one,) * len(args), "#0")
    b.fn.module.helper(helper, _each(helper, c_name, t, len(args)))
    return b.fn.call(t.text, helper, *((t.text, a) for a in args), (b.truth, b.mask))


def _each(name: str, c_name: str, t: Ty, arity: int) -> str:
    one, v, w = ty(t.dtype).text, t.text, t.lanes
    params = ", ".join(f"{v} %x{n}" for n in range(arity))
    parts = "\n".join(f"  %a{n} = extractelement {v} %x{n}, i{w} %n" for n in range(arity))
    args = ", ".join(f"{one} %a{n}" for n in range(arity))
    return f"""\
define internal {v} @{name}({params}, <{w} x i1> %mask) noinline nounwind {{
entry:
  %bits = bitcast <{w} x i1> %mask to i{w}
  br label %lane
lane:
  %left = phi i{w} [%bits, %entry], [%rest, %lane]
  %now = phi {v} [zeroinitializer, %entry], [%next, %lane]
  %n = call i{w} @llvm.cttz.i{w}(i{w} %left, i1 true)
{parts}
  %r = call {one} @{c_name}({args})
  %next = insertelement {v} %now, {one} %r, i{w} %n
  %less = sub i{w} %left, 1
  %rest = and i{w} %left, %less
  %more = icmp ne i{w} %rest, 0
  br i1 %more, label %lane, label %done
done:
  ret {v} %next
}}"""
