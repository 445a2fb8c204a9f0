"""Why kernels do not take an argument, with a row for each code; and what to pass instead."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DTYPES, DType

COPY = "; writes to it then reach only the copy"
# code -> the message and the help; both are format strings. ``what``: the argument in words
TABLE: dict[str, tuple[str, str]] = {
    "QL2040": ("{what} is {dtype}{given}: {why}", "{cure}"),
    "QL2041": ("{what} must have a gradient", "make it with needs_grad=True"),
    "QL2042": ("{what} is {kind} of {dtype}, which is no dtype of the language", "{cure}"),
    "QL2043": ("{what} is {flaw}", "pass {cure}"),
    "QL2044": ("{what} must be a numpy array or a qd.ndarray, it is {given}", "{cure}"),
    "QL2045": ("{what} must have dtype {wanted}, the array has {given}", "{cure}"),
    "QL2046": ("{what} must have {wanted}, the array has shape {given}", ""),
    "QL2047": ("{what} must have elements of shape {wanted}, those of the array have shape {given}", ""),
    "QL2048": ("kernel {kernel} writes to {what}, a read-only {kind}", "pass a copy of it"),
    "QL2050": ("{what} must have shape {wanted}, it {given}", ""),
    "QL2051": ("{what} must be a {wanted}, it is of type {given}", ""),
    "QL2052": ("{what} {flaw}", "{cure}"),
    "QL2053": ("{what} of kernel {kernel} overlap, and it writes to one of them: this device copies each by itself",
               "pass the whole array once, or a copy of a part"),
}  # fmt: skip


class ArgumentError(QuadrantsRuntimeTypeError, ValueError):
    """Raised for an argument that the kernel's annotation does not allow."""


def refusal(code: str, what: str, cure: str = "", **parts: object) -> ArgumentError:
    message, help = TABLE[code]
    return ArgumentError(message.format(what=what, **parts), code=code, help=help.format(cure=cure))


def no_dtype(what: str, dtype: object, kind: str = "an array") -> ArgumentError:
    """The refusal of an array of another library whose dtype the language lacks."""
    cure, known = cure_of_dtype(dtype), f"the dtypes are {', '.join(DTYPES)}"
    return refusal("QL2042", what, f"{cure}; {known}" if cure else known, kind=kind, dtype=dtype)


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
    if hasattr(value, "as_integer_ratio") and not isinstance(value, int):  # a Decimal, a Fraction
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


def cure_of_arrays(dtype: DType) -> str:
    if dtype.kind == "b":
        return "compare: x != 0"
    return f"x.astype(np.{np.dtype(dtype.numpy).name}) cuts fractions off and wraps integers"
