"""The check that a kernel uses no f64, which Metal does not have."""

from __future__ import annotations

from quadrants_lab.errors import Label, QuadrantsTypeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import f64
from quadrants_lab.ir.walk import walk

_WHAT = {"field": "field", "ndarray": "ndarray", "temp": "variable", "ret": "returned value"}


def check(kernel: N.Kernel) -> None:
    """Raises QuadrantsTypeError for the first f64 of the kernel, with its name and line."""
    for s in walk(kernel.body):
        what = _f64(kernel, s)
        if what:
            _refuse(kernel, what, s.span)
    for a in kernel.args:
        if a.type is f64:
            _refuse(kernel, f"argument '{a.name}'", kernel.span)


def _f64(kernel: N.Kernel, s: N.Stmt) -> str:
    """What is f64 in the statement, in words; "" where nothing is."""
    if isinstance(s, N.Access) and kernel.buffers[s.buffer].dtype is f64:
        buffer = kernel.buffers[s.buffer]
        return f"{_WHAT[buffer.kind]} '{buffer.name}'"
    if isinstance(s, N.ArgLoad) and s.type is f64:
        return f"argument '{s.arg}'"
    if isinstance(s, (N.Value, N.AdStackAlloca)) and s.type is f64:
        return f"variable '{s.name}'" if s.name else "this value"
    for p in s.params():
        if p.type is f64:
            return f"variable '{p.name}'" if p.name else "this value"
    return ""


def _refuse(kernel: N.Kernel, what: str, span: Span | None) -> None:
    raise QuadrantsTypeError(
        f"{what} of kernel '{kernel.name}' is f64, which Metal does not have",
        code="QL3001",
        labels=(Label(span, "f64 here"),),
        help="use f32, or run this kernel on another backend; default_fp=qd.f64 makes every untyped float f64",
    )
