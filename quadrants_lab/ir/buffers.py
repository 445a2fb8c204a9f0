"""Helpers for adding buffers to a kernel."""

from collections.abc import Container, Iterable
from dataclasses import replace

from quadrants_lab.ir.nodes import Buffer


def with_adjoint(buffers: dict[str, Buffer], made: Buffer) -> Buffer:
    """Adds the buffer to the kernel's ``buffers``, with an adjoint if it is of floating point, and returns it."""
    made.grad = f"{made.name}.grad" if made.dtype.is_float else ""
    buffers[made.name] = made
    if made.grad:
        buffers[made.grad] = replace(made, name=made.grad, grad="")
    return made


def unused(names: Iterable[str], taken: Container[str]) -> str:
    """The first of the names that is not taken."""
    return next(name for name in names if name not in taken)
