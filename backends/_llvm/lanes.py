"""Values over lanes: iterations of a parallel task that run side by side in vector registers (SPMD on SIMD).

A value that all lanes share is uniform, and a scalar. A divergent value is a vector. If it grows by one from lane to
lane, it is the scalar of the first lane until the vector is needed. In a function of one lane all values are uniform.
Where control flow diverges, a mask says which lanes take part. Loads and stores obey the mask. Arithmetic runs in all
lanes; results in lanes that take no part may be poison and are never used.

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
    """The values of the function ``fn``. ``values`` maps ids to the text of their value, ``types`` to their dtype.

    ``width``: the number of lanes. ``divergent``, ``per_lane``: see `Divergence`. ``mask``: a vector of u1, true in the
    lanes that take part, of which there is always at least one. With one lane there is no mask.
    """

    def __init__(self, fn: Function, width: int, found: Divergence, mask: str = "") -> None:
        self.fn = fn
        self.width = width
        self.divergent = found.divergent
        self.per_lane = found.per_lane
        self.mask = mask
        self.values: dict[int, str] = {}
        self.types: dict[int, DType] = {}
        self.linear: set[int] = set()  # integers that count up from lane to lane; their value here is the first lane's
        self.offsets: dict[tuple[Any, ...], str] = {}  # see `once`; most are offsets of elements

    def once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        """The value for the key; the first call in this block, or in one around it, makes it."""
        made = self.offsets.get(key)
        if made is None:
            made = self.offsets[key] = make()
        return made

    def define(self, id: int, type: DType, value: str) -> None:
        self.values[id] = value
        self.types[id] = type

    def bind(self, params: Iterable[N.Param], values: Iterable[str]) -> None:
        """Defines parameters or results."""
        for p, value in zip(params, values, strict=True):
            self.define(p.id, p.type, value)

    def uniform(self, *ids: int) -> bool:
        """Whether all these values are uniform."""
        return self.divergent.isdisjoint(ids)

    def lanes(self, id: int) -> int:
        """The number of elements of a value."""
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
        """Values in the form, scalar or vector, that these parameters or results have."""
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
        """0, 1, 2, ..."""
        return "<" + ", ".join(f"{ty(t).text} {n}" for n in range(self.width)) + ">"

    def splat(self, value: str, t: DType) -> str:
        """A scalar in every lane."""
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
        """In each lane ``a`` where the mask ``cond`` holds, else ``b``."""
        v = ty(t, self.width).text
        return self.fn.let(f"select {self.truth} {cond}, {v} {a}, {v} {b}")

    def masked(self, mask: str, cond: str) -> str:
        """The lanes of ``mask`` where ``cond`` holds. In other lanes ``cond`` may be poison."""
        return self.select(mask, cond, "zeroinitializer", u1)

    def inverse(self, mask: str) -> str:
        return self.fn.let(f"xor {self.truth} {mask}, splat (i1 true)")

    def any(self, mask: str) -> str:
        return self.fn.call("i1", f"llvm.vector.reduce.or.v{self.width}i1", (self.truth, mask))

    def first(self, mask: str) -> str:
        """The number of the first lane of a mask that is not empty, an i64."""
        return self.lowest(self.fn.let(f"bitcast {self.truth} {mask} to i{self.width}"))

    def lowest(self, bits: str) -> str:
        """The number of the lowest set bit of a mask that is an integer, as i64."""
        t = f"i{self.width}"
        n = self.fn.call(t, f"llvm.cttz.{t}", (t, bits), ("i1", "true"))
        return n if self.width == 64 else self.fn.let(f"zext {t} {n} to i64")

    def each_lane(self, body: Callable[..., tuple[str, ...]], *first: tuple[str, str]) -> list[str]:
        """A loop over the lanes that take part. ``first``: types and first values of what the loop carries. ``body``
        gets the lane's number, an i64, and the carried values, and returns the next ones. Returns the last carried
        values."""
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
        """The scalar that llvm.vector.reduce makes of a vector."""
        v = ty(t, self.width)
        start = {"fadd": "-0.0", "fmul": "1.0"}.get(name)
        first = ((ty(t).text, start),) if start else ()
        flags = "reassoc " if start else ""
        return self.fn.call(ty(t).text, f"llvm.vector.reduce.{name}.{v.suffix}", *first, (v.text, value), flags=flags)

    def combined(self, op: str, t: DType, value: str) -> str:
        """The combination of all elements of ``value``, for ``buffer op= value``."""
        return value if self.width == 1 else self.reduce(_REDUCE[op]["fiu".index(t.kind)], t, value)

    def taking_part(self, op: str, t: DType, value: str) -> str:
        """``value`` in the lanes that take part; in other lanes the identity of ``buffer op= value``."""
        if self.width == 1:
            return value
        rest = identity("add" if op == "sub" else op, t)
        return self.select(self.mask, value, constant(ty(t, self.width), rest), t)
