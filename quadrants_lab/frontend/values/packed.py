"""Reads and writes quantised numbers in kernels: parts of words, by shifts and masks.

A word holds numbers of several fields, or of several iterations. So a store is two atomics, which clear and set bits,
and ``x[i] += v`` repeats a compare-and-exchange. A derivative belongs to the carrier of the quantised field, a field of
zeros beside it, and is computed as if numbers were not rounded.

`decoded` and `encoded` are the formulas. Their operations are emitted (`Emitted`), or computed by numpy where Python
reads and writes the field (`lang.quantised.Computed`).
"""

from __future__ import annotations

import ast
from typing import Any

from quadrants_lab.frontend.values.memory import Element, Mem
from quadrants_lab.frontend.values.number import Index, Num, id_of
from quadrants_lab.frontend.values.value import Lowering
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i32, i64, u1, u32


@dataclass(slots=True, eq=False)
class Packed:
    """The memory of a quantised field: the buffer of its words, and the buffer of its carrier (for derivatives), if it
    has one."""

    field: Any
    words: N.Buffer
    carrier: N.Buffer | None

    def load(self, cx: Lowering, cell: Element) -> Num:
        """Emits the load of one number of the field; returns its value."""
        part, t = _part(cx, cell), self.words.dtype
        if self.field.array is None:
            word = cx.b.load(part.words, part.at)
        else:  # other iterations write other bits of the word
            word = cx.b.atomic("or", part.words, part.at, cx.const(0, t))
        return Num(_carried(cx, cell, _value(cx, cell, part, word)), self.field.dtype.compute)

    def store(self, cx: Lowering, cell: Element, value: int) -> None:
        """Emits the store of one number. ``value`` has the dtype in which the kernel computes."""
        part = _part(cx, cell)
        bits = cx.b.op("shl", encoded(Emitted(cx), self.field.dtype, value, self.words.dtype), part.shift)
        cx.b.atomic("and", part.words, part.at, cx.b.op("not", part.mask))
        cx.b.atomic("or", part.words, part.at, bits)
        if self.carrier is not None:
            cx.b.store(self.carrier, (*cell.index, *cell.at), _no_value(cx, value))

    def atomic(self, cx: Lowering, op: str, cell: Element, value: int, node: ast.AST) -> Num:
        """``cell op= value``; the old value."""
        quant, t = self.field.dtype, self.words.dtype
        if self.carrier is not None and op not in ("add", "sub"):
            raise cx.fail("QL1411", node, op=op, dtype=quant, cure="it has a gradient: use += or -=, or assign to it")
        part = _part(cx, cell)
        word, go = cx.b.param(t), cx.b.param(u1)
        first = cx.b.atomic("or", part.words, part.at, cx.const(0, t)), cx.const(True, u1)
        with cx.b.block() as test:
            cx.b.yield_(go.id)
        with cx.b.block() as body:
            old = _value(cx, cell, part, word.id)
            new = value if op == "exchange" else cx.b.op(op, old, value)
            bits = cx.b.op("shl", encoded(Emitted(cx), quant, new, t), part.shift)
            wanted = cx.b.op("or", cx.b.op("and", word.id, cx.b.op("not", part.mask)), bits)
            swap = N.Atomic(cx.b.fresh(), t, part.words.name, part.at, wanted, "cas", expected=word.id)
            found = cx.b.add(swap)
            cx.b.yield_(found, cx.b.op("ne", found, word.id))
        last, _ = results = cx.b.param(t), cx.b.param(u1)
        cx.b.add(N.While(cx.b.fresh(), (word, go), first, tuple(test), tuple(body), results))
        was = _value(cx, cell, part, last.id)
        if self.carrier is not None:
            was = _carried(cx, cell, was)
            cx.b.atomic(op, self.carrier, (*cell.index, *cell.at), _no_value(cx, value))
        return Num(was, quant.compute)


def memory_of(cx: Lowering, field: Any, text: str) -> Mem:
    """The value for a quantised field. Its ``buffer`` only describes the field's shape and the dtype of its numbers; no
    statement names it."""
    carrier = cx.field(field.carrier, f"{text}.carrier") if field.carrier is not None else None
    packed = Packed(field, cx.field(field.words, f"{text}.words"), carrier)
    shape = (*field.shape, *field.element_shape)
    buffer = N.Buffer(f"{N.buffer_name(text)}.packed", "field", field.dtype.compute, len(shape), shape)
    return Mem(buffer, text, field.element_shape, packed=packed)


@dataclass(slots=True)
class _Part:
    """The part of a word that holds one number: the word's index, the id of the number's first bit, and the id of a
    mask for its bits."""

    words: N.Buffer
    at: tuple[int, ...]
    shift: int
    mask: int


def _part(cx: Lowering, cell: Element) -> _Part:
    packed: Packed = cell.mem.packed
    t = packed.words.dtype
    index, entry = ([Index(cx, i) for i in ids] for ids in (cell.index, cell.at))
    at, first = packed.field.find(index, entry)
    shift = cx.b.cast(id_of(cx, first, t), t)
    mask = cx.b.op("shl", cx.const((1 << packed.field.dtype.bits) - 1, t), shift)
    return _Part(packed.words, tuple(i.id for i in at), shift, mask)


