"""Elementary functions over lanes: their computations as IR (`_gpu.functions`), a function of the module each.
Arguments of sin, cos and tan beyond the range of the short reduction go to the C library's function, lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu.functions import FUNCTIONS, NEAR, Computation, function
from quadrants_lab.backends._llvm.text import Ty, constant, ty
from quadrants_lab.backends.cpu.lanes.divergence import divergence
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f32

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.text import Function
    from quadrants_lab.backends.cpu.lanes.body import LaneBody

_CIRCULAR = ("sin", "cos", "tan")


def wanted(prim: str, t: DType) -> bool:
    """Whether the primitive is a function of this file on operands of dtype ``t``."""
    return prim in FUNCTIONS and t.is_float and PRIMS[prim].llvm[0] in ("@math", "frem")


def emit(b: LaneBody, prim: str, out: Ty, types: tuple[Ty, ...], args: tuple[str, ...]) -> str:
    """The function on vectors; f16 is computed in f32."""
    fn = b.fn
    if out.dtype is f16:
        wide = ty(f32, b.width)
        args = tuple(fn.let(f"fpext {t.text} {a} to {wide.text}") for t, a in zip(types, args, strict=True))
        value = emit(b, prim, wide, (wide,) * len(args), args)
        return fn.let(f"fptrunc {wide.text} {value} to {out.text}")
    name = f"qd.{prim}.{out.suffix}"
    if name not in fn.module.defined:
        names = [f"%a{n}" for n in range(len(args))]
        params = ", ".join([*(f"{out.text} {a}" for a in names), f"{b.truth} %mask"])
        inner = fn.module.function(name, f"define internal {out.text} @{name}({params}) noinline nounwind")
        value = _compute(b, inner, prim, out, tuple(names), "%mask")
        inner.put(f"ret {out.text} {value}")
        inner.close(library=True)
    return fn.call(out.text, name, *((out.text, a) for a in args), (b.truth, b.mask))


def _compute(b: LaneBody, fn: Function, prim: str, t: Ty, args: tuple[str, ...], mask: str) -> str:
    made = function(prim, t.dtype, False)
    value = _run(b, fn, made, args, mask)
    if prim not in _CIRCULAR:
        return value
    v = t.text
    size = fn.call(v, f"llvm.fabs.{t.suffix}", (v, args[0]))
    far = fn.let(f"fcmp uge {v} {size}, {constant(t, NEAR[t.dtype])}")
    far = fn.let(f"select {b.truth} {mask}, {b.truth} {far}, {b.truth} zeroinitializer")
    some = fn.call("i1", f"llvm.vector.reduce.or.v{t.lanes}i1", (b.truth, far))
    call, join = fn.label("far"), fn.label("join")
    before = fn.block
    fn.branch(some, call, join)
    fn.start(call)
    helper = f"qd.{prim}.far.{t.suffix}"
    c_name = prim if t.dtype.bits == 64 else prim + "f"
    fn.module.declare(c_name, ty(t.dtype).text, (ty(t.dtype).text,), "#0")
    fn.module.helper(helper, _far(helper, c_name, t))
    exact = fn.let(f"call {v} @{helper}({v} {args[0]}, {v} {value}, {b.truth} {far})")
    fn.jump(join)
    fn.start(join)
    return fn.phi(v, (value, before), (exact, call))


def _run(b: LaneBody, fn: Function, made: Computation, args: tuple[str, ...], mask: str) -> str:
    """A computation's block in ``fn``. Its arithmetic is exact: none of the user's fast-math flags."""
    found = divergence(made.block, [p.id for p in made.params])
    inner = type(b)(fn, b.kernel, b.options, b.frame, b.scopes, found, b.width)
    inner.fast = ""
    inner.mask = mask
    inner.polls = False
    for p, a in zip(made.params, args, strict=True):
        inner.define(p.id, p.type, a)
    inner.fn.stmt = b.fn.stmt
    for s in made.block[:-1]:
        inner.statement(s)
    return inner.vector(made.block[-1].operands()[0])


def _far(name: str, c_name: str, t: Ty) -> str:
    """A function: ``c_name`` of the first operand in the lanes of the mask, the second operand in the others."""
    one, v, w = ty(t.dtype).text, t.text, t.lanes
    return f"""\
define internal {v} @{name}({v} %x, {v} %y, <{w} x i1> %mask) noinline nounwind {{
entry:
  %bits = bitcast <{w} x i1> %mask to i{w}
  br label %lane
lane:
  %left = phi i{w} [%bits, %entry], [%rest, %lane]
  %now = phi {v} [%y, %entry], [%next, %lane]
  %n = call i{w} @llvm.cttz.i{w}(i{w} %left, i1 true)
  %a = extractelement {v} %x, i{w} %n
  %r = call {one} @{c_name}({one} %a)
  %next = insertelement {v} %now, {one} %r, i{w} %n
  %less = sub i{w} %left, 1
  %rest = and i{w} %left, %less
  %more = icmp ne i{w} %rest, 0
  br i1 %more, label %lane, label %done
done:
  ret {v} %next
}}"""
