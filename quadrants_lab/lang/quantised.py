"""Implements quantised fields: numbers of few bits, several of them in a word of memory (Hu et al., QuanTaichi,
2021).

`qd.types.quant` makes their types. `qd.BitpackedFields` puts elements of several fields into one word,
`SNode.quant_array` several elements of one field. A word is 32 or 64 bits of an ordinary field of whole numbers;
kernels read and write its parts by shifts and masks, Python by the same formulas (`frontend.values.packed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, i32, u32, u64
from quadrants_lab.lang.dense import Dense, Field, ScalarField
from quadrants_lab.lang.derivatives import NoDerivative
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.matrix import Matrix, Vector, plain

Array = npt.NDArray[Any]


# the formulas that kernels use, too; imported late, with the compiler, which most programs need later
_decoded, _encoded = (lazily("frontend.values.packed", name) for name in ("decoded", "encoded"))


class Computed:
    """The operations that the formulas of `frontend.values.packed` use, on numpy arrays."""

    _UFUNCS: ClassVar[dict[str, Any]] = {
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum,
        "lt": np.less, "le": np.less_equal, "ge": np.greater_equal, "ne": np.not_equal, "select": np.where,
    }  # fmt: skip

    @classmethod
    def op(cls, name: str, *args: Any) -> Array:
        return np.asarray(cls._UFUNCS[name](*args))

    @staticmethod
    def const(value: Any, t: DType) -> Any:
        return t.numpy(value)

    @staticmethod
    def cast(x: Array, t: DType) -> Array:
        return x.astype(t.numpy)

    @staticmethod
    def seen(x: Array, t: DType) -> Array:
        return x.view(t.numpy)

    @staticmethod
    def bits(x: Array) -> int:
        return x.dtype.itemsize * 8


@dataclass(frozen=True, slots=True)
class QuantType:
    """The type of quantised numbers, stored in ``bits`` bits; kernels compute with them in the dtype ``compute``.

    ``kind`` "int": whole numbers in two's complement; higher bits of a number that does not fit are cut off. "fixed":
    whole multiples of ``scale``. "float": a sign if ``signed``, ``exp`` bits of exponent, with a bias of ``2**(exp - 1)
    - 1``, and the rest of the fraction, without its leading 1; an exponent of 0 is the number 0. Real numbers are
      rounded to the nearest number of the type. A number out of range becomes the greatest or the least one, and a
      number below the least exponent of a "float" becomes 0.
    """

    kind: str
    bits: int
    signed: bool
    compute: DType
    scale: float = 1.0
    exp: int = 0

    @property
    def fraction(self) -> int:
        """The number of bits of the fraction of a "float"."""
        return self.bits - self.exp - self.signed

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest whole number that the bits can represent."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)

    def decoded(self, raw: Array) -> Array:
        """The numbers that these bits, an array of u64, stand for."""
        with np.errstate(all="ignore"):
            return np.asarray(_decoded(Computed, self, raw, u64))

    def encoded(self, values: Array) -> Array:
        """The bits of numbers, as an array of u64."""
        with np.errstate(all="ignore"):
            return np.asarray(_encoded(Computed, self, values.astype(self.compute.numpy), u64))

    @property
    def bias(self) -> int:
        """The bias of the exponents of a "float"."""
        return (1 << self.exp - 1) - 1

    def __repr__(self) -> str:
        how = f"exp={self.exp}, frac={self.bits - self.exp}" if self.kind == "float" else f"bits={self.bits}"
        return f"qd.types.quant.{self.kind}({how}, signed={self.signed})"


def _bits(what: str, bits: Any, least: int, most: int) -> int:
    if not isinstance(bits, int) or not least <= bits <= most:
        raise QuadrantsRuntimeTypeError(f"{what} is {least} to {most} bits, not {bits!r}", code="QL2028")
    return bits


def _compute(given: Any, default: DType) -> DType:
    found = default if given is None else as_dtype(given)
    if found.is_float is not default.is_float:
        kind = "real" if default.is_float else "whole"
        raise QuadrantsRuntimeTypeError(f"compute={found} is no dtype of {kind} numbers", code="QL2028")
    return found


def _quant_int(bits: Any, signed: bool = True, compute: Any = None) -> QuantType:
    """Whole numbers of 1 to 32 ``bits`` in two's complement; kernels compute with ``compute``, i32 by default."""
    return QuantType("int", _bits("a quantised integer", bits, 1, 32), bool(signed), _compute(compute, i32))


