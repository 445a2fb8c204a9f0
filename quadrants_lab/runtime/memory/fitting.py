"""Converts Python's numbers and arrays to a dtype.

A number that the dtype cannot represent raises an error. Only real numbers are rounded; real numbers that are too large
become infinite, as in a kernel and in numpy.
"""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DTYPES, DType, convert

_BLOCK = 1 << 15  # how many elements are checked at a time; they stay in the processor's cache
_FEW = 64  # for so few elements Python is faster than numpy


class LossError(QuadrantsRuntimeTypeError, ValueError, OverflowError):
    """Raised for a number that the dtype of its target cannot represent."""


def _limits(dtype: DType) -> tuple[Any, Any]:
    if dtype.is_float:
        high = float(np.finfo(dtype.numpy).max)
        return -high, high
    return (False, True) if dtype.kind == "b" else dtype.limits


# name of a dtype -> the least and greatest Python number that can be converted without an error or an infinity
LIMITS = {name: _limits(dtype) for name, dtype in DTYPES.items()}
# the same, by numpy's dtype, for integers and truth values
INTEGERS = {np.dtype(dtype.numpy): LIMITS[name] for name, dtype in DTYPES.items() if not dtype.is_float}


def fitting(value: Any, dtype: DType, whole: bool = False) -> Any:
    """``value`` as a Python number of the dtype; any integer can become a truth value. Raises TypeError or
    OverflowError with the reason if it does not fit. ``whole``: integer dtypes also accept floats without a fraction.
    """
    if isinstance(value, (float, np.floating)) and not dtype.is_float:
        if not whole:
            raise TypeError("it takes integers, not floats")
        if not float(value).is_integer():
            raise OverflowError(range_text(dtype))
        value = int(value)
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        number = int(value)
        if dtype.kind == "b":
            return bool(number)
        if dtype.is_int:
            low, high = LIMITS[dtype.name]
            if not low <= number <= high:
                raise OverflowError(range_text(dtype))
            return number
        value = number
    elif isinstance(value, np.ndarray) and not value.ndim:
        return fitting(value[()], dtype, whole)
    elif not isinstance(value, (float, np.floating)):
        raise TypeError(f"it takes a number, not an object of type {type(value).__name__}")
    try:
        real = float(value)
    except OverflowError:
        raise OverflowError(f"no {dtype} is that large") from None
    return real if dtype.bits == 64 or abs(real) <= LIMITS[dtype.name][1] else convert(real, dtype)


def range_text(dtype: DType) -> str:
    """The range of the dtype in words."""
    if dtype.kind == "b":
        return f"{dtype} holds truth values"
    return "{} holds integers from {} to {}".format(dtype, *LIMITS[dtype.name])


def fitted(value: Any, dtype: DType, into: object, whole: bool = False) -> Any:
    """Like `fitting`, but raises LossError. ``into``: what the number is stored in, an object or words."""
    try:
        return fitting(value, dtype, whole)
    except (TypeError, OverflowError) as e:
        what = shown(value) or f"an object of type {type(value).__name__}"
        message = f"cannot write {what} into {_named(into)}: {e}"
        raise LossError(message, code="QL2016", help=cure(value, dtype)) from None


def check(values: npt.NDArray[Any], dtype: DType, into: object, whole: bool = True) -> None:
    """Raises LossError for the first element, in row-major order, that does not fit (see `fitting`)."""
    if _all_fit(values, dtype, whole):
        return
    at = 0
    for block in _blocks(values, "C"):
        if _all_fit(block, dtype, whole):
            at += block.size
            continue
        for value in block:
            try:
                fitting(value, dtype, whole)
            except (TypeError, OverflowError) as e:
                index = ", ".join(map(str, np.unravel_index(at, values.shape)))
                raise LossError(
                    f"cannot write {shown(value) or value}{index and f', element [{index}],'} into {_named(into)}: {e}",
                    code="QL2016",
                    help=_cure_of_arrays(dtype) if shown(value) else cure_of_dtype(values.dtype),
                ) from None
            at += 1


def fitted_array(values: npt.NDArray[Any], dtype: DType, into: object, whole: bool = True) -> npt.NDArray[Any]:
    """A copy as ``dtype``; LossError if an element does not fit."""
    check(values, dtype, into, whole)
    return cast(values, dtype)


