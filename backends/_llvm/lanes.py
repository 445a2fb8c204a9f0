"""Represents values over lanes: iterations of a parallel task that run side by side in vector registers (SPMD on
SIMD).

A value that is the same in all lanes is called uniform, and is emitted as a scalar. A value that differs between lanes
is called divergent, and is a vector. If a divergent value grows by one from lane to lane, only the first lane's scalar
is emitted until the vector is needed. In a function of one lane all values are uniform. Where control flow diverges, a
mask says which lanes take part. Loads and stores obey the mask. Arithmetic runs in all lanes; its results in lanes that
do not take part may be poison and are never used.

After Pharr and Mark, "ispc: A SPMD compiler for high-performance CPU programming" (2012), and Karrenberg and Hack,
"Whole-function vectorization" (2011).
"""

from collections.abc import Callable, Iterable
from typing import Any

from quadrants_lab.analysis.divergence import Divergence
from quadrants_lab.backends._llvm.text import Function, constant, ty
from quadrants_lab.backends.lower.sums import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1

# llvm.vector.reduce's name for (float, signed, unsigned)
_REDUCE: dict[str, tuple[str, str, str]] = {
    "add": ("fadd", "add", "add"), "sub": ("fadd", "add", "add"), "mul": ("fmul", "mul", "mul"),
    "min": ("fmin", "smin", "umin"), "max": ("fmax", "smax", "umax"), "and": ("", "and", "and"),
    "or": ("", "or", "or"), "xor": ("", "xor", "xor"),
}  # fmt: skip


