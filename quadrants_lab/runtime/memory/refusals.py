"""Why kernels do not take an argument: a row for each code."""

from __future__ import annotations

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DTYPES
from quadrants_lab.runtime.memory.fitting import cure_of_dtype

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
