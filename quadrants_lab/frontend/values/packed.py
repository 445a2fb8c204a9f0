"""Quantised numbers in kernels: parts of words, which are read and written by shifts and masks.

A word holds numbers of several fields, or of several iterations, so writing a part of it is two atomics, which clear
and set its bits, and ``x[i] += v`` repeats a compare-and-exchange. The formulas are those of `lang.quantised`.
Derivatives go to a field of zeros, the carrier, as if numbers were not rounded.
"""

from __future__ import annotations

import ast
from typing import Any

from quadrants_lab.frontend.values.memory import Element, Mem
from quadrants_lab.frontend.values.number import Index, Num
from quadrants_lab.frontend.values.value import Lowering
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i32, i64, u1, u32


@dataclass(slots=True, eq=False)
class Packed:
    """The memory of a quantised field: the buffer of its words, and that of its carrier, if it has one."""

    field: Any
    words: N.Buffer
    carrier: N.Buffer | None

    def load(self, cx: Lowering, cell: Element) -> Num:
        """The value of one number."""
        part, t = _part(cx, cell), self.words.dtype
        if self.field.array is None:
            word = cx.b.load(part.words, part.at)
        else:  # other iterations write other bits of the word
            word = cx.b.atomic("or", part.words, part.at, cx.const(0, t))
        return Num(_carried(cx, cell, _decoded(cx, self.field.quant, part, word)), self.field.quant.compute)

    def store(self, cx: Lowering, cell: Element, value: int) -> None:
        """Writes one number, a value of the dtype that the kernel computes with."""
        part = _part(cx, cell)
        bits = cx.b.op("shl", _encoded(cx, self.field.quant, value, self.words.dtype), part.shift)
        cx.b.atomic("and", part.words, part.at, cx.b.op("not", part.mask))
        cx.b.atomic("or", part.words, part.at, bits)
        if self.carrier is not None:
            cx.b.store(self.carrier, (*cell.index, *cell.at), _no_value(cx, value))

    def atomic(self, cx: Lowering, op: str, cell: Element, value: int, node: ast.AST) -> Num:
        """``cell op= value``; the old value."""
        quant, t = self.field.quant, self.words.dtype
        if self.carrier is not None and op not in ("add", "sub"):
            raise cx.fail("QL1411", node, op=op, dtype=quant, cure="it has a gradient: use += or -=, or assign to it")
        part = _part(cx, cell)
        word, go = cx.b.param(t), cx.b.param(u1)
        first = cx.b.atomic("or", part.words, part.at, cx.const(0, t)), cx.const(True, u1)
        with cx.b.block() as test:
            cx.b.yield_(go.id)
        with cx.b.block() as body:
            old = _decoded(cx, quant, part, word.id)
            new = value if op == "exchange" else cx.b.op(op, old, value)
            bits = cx.b.op("shl", _encoded(cx, quant, new, t), part.shift)
            wanted = cx.b.op("or", cx.b.op("and", word.id, cx.b.op("not", part.mask)), bits)
            swap = N.Atomic(cx.b.fresh(), t, part.words.name, part.at, wanted, "cas", expected=word.id)
            found = cx.b.add(swap)
            cx.b.yield_(found, cx.b.op("ne", found, word.id))
        last, _ = results = cx.b.param(t), cx.b.param(u1)
        cx.b.add(N.While(cx.b.fresh(), (word, go), first, tuple(test), tuple(body), results))
        was = _decoded(cx, quant, part, last.id)
        if self.carrier is not None:
            was = _carried(cx, cell, was)
            cx.b.atomic(op, self.carrier, (*cell.index, *cell.at), _no_value(cx, value))
        return Num(was, quant.compute)

def memory_of(cx: Lowering, field: Any, text: str) -> Mem:
    """A quantised field. Its buffer, which no statement names, has the shape of the field and the dtype of values."""
    carrier = cx.field(field.carrier, f"{text}.carrier") if field.carrier is not None else None
    packed = Packed(field, cx.field(field.words, f"{text}.words"), carrier)
    shape = (*field.shape, *field.element_shape)
    buffer = N.Buffer(f"{N.buffer_name(text)}.packed", "field", field.quant.compute, len(shape), shape)
    return Mem(buffer, text, field.element_shape, packed=packed)


@dataclass(slots=True)
class _Part:
    """Bits of a word: its index, and the ids of its first bit and of a mask of its bits there."""

    words: N.Buffer
    at: tuple[int, ...]
    shift: int
    mask: int


def _part(cx: Lowering, cell: Element) -> _Part:
    packed: Packed = cell.mem.packed
    t = packed.words.dtype
    index, entry = ([Index(cx, i) for i in ids] for ids in (cell.index, cell.at))
    at, first = packed.field.find(index, entry)
    shift = cx.b.cast(first.id, t) if isinstance(first, Index) else cx.const(first, t)
    mask = cx.b.op("shl", cx.const((1 << packed.field.quant.bits) - 1, t), shift)
    return _Part(packed.words, tuple(i.id for i in at), shift, mask)


