"""Emits calls of the kernel's own functions, with vectors and a mask if there are several lanes, and calls of the C
library's functions, one lane at a time."""

from copy import copy
from dataclasses import replace

from quadrants_lab.analysis.divergence import Divergence, divergence
from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm.body import Body
from quadrants_lab.backends._llvm.ops import library
from quadrants_lab.backends._llvm.text import Ty, ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

_INLINED = 24  # a function with at most so many statements is inlined: a call costs about as much
# these functions compute with rounding errors, so no product and sum in them may be fused and rounded once
_EXACT = ("pow",)


def call(b: Body, s: N.Call) -> None:
    lanes = b.lanes(s.id)
    symbol = f"qd.{s.function}" + (f".v{lanes}" if lanes > 1 else "")
    if symbol not in b.fn.module.defined:
        _define(b, b.kernel.functions[s.function], symbol, lanes)
    args = [(ty(b.types[i], lanes).text, b.value(i, lanes)) for i in s.args]
    mask = [(b.truth, b.mask)] if lanes > 1 else []
    b.define(s.id, s.type, b.fn.call(ty(s.type, lanes).text, symbol, *args, *mask))


def _define(caller: Body, f: N.Function, symbol: str, lanes: int) -> None:
    """Adds the kernel's function ``f`` to the module. It is compiled without the user's fast-math flags, because some
    functions compute the rounding errors of their own sums."""
    b, out, wide = copy(caller), ty(f.type, lanes).text, lanes > 1
    names = [f"%p{n}" for n in range(len(f.params))]
    params = [f"{ty(p.type, lanes).text} {x}" for p, x in zip(f.params, names, strict=True)]
    params += [f"{b.truth} %mask"] * wide
    short = sum(1 for _ in walk(f.body)) <= _INLINED
    how = " noinline nounwind" if wide else " alwaysinline nounwind" if short else ""
    b.fn = caller.fn.module.function(symbol, f"define internal {out} @{symbol}({', '.join(params)}){how}")
    found = divergence(f.body, [p.id for p in f.params]) if wide else Divergence()
    b.divergent, b.per_lane, b.mask = found.divergent, found.per_lane, "%mask"
    b.values, b.types, b.offsets, b.linear, b.polls = {}, {}, {}, set(), False
    b.fast = "contract " if wide and f.name.partition(".")[0] not in _EXACT else ""
    b.ranges = Ranges(replace(b.kernel, body=f.body))
    b.bind(f.params, names)
    b.block(f.body)
    b.fn.put(f"ret {out} {b.value(f.body[-1].operands()[0], lanes)}")
    if wide:
        b.fn.ids = [caller.fn.stmt] * len(b.fn.ids)
        b.fn.close(library=True)
    else:
        b.fn.as_helper(symbol)


def lane_by_lane(b: Body, prim: str, t: Ty, args: tuple[str, ...]) -> str:
    """Emits a call of the C library's function once for each lane that takes part; returns the vector of results."""
    c_name = library({"raw_mod": "fmod"}.get(prim, prim), t.dtype)
    one, helper = ty(t.dtype).text, f"qd.each{len(args)}.{t.suffix}"
    b.fn.module.declare(c_name, one, (one,) * len(args), "#0")
    b.fn.module.helper(helper, _each(helper, t, len(args)))
    return b.fn.call(t.text, helper, ("ptr", f"@{c_name}"), *((t.text, a) for a in args), (b.truth, b.mask))


def _each(name: str, t: Ty, arity: int) -> str:
    """The text of a helper function that takes a C function and ``arity`` vectors, and calls the C function once for
    each lane that the mask selects. The helper stores the vectors in memory and reads single lanes from there: an
    element of a vector at an index known only at run time takes longer, in LLVM and in the processor."""
    one, v, w = ty(t.dtype).text, t.text, t.lanes
    params = ", ".join(f"{v} %x{n}" for n in range(arity))
    copied = "\n".join(f"  %in{n} = alloca {v}\n  store {v} %x{n}, ptr %in{n}" for n in range(arity))
    parts = "\n".join(
        f"  %from{n} = getelementptr {one}, ptr %in{n}, i{w} %n\n  %a{n} = load {one}, ptr %from{n}"
        for n in range(arity)
    )
    args = ", ".join(f"{one} %a{n}" for n in range(arity))
    return f"""\
define internal {v} @{name}(ptr %function, {params}, <{w} x i1> %mask) noinline nounwind {{
entry:
  %bits = bitcast <{w} x i1> %mask to i{w}
{copied}
  %out = alloca {v}
  store {v} zeroinitializer, ptr %out
  br label %lane
lane:
  %left = phi i{w} [%bits, %entry], [%rest, %lane]
  %n = call i{w} @llvm.cttz.i{w}(i{w} %left, i1 true)
{parts}
  %r = call {one} %function({args}) #0
  %to = getelementptr {one}, ptr %out, i{w} %n
  store {one} %r, ptr %to
  %less = sub i{w} %left, 1
  %rest = and i{w} %left, %less
  %more = icmp ne i{w} %rest, 0
  br i1 %more, label %lane, label %done
done:
  %all = load {v}, ptr %out
  ret {v} %all
}}"""