def _quant_fixed(
    bits: Any, signed: bool = True, max_value: float = 1.0, compute: Any = None, scale: Any = None
) -> QuantType:
    """Multiples of ``scale`` in 2 to 32 ``bits``. Without a scale, they reach to ``max_value``, which is just too
    large: the scale is ``max_value / 2**bits``, twice that if they are ``signed``. ``compute`` is f32 by default."""
    n = _bits("a fixed-point number", bits, 2, 32)
    step = float(scale) if scale is not None else max_value / (1 << n - bool(signed))
    if not step > 0:
        raise QuadrantsRuntimeTypeError(f"the scale {step} is not above 0", code="QL2028")
    return QuantType("fixed", n, bool(signed), _compute(compute, f32), step)


def _quant_float(exp: Any, frac: Any, signed: bool = True, compute: Any = None) -> QuantType:
    """Numbers with ``exp`` bits of exponent, 2 to 8, and ``frac`` bits of fraction: 1 to 23, or 2 to 24 if the numbers
    are ``signed``, because ``frac`` then includes the sign bit. The default of ``compute`` is f32."""
    e = _bits("an exponent", exp, 2, 8)
    m = _bits("a fraction", frac, 1 + bool(signed), 23 + bool(signed))
    return QuantType("float", e + m, bool(signed), _compute(compute, f32), exp=e)


quant = SimpleNamespace(int=_quant_int, fixed=_quant_fixed, float=_quant_float)  # `qd.types.quant`