def _carried(cx: Lowering, cell: Element, value: int) -> int:
    """The value, with the derivative of the carrier."""
    carrier = cell.mem.packed.carrier
    if carrier is None:
        return value
    found: int = cx.b.op("custom_jvp", value, cx.b.load(carrier, (*cell.index, *cell.at)))
    return found


def _no_value(cx: Lowering, value: int) -> int:
    """A zero that has the derivative of a value."""
    found: int = cx.b.op("custom_jvp", cx.const(0.0, cx.b.types[value]), value)
    return found


# --- bits and values ------------------------------------------------------------------------------------------


def _signed(t: DType) -> DType:
    return i32 if t is u32 else i64


def _decoded(cx: Lowering, quant: Any, part: _Part, word: int) -> int:
    """The value of the bits of a word."""
    b: Builder = cx.b
    t = b.types[word]
    raw = b.op("and", b.op("shr", word, part.shift), cx.const((1 << quant.bits) - 1, t))
    if quant.kind == "float":
        return _decoded_float(cx, quant, b.cast(raw, u32))
    whole = b.op("bitcast", raw, type=_signed(t))
    if quant.signed and quant.bits < t.bits:
        high = cx.const(1 << quant.bits - 1, _signed(t))
        whole = b.op("sub", b.op("xor", whole, high), high)
    if quant.kind == "int":
        return b.cast(raw if not quant.signed else whole, quant.compute)
    value = b.cast(whole if quant.signed else raw, quant.compute)
    return b.op("mul", value, cx.const(quant.scale, quant.compute))


def _encoded(cx: Lowering, quant: Any, value: int, t: DType) -> int:
    """The bits of a value, as the low bits of a word."""
    b: Builder = cx.b
    mask: int = cx.const((1 << quant.bits) - 1, t)
    if quant.kind == "int":
        return b.op("and", b.cast(b.cast(value, _signed(t)) if b.types[value].bits < t.bits else value, t), mask)
    if quant.kind == "float":
        return b.cast(_encoded_float(cx, quant, value), t)
    c = quant.compute
    low, high = quant.limits
    near = b.op("div", value, cx.const(quant.scale, c))
    near = b.op("min", b.op("max", near, cx.const(float(low), c)), cx.const(float(high), c))
    whole = b.cast(near, i64)
    rest = b.op("sub", near, b.cast(whole, c))  # adding a half to the number itself would round once more
    for sign, beyond in ((1, "ge"), (-1, "le")):
        step = b.op("select", b.op(beyond, rest, cx.const(0.5 * sign, c)), cx.const(sign, i64), cx.const(0, i64))
        whole = b.op("add", whole, step)
    # f32 may not have the limits, and then has their neighbours outside
    whole = b.op("min", b.op("max", whole, cx.const(low, i64)), cx.const(high, i64))
    return b.op("and", b.op("bitcast", b.cast(whole, _signed(t)), type=t), mask)


def _decoded_float(cx: Lowering, quant: Any, raw: int) -> int:
    b: Builder = cx.b
    m: int = quant.fraction

    def at(value: int) -> int:
        return b.const(value, u32)

    size = b.op("and", raw, at((1 << m + quant.exp) - 1))
    wide = b.op("add", b.op("shl", size, at(23 - m)), at((127 - quant.bias) << 23))
    sign = b.op("shl", b.op("shr", raw, at(m + quant.exp)), at(31)) if quant.signed else at(0)
    zero = b.op("lt", size, at(1 << m))
    word = b.op("select", zero, at(0), b.op("or", sign, wide))
    return b.cast(b.op("bitcast", word, type=f32), quant.compute)


def _encoded_float(cx: Lowering, quant: Any, value: int) -> int:
    b: Builder = cx.b
    m: int = quant.fraction

    def at(value: int) -> int:
        return b.const(value, u32)

    word = b.op("bitcast", b.cast(value, f32), type=u32)
    sign, size = b.op("shr", word, at(31)), b.op("and", word, at(0x7FFFFFFF))
    rounded = b.op("shr", b.op("add", size, at((1 << 23 - m) >> 1)), at(23 - m))
    least = 127 - quant.bias
    most = ((1 << quant.exp) - 1 - (quant.exp == 8)) << m | (1 << m) - 1
    small = b.op("le", b.op("shr", rounded, at(m)), at(least))
    kept = b.op("select", small, at(0), b.op("min", b.op("sub", rounded, at(least << m)), at(most)))
    if quant.signed:
        return b.op("or", kept, b.op("shl", sign, at(m + quant.exp)))
    return b.op("select", b.op("ne", sign, at(0)), at(0), kept)
