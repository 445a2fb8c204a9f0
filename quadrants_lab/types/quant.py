"""`qd.types.quant`: types of numbers of few bits, which `qd.BitpackedFields` and `quant_array` pack into words."""

import builtins
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DType, f32, i32
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.quantised import QuantType

__all__ = ["fixed", "float", "int"]


def _bits(what: str, bits: Any, least: builtins.int, most: builtins.int) -> builtins.int:
    if not isinstance(bits, builtins.int) or not least <= bits <= most:
        raise QuadrantsRuntimeTypeError(f"{what} is {least} to {most} bits, not {bits!r}", code="QL2028")
    return bits


def _compute(given: Any, default: DType) -> DType:
    found = default if given is None else as_dtype(given)
    if found.is_float is not default.is_float:
        kind = "real" if default.is_float else "whole"
        raise QuadrantsRuntimeTypeError(f"compute={found} is no dtype of {kind} numbers", code="QL2028")
    return found


def int(bits: Any, signed: bool = True, compute: Any = None) -> QuantType:
    """Whole numbers of 1 to 32 ``bits`` in two's complement; kernels compute with ``compute``, i32 by default."""
    return QuantType("int", _bits("a quantised integer", bits, 1, 32), bool(signed), _compute(compute, i32))


def fixed(
    bits: Any, signed: bool = True, max_value: builtins.float = 1.0, compute: Any = None, scale: Any = None
) -> QuantType:
    """Multiples of ``scale`` in 2 to 32 ``bits``. Without a scale, they reach to ``max_value``, which is just too
    large: the scale is ``max_value / 2**bits``, twice that if they are ``signed``. ``compute`` is f32 by default."""
    n = _bits("a fixed-point number", bits, 2, 32)
    step = builtins.float(scale) if scale is not None else max_value / (1 << n - bool(signed))
    if not step > 0:
        raise QuadrantsRuntimeTypeError(f"the scale {step} is not above 0", code="QL2028")
    return QuantType("fixed", n, bool(signed), _compute(compute, f32), step)


def float(exp: Any, frac: Any, signed: bool = True, compute: Any = None) -> QuantType:
    """Numbers with ``exp`` bits of exponent, 2 to 8, and ``frac`` bits of fraction: 1 to 23, or 2 to 24 if the numbers
    are ``signed``, because ``frac`` then includes the sign bit. The default of ``compute`` is f32."""
    e = _bits("an exponent", exp, 2, 8)
    m = _bits("a fraction", frac, 1 + bool(signed), 23 + bool(signed))
    return QuantType("float", e + m, bool(signed), _compute(compute, f32), exp=e)