def cast(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """A copy as ``dtype``, for elements that all fit; numpy's warning about new infinities is suppressed."""
    if not dtype.is_float:
        return values.astype(dtype.numpy)
    with np.errstate(over="ignore"):
        return values.astype(dtype.numpy)


def _always_fits(given: DType, dtype: DType) -> bool:
    if dtype.is_float or given.is_float:
        return dtype.is_float
    (low, high), (least, most) = LIMITS[dtype.name], LIMITS[given.name]
    return dtype.kind == "b" or (low <= least and most <= high)


# dtype -> numpy's dtypes whose numbers all fit in it
_ALWAYS = {b: {np.dtype(a.numpy) for a in DTYPES.values() if _always_fits(a, b)} for b in DTYPES.values()}


def _all_fit(values: npt.NDArray[Any], dtype: DType, whole: bool) -> bool:
    """Whether all elements fit. This takes one pass over them, or none if their dtype decides it."""
    if values.dtype in _ALWAYS[dtype] or not values.size:
        return True
    kind = values.dtype.kind
    if kind not in "iuf" or dtype.is_float or (kind == "f" and not whole):  # Python objects, strings
        return False
    test = _real_fit if kind == "f" else _integers_fit
    if values.size <= _BLOCK:
        return test(values, dtype)
    return all(test(block, dtype) for block in _blocks(values, "K"))


def _blocks(values: npt.NDArray[Any], order: Any) -> Any:
    """Iterates over the elements in blocks of `_BLOCK`. ``order``: numpy's order of iteration."""
    return np.nditer(values, ["external_loop", "buffered", "refs_ok", "zerosize_ok"], order=order, buffersize=_BLOCK)


def _integers_fit(x: npt.NDArray[Any], dtype: DType) -> bool:
    low, high = LIMITS[dtype.name]
    if x.size <= _FEW:
        numbers = x.reshape(-1).tolist()
        return bool(low <= min(numbers) and max(numbers) <= high)
    return bool(low <= int(x.min()) and int(x.max()) <= high)


def _real_fit(x: npt.NDArray[Any], dtype: DType) -> bool:
    """Whether all elements are whole numbers in the dtype's range; NaN and infinities are not."""
    low, high = LIMITS[dtype.name] if dtype.is_int else (-math.inf, math.inf)
    least, most = float(x.min()), float(x.max())
    inside = low <= least and most < high + 1 and math.isfinite(least) and math.isfinite(most)
    return inside and bool((np.trunc(x) == x).all())


def shown(value: Any) -> str:
    """A number as text for a message; "" for other objects."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return repr(value) if isinstance(value, (int, float)) else ""


def cure(value: Any, dtype: DType) -> str:
    """Advice for a number that does not fit."""
    if isinstance(value, (float, np.floating)):
        return "convert it with int(...)"
    if isinstance(value, str):
        return "int(...) or float(...) reads a number from a text"
    if isinstance(value, (Decimal, Fraction)):
        return f"{'float' if dtype.is_float else 'int'}(...) makes one"
    if hasattr(value, "shape") and not isinstance(value, np.generic):  # arrays, tensors, fields
        return "take one element: x[i], x[None] or x.item()"
    fits = isinstance(value, (int, np.integer)) and dtype.is_int and int(value).bit_length() <= 64
    return f"take a wider dtype; qd.cast({value}, qd.{dtype}) wraps it" if fits else ""


_OF_DTYPES = (  # what the name of a dtype of numpy or torch begins with -> what to pass instead
    (r"torch\.complex", "pass torch.view_as_real(x), which has an axis more, of real and imaginary part"),
    (r"torch\.q", "pass x.dequantize()"),
    (r"torch\.", "pass x.float(), which has 32 bits"),
    (r"complex|[<>]c", "pass x.view(x.real.dtype), which has real and imaginary parts in turn"),
    (r"[<>][iuf]", "pass x.astype(x.dtype.newbyteorder('=')), which has the byte order of this machine"),
    (r"b?float", "pass x.astype(np.float64), which has 64 bits"),
)


def cure_of_dtype(dtype: object) -> str:
    """Advice for an array or tensor of a dtype that the language lacks."""
    return next((says for pattern, says in _OF_DTYPES if re.match(pattern, str(dtype))), "")


def _cure_of_arrays(dtype: DType) -> str:
    if dtype.kind == "b":
        return "compare: x != 0"
    return f"x.astype(np.{np.dtype(dtype.numpy).name}) cuts fractions off and wraps integers"


def _named(into: object) -> str:
    return into if isinstance(into, str) else repr(into)