class Lanes:
    """The values of the function ``fn``. ``values`` maps the id of a value to its text, ``types`` to its dtype.

    ``width``: the number of lanes. ``divergent``, ``per_lane``: see `Divergence`. ``mask``: a vector of u1, true in the
    lanes that take part; at least one lane always does. With one lane there is no mask.
    """

    def __init__(self, fn: Function, width: int, found: Divergence, mask: str = "") -> None:
        self.fn = fn
        self.width = width
        self.divergent = found.divergent
        self.per_lane = found.per_lane
        self.mask = mask
        self.values: dict[int, str] = {}
        self.types: dict[int, DType] = {}
        # ids of integers that grow by one from lane to lane; `values` has the first lane's value
        self.linear: set[int] = set()
        self.offsets: dict[tuple[Any, ...], str] = {}  # what `once` has emitted; mostly offsets of elements

    def once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        """The value stored under the key. The first call within this block of statements, or a block around it, emits
        it with ``make``."""
        made = self.offsets.get(key)
        if made is None:
            made = self.offsets[key] = make()
        return made

    def define(self, id: int, type: DType, value: str) -> None:
        self.values[id] = value
        self.types[id] = type

    def bind(self, params: Iterable[N.Param], values: Iterable[str]) -> None:
        """Sets the texts of the values that are parameters or results."""
        for p, value in zip(params, values, strict=True):
            self.define(p.id, p.type, value)

    def uniform(self, *ids: int) -> bool:
        """Whether each of these values is the same in all lanes."""
        return self.divergent.isdisjoint(ids)

    def lanes(self, id: int) -> int:
        """How many elements the text of a value has: 1 for a scalar, else the number of lanes."""
        return self.width if id in self.divergent else 1

    def value(self, id: int, lanes: int) -> str:
        """A value as a scalar, or as a vector if ``lanes`` > 1."""
        return self.values[id] if lanes == 1 else self.vector(id)

    def vector(self, id: int) -> str:
        """A value as a vector."""
        t = self.types[id]
        if id in self.linear:
            return self.once(("vector", id), lambda: self.count_up(self.values[id], t))
        return self.values[id] if id in self.divergent else self.splat(self.values[id], t)

    def given(self, takers: tuple[N.Param, ...], ids: tuple[int, ...]) -> tuple[str, ...]:
        """The values ``ids``, each in the form (scalar or vector) of the parameter or result that takes it."""
        return tuple(self.value(i, self.lanes(p.id)) for p, i in zip(takers, ids, strict=True))

    def type_of_param(self, p: N.Param) -> str:
        return ty(p.type, self.lanes(p.id)).text

    # --- vectors ------------------------------------------------------------------------------------------------

    @property
    def truth(self) -> str:
        """The type of a mask."""
        return ty(u1, self.width).text

    def count_up(self, first: str, t: DType) -> str:
        return self.fn.let(f"add {ty(t, self.width).text} {self.splat(first, t)}, {self.numbers(t)}")

    def numbers(self, t: DType) -> str:
        """The constant vector 0, 1, 2, ... with an element for each lane."""
        return "<" + ", ".join(f"{ty(t).text} {n}" for n in range(self.width)) + ">"

    def splat(self, value: str, t: DType) -> str:
        """A vector that has the scalar in every lane."""
        if value[0] != "%":
            return f"splat ({ty(t).text} {value})"
        return self.spread(value, ty(t).text)

    def spread(self, value: str, t: str) -> str:
        """Like `splat`, for a value that has a name and the LLVM type ``t``."""

        def make() -> str:
            one = self.fn.let(f"insertelement <{self.width} x {t}> poison, {t} {value}, i64 0")
            v = f"<{self.width} x {t}>"
            return self.fn.let(f"shufflevector {v} {one}, {v} poison, <{self.width} x i32> zeroinitializer")

        return self.once(("splat", value), make)

    def select(self, cond: str, a: str, b: str, t: DType) -> str:
        """Emits a vector that has in each lane ``a`` if the mask ``cond`` holds there, else ``b``."""
        v = ty(t, self.width).text
        return self.fn.let(f"select {self.truth} {cond}, {v} {a}, {v} {b}")

    def masked(self, mask: str, cond: str) -> str:
        """The mask of those lanes of ``mask`` in which ``cond`` holds. In lanes outside ``mask``, ``cond`` may be
        poison."""
        return self.select(mask, cond, "zeroinitializer", u1)

    def inverse(self, mask: str) -> str:
        return self.fn.let(f"xor {self.truth} {mask}, splat (i1 true)")

    def any(self, mask: str) -> str:
        return self.fn.call("i1", f"llvm.vector.reduce.or.v{self.width}i1", (self.truth, mask))

    def first(self, mask: str) -> str:
        """The index of the first lane that the mask selects, an i64. The mask must not be empty."""
        return self.lowest(self.fn.let(f"bitcast {self.truth} {mask} to i{self.width}"))

    def lowest(self, bits: str) -> str:
        """The index of the lowest set bit of a mask that was cast to an integer, an i64."""
        t = f"i{self.width}"
        n = self.fn.call(t, f"llvm.cttz.{t}", (t, bits), ("i1", "true"))
        return n if self.width == 64 else self.fn.let(f"zext {t} {n} to i64")

    def each_lane(self, body: Callable[..., tuple[str, ...]], *first: tuple[str, str]) -> list[str]:
        """Emits a loop over the lanes that take part. ``first``: the types and first values of what the loop carries.
        ``body`` gets the lane's index, an i64, and the carried values, and returns the next ones. Returns the last
        carried values."""
        fn, t = self.fn, f"i{self.width}"
        loop, done = fn.label("lane"), fn.label("done")
        (left, *carried), again = fn.cycle(loop, (t, fn.let(f"bitcast {self.truth} {self.mask} to {t}")), *first)
        nexts = body(self.lowest(left), *carried)
        rest = fn.let(f"and {t} {left}, {fn.let(f'sub {t} {left}, 1')}")
        again(rest, *nexts)
        fn.branch(fn.let(f"icmp ne {t} {rest}, 0"), loop, done)
        fn.start(done)
        return [*nexts]

    def reduce(self, name: str, t: DType, value: str) -> str:
        """The scalar that LLVM's intrinsic ``llvm.vector.reduce.name`` makes of a vector."""
        v = ty(t, self.width)
        start = {"fadd": "-0.0", "fmul": "1.0"}.get(name)
        first = ((ty(t).text, start),) if start else ()
        flags = "reassoc " if start else ""
        return self.fn.call(ty(t).text, f"llvm.vector.reduce.{name}.{v.suffix}", *first, (v.text, value), flags=flags)

    def combined(self, op: str, t: DType, value: str) -> str:
        """Emits a scalar: all elements of the vector ``value``, combined by the operation of ``buffer op= value``."""
        return value if self.width == 1 else self.reduce(_REDUCE[op]["fiu".index(t.kind)], t, value)

    def taking_part(self, op: str, t: DType, value: str) -> str:
        """Emits a vector with ``value`` in the lanes that take part, and the identity of the operation ``op`` in
        other lanes."""
        if self.width == 1:
            return value
        rest = identity("add" if op == "sub" else op, t)
        return self.select(self.mask, value, constant(ty(t, self.width), rest), t)