def _value(cx: Lowering, cell: Element, part: _Part, word: int) -> int:
    """The number in this part of the loaded ``word``."""
    t, quant = cx.b.types[word], cell.mem.packed.field.dtype
    raw = cx.b.op("and", cx.b.op("shr", word, part.shift), cx.const((1 << quant.bits) - 1, t))
    return decoded(Emitted(cx), quant, raw, t)  # type: ignore[no-any-return]  # of ids an id


def _carried(cx: Lowering, cell: Element, value: int) -> int:
    """Returns the value with the derivative of the carrier's element, so that gradients of the quantised number go
    to the carrier."""
    carrier = cell.mem.packed.carrier
    if carrier is None:
        return value
    found: int = cx.b.op("carried", value, cx.b.load(carrier, (*cell.index, *cell.at)))
    return found


def _no_value(cx: Lowering, value: int) -> int:
    """A zero that has the derivative of a value."""
    found: int = cx.b.op("carried", cx.const(0.0, cx.b.types[value]), value)
    return found


# --- bits and values ------------------------------------------------------------------------------------------


class Emitted:
    """The operations that `decoded` and `encoded` use, as IR: each emits a primitive of `ir.prims`, and takes and
    returns ids."""

    def __init__(self, cx: Lowering) -> None:
        self.op, self.cast, self.const, self.types = cx.b.op, cx.b.cast, cx.const, cx.b.types

    def seen(self, x: int, t: DType) -> int:
        """The bits of ``x`` as a value of the dtype ``t``."""
        found: int = self.op("bitcast", x, type=t)
        return found

    def bits(self, x: int) -> int:
        """The width of the dtype of ``x`` in bits."""
        return self.types[x].bits  # type: ignore[no-any-return]  # of a `DType`


def _signed(t: DType) -> DType:
    return i32 if t is u32 else i64


def decoded(on: Any, quant: Any, raw: Any, t: DType) -> Any:
    """The number that the bits ``raw`` mean for the quantised type ``quant``. They are the low bits of a value of the
    dtype ``t``."""
    if quant.kind == "float":
        return _decoded_float(on, quant, on.cast(raw, u32))
    whole = on.seen(raw, _signed(t))
    if quant.signed and quant.bits < t.bits:
        high = on.const(1 << quant.bits - 1, _signed(t))
        whole = on.op("sub", on.op("xor", whole, high), high)
    value = on.cast(whole if quant.signed else raw, quant.compute)
    return value if quant.kind == "int" else on.op("mul", value, on.const(quant.scale, quant.compute))


def encoded(on: Any, quant: Any, value: Any, t: DType) -> Any:
    """The bits that stand for ``value`` in the quantised type ``quant``, as the low bits of a value of the dtype
    ``t``."""
    mask = on.const((1 << quant.bits) - 1, t)
    if quant.kind == "int":
        return on.op("and", on.cast(on.cast(value, _signed(t)) if on.bits(value) < t.bits else value, t), mask)
    if quant.kind == "float":
        return on.cast(_encoded_float(on, quant, value), t)
    c = quant.compute
    low, high = quant.limits
    near = on.op("div", value, on.const(quant.scale, c))
    near = on.op("min", on.op("max", near, on.const(float(low), c)), on.const(float(high), c))
    whole = on.cast(near, i64)
    rest = on.op("sub", near, on.cast(whole, c))  # adding 0.5 to the number itself would round once more
    for sign, beyond in ((1, "ge"), (-1, "le")):
        step = on.op("select", on.op(beyond, rest, on.const(0.5 * sign, c)), on.const(sign, i64), on.const(0, i64))
        whole = on.op("add", whole, step)
    # f32 may not represent the limits exactly; it then has neighbours that lie outside the range
    whole = on.op("min", on.op("max", whole, on.const(low, i64)), on.const(high, i64))
    return on.op("and", on.seen(on.cast(whole, _signed(t)), t), mask)


def _decoded_float(on: Any, quant: Any, raw: Any) -> Any:
    m: int = quant.fraction

    def at(value: int) -> Any:
        return on.const(value, u32)

    size = on.op("and", raw, at((1 << m + quant.exp) - 1))
    wide = on.op("add", on.op("shl", size, at(23 - m)), at((127 - quant.bias) << 23))
    sign = on.op("shl", on.op("shr", raw, at(m + quant.exp)), at(31)) if quant.signed else at(0)
    zero = on.op("lt", size, at(1 << m))
    word = on.op("select", zero, at(0), on.op("or", sign, wide))
    return on.cast(on.seen(word, f32), quant.compute)


def _encoded_float(on: Any, quant: Any, value: Any) -> Any:
    m: int = quant.fraction

    def at(value: int) -> Any:
        return on.const(value, u32)

    word = on.seen(on.cast(value, f32), u32)
    sign, size = on.op("shr", word, at(31)), on.op("and", word, at(0x7FFFFFFF))
    rounded = on.op("shr", on.op("add", size, at((1 << 23 - m) >> 1)), at(23 - m))
    least = 127 - quant.bias
    most = ((1 << quant.exp) - 1 - (quant.exp == 8)) << m | (1 << m) - 1
    small = on.op("le", on.op("shr", rounded, at(m)), at(least))
    kept = on.op("select", small, at(0), on.op("min", on.op("sub", rounded, at(least << m)), at(most)))
    if quant.signed:
        return on.op("or", kept, on.op("shl", sign, at(m + quant.exp)))
    return on.op("select", on.op("ne", sign, at(0)), at(0), kept)