class QuantField:
    """A field of quantised numbers, or of vectors or matrices of them. ``words``: the field of the words that hold the
    numbers, once this field is placed; ``shift``: the first bit of a number in a word; ``array``: the node whose cells
    share a word, if there is one.

    A field of real numbers that needs a gradient has a ``carrier``, a field of zeros that has the gradient. Rounding
    counts as having the derivative 1, so where kernels read or write a quantised number, its derivative is that of the
    carrier's element."""

    __slots__ = (
        "__weakref__", "_shape", "array", "carrier", "dtype", "element_shape", "name", "needs", "shift", "snode",
        "words",
    )  # fmt: skip
    __qd_packed__ = True
    kind = "field"
    offset: ClassVar[tuple[int, ...]] = ()
    _offset = offset
    _index: Any = Dense._index
    _integer, __iter__ = Dense._integer, Dense.__iter__
    to_torch, from_torch, parent = Dense.to_torch, Dense.from_torch, Field.parent

    def __init__(self, quant: QuantType, element_shape: tuple[int, ...], name: str, needs: frozenset[str]) -> None:
        self.dtype, self.element_shape, self.name, self.needs = quant, element_shape, name, needs
        self.words: ScalarField | None = None
        self.carrier: Any = None
        self.array: Any = None
        self.snode: Any = None
        self.shift = 0
        self._shape: tuple[int, ...] = ()

    @property
    def bits(self) -> int:
        """The number of bits of an element."""
        return self.dtype.bits * prod(self.element_shape)

    @property
    def placed(self) -> bool:
        return self.words is not None and self.words.placed

    @property
    def shape(self) -> tuple[int, ...]:
        self._placed()
        return self._shape

    @property
    def grad(self) -> Any:
        return self.carrier.grad if self.carrier is not None else NoDerivative(self, "grad")

    @property
    def dual(self) -> Any:
        return self.carrier.dual if self.carrier is not None else NoDerivative(self, "dual")

    def use(self, words: ScalarField, shift: int, node: Any, carry: Any) -> None:
        """Places the field in the cells of a node; ``carry(shape)`` makes its carrier."""
        if self.placed:
            raise QuadrantsRuntimeError(f"{self!r} has been placed already", code="QL2025")
        self.words, self.shift, self.snode, self._shape = words, shift, node, node.shape
        self.array = node if node.kind == "quant_array" else None
        if self.needs:
            self.carrier = carry(self)

    def find(self, index: Sequence[Any], entry: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """The index of the word that holds the ``entry`` of an element, and the entry's first bit in that word. Indices
        may be any objects with ``//``, ``%``, ``*`` and ``+``."""
        at, slot = tuple(index), None
        if self.array is not None:
            at = tuple(index[k] // by for k, by in self.array.parent().places(self.array))
            for axis, n in self.array.divided.items():
                part = index[self.array.axes.index(axis)] % n
                slot = part if slot is None else slot * n + part
        for k, n in zip(entry, self.element_shape, strict=True):
            slot = k if slot is None else slot * n + k
        return at, self.shift if slot is None else slot * self.dtype.bits + self.shift

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> Array:
        """The numbers in an array of the dtype that kernels compute with, or of ``dtype``."""
        if copy is False:
            raise ValueError(f"{self!r} has no memory that numpy could read: its numbers share words")
        found = self._read(*self._all())
        return found if dtype is None else found.astype(np.dtype(dtype))

    def from_numpy(self, arr: Array) -> None:
        """Writes all numbers, rounded as kernels round them."""
        whole = (*self.shape, *self.element_shape)
        if np.shape(arr) not in (whole, (*whole, 1)[: len(whole) + len(self.element_shape)]):
            raise ValueError(f"{self!r} has shape {whole}, the numpy array has shape {np.shape(arr)}")
        self._write(*self._all(), np.reshape(arr, whole))

    def _all(self) -> tuple[Array, Array]:
        index = np.indices((*self.shape, *self.element_shape))
        return self._places(list(index[: len(self.shape)]), list(index[len(self.shape) :]))

    def _one(self, key: Any) -> tuple[Array, Array]:
        self._placed()
        return self._places([np.int64(i) for i in self._index(key)], list(np.indices(self.element_shape)))

    def _places(self, index: Sequence[Any], entry: Sequence[Any]) -> tuple[Array, Array]:
        """The row-major positions of the words that hold these entries, and the entries' first bits in the words."""
        at, shift = self.find(index, entry)
        words = np.ravel_multi_index(at, self._placed().shape) if at else np.int64(0)
        words, shift = np.broadcast_arrays(words, shift, *index, *entry)[:2]
        return words, shift.astype(np.uint64)

    def _read(self, words: Array, shift: Array) -> Array:
        held = self._placed().to_numpy().reshape(-1)[words].astype(np.uint64)
        return self.dtype.decoded(np.asarray(held >> shift & np.uint64((1 << self.dtype.bits) - 1)))

    def _write(self, words: Array, shift: Array, values: Any) -> None:
        memory = self._placed()
        held = memory.to_numpy().reshape(-1).astype(np.uint64)
        given = np.broadcast_to(np.asarray(plain(values)), words.shape)
        flat, bits = words.reshape(-1), shift.reshape(-1)
        np.bitwise_and.at(held, flat, ~(np.uint64((1 << self.dtype.bits) - 1) << bits))
        np.bitwise_or.at(held, flat, self.dtype.encoded(np.ascontiguousarray(given).reshape(-1)) << bits)
        memory.from_numpy(held.astype(memory.dtype.numpy).reshape(memory.shape))

    def __getitem__(self, key: Any) -> Any:
        found = self._read(*self._one(key))
        if not self.element_shape:
            return found.item()
        return (Matrix if len(self.element_shape) == 2 else Vector)(found, self.dtype.compute)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(*self._one(key), value)

    def fill(self, val: Any) -> None:
        self._write(*self._all(), val)

    def copy_from(self, other: Any) -> None:
        self.from_numpy(other.to_numpy())

    def _placed(self) -> ScalarField:
        if self.words is None:
            raise QuadrantsRuntimeError(
                f"{self!r} has no memory yet",
                code="QL2022",
                help="b = qd.BitpackedFields(max_num_bits=32); b.place(x); qd.root.dense(qd.i, n).place(b)",
            )
        return self.words

    def __repr__(self) -> str:
        shape = self._shape if self.words is not None else "not placed"
        element = f" x {self.element_shape}" if self.element_shape else ""
        return f"<qd.field {self.name + ': ' if self.name else ''}{self.dtype!r} {shape}{element}>"


class BitpackedFields:
    """Quantised fields whose elements at one index share a word of ``max_num_bits``, 32 or 64, bits. (In a quant_array
    those at ``cells`` indices do.)"""

    cells = 1

    def __init__(self, max_num_bits: int) -> None:
        if max_num_bits not in (32, 64):
            raise QuadrantsRuntimeTypeError(f"a word has 32 or 64 bits, not {max_num_bits!r}", code="QL2028")
        self.word = u32 if max_num_bits == 32 else u64
        self.fields: list[QuantField] = []

    def place(self, *args: Any, shared_exponent: bool = False) -> None:
        """Adds fields to the word. ``shared_exponent``, one exponent for all fields, is not supported and raises an
        error."""
        if shared_exponent:
            raise QuadrantsRuntimeError(
                "fields with one exponent for all are not supported",
                code="QL2028",
                help="give each its own, or use qd.types.quant.fixed",
            )
        for field in args:
            if not isinstance(field, QuantField):
                what = f"{field!r} is no quantised field"
                raise QuadrantsRuntimeTypeError(what, code="QL2028", help="qd.field(qd.types.quant.int(5)) makes one")
        used = self.cells * sum(field.bits for field in (*self.fields, *args))
        if used > self.word.bits:
            raise QuadrantsRuntimeError(
                f"{used} bits do not fit a word of {self.word.bits}",
                code="QL2028",
                help="use max_num_bits=64, or several words",
            )
        self.fields += args

    def allocate(self, node: Any) -> list[Any]:
        """Gives the fields memory in the cells of a node. Returns the ordinary fields (words and carriers) that are now
        placed in the node."""
        if node.sparse is not None:
            raise QuadrantsRuntimeError(
                "quantised fields in a sparse layout are not supported", code="QL2028", help="place them in dense nodes"
            )
        whole = node.parent().shape if node.kind == "quant_array" else node.shape
        words = ScalarField(self.word)
        words.allocate(whole)
        made: list[Any] = [words]
        shift = 0

        def carry(of: QuantField) -> Any:
            carrier = type_of_carrier(of)(of.dtype.compute, of.element_shape, of.name)
            carrier.needs = of.needs
            carrier.allocate(node.shape)
            for which in of.needs:
                carrier.companion(which).allocate(node.shape)
            made.append(carrier)
            return carrier

        for field in self.fields:
            field.use(words, shift, node, carry)
            shift += field.bits
        return made


def type_of_carrier(field: QuantField) -> Any:
    from quadrants_lab.lang.elements import MatrixField  # it imports modules that import this one

    return MatrixField if field.element_shape else ScalarField


def place_array(node: Any, max_num_bits: int, fields: Sequence[Any]) -> list[Any]:
    """Places one quantised field in a node whose cells share a word."""
    if len(fields) != 1 or not isinstance(fields[0], QuantField):
        raise QuadrantsRuntimeTypeError("a quant_array holds one quantised field", code="QL2028")
    shared = BitpackedFields(max_num_bits)
    shared.cells = prod(node.divided.values())
    shared.place(*fields)
    return shared.allocate(node)
