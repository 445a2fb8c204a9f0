"""Defines buffers: descriptions of the memory that a kernel reads and writes."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace

from quadrants_lab.ir.cell_order import Order, Slots, slots_in
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import SizeExpr
from quadrants_lab.ir.types import DType, i32, i64

__all__ = ["UNSHAPED", "Buffer", "buffer_name"]  # names of `ir.nodes`, too

UNSHAPED = ("ndarray", "scratch", "heap", "words")  # kinds of buffers whose extents only a launch knows


@dataclass(slots=True)
class Buffer:
    """Memory that a kernel reads or writes, dense and, but for ``order``, row-major. Indices count from 0 in the IR.
    ``kind``:

    - "field": a field, of static ``shape``
    - "ndarray": an argument of the kernel. ``ndim`` is known; extents are known only for the axes of an ``element``,
      which are the last ones
    - "temp": a 0-d temporary of the launch, zero when the launch starts
    - "ret": the 0-d slot of a returned scalar
    - "scratch": memory that the runtime provides. ``extents`` has the size of each axis; a negative size counts as 0
    - "heap": the slots of an adstack, as many as the launch needs
    - "local": 0-d. An unsigned counter of the running iteration, less than half of the dtype's maximum; or, with
      ``role`` "share", the running thread's part of a reduction, or, with "far", a value that is read much later
    - "private": an array of the running iteration, of static ``shape``. The iteration writes each element before it
      reads it
    - "shared": memory of each block of a task, of static ``shape``, zero when the block begins
    - "frame": words of the head of a GPU's launch frame, or, with ``role`` "prints", the print block to which the frame
      points
    - "words": the memory of the buffer ``of`` as elements of ``dtype``, with one axis

    ``grad`` and ``dual`` name the buffers of the adjoint and the tangent, "" where there is none. ``first`` has the
    index at which each axis begins in the program, or is () where all axes begin at 0. ``wide``: an axis of the
    ndarray has 2**31 elements or more. ``beside``: for a "heap", the name of another heap; the slots of this one
    follow the slots of that one in memory. A heap of ``role`` "flags" has 32 slots in a word.

    ``role`` of scratch memory: "kept" (a forward launch fills the memory for its gradient), "work" (zero when it is
    made, then as the last launch left it), "marks" (like "work", but all kernels that use the same array share it),
    or "block" (a part for each block along the first axis; a block writes each element before it reads it). A field
    with ``role`` "activity" says which cells of a sparse layout are active.

    ``order``: the order of the elements in the memory of a sparse layout (`ir.cell_order`); () for row-major memory.
    Indices do not depend on the order.
    """

    name: str
    kind: str
    dtype: DType
    ndim: int
    shape: tuple[int, ...] | None
    grad: str = ""
    dual: str = ""
    first: tuple[int, ...] = ()
    wide: bool = False
    role: str = ""
    extents: tuple[SizeExpr, ...] = ()
    beside: str = ""
    of: str = ""
    element: tuple[int, ...] = ()
    order: Order = ()

    def known_extent(self, axis: int) -> int | None:
        """The extent along an axis, or None if it can change from launch to launch."""
        known = self.shape if self.shape is not None else (*[None] * (self.ndim - len(self.element)), *self.element)
        return known[axis]

    @property
    def in_frame(self) -> bool:
        """Whether the buffer's elements are words of the launch frame."""
        return self.kind in ("temp", "ret") or (self.kind == "frame" and not self.role)

    @property
    def transient(self) -> bool:
        """Whether nothing reads the contents after the launch: the buffer is neither input nor output of the kernel."""
        return self.kind == "temp" or self.role == "block"

    @property
    def counts_cells(self) -> bool:
        """Whether the buffer says which cells of a sparse layout are active, or is a copy, kept by an earlier launch,
        of such a buffer."""
        return self.role == "activity" or (self.role == "kept" and self.name.endswith(".before"))

    @property
    def extent_type(self) -> DType:
        """The dtype of the extents of an ndarray."""
        return i64 if self.wide else i32


def buffer_name(text: str) -> str:
    """The name of a buffer for an expression of the program: brackets and separators become dots, so ``v[0]`` is
    ``v.0``."""
    return re.sub(r"[\[\],:\s]+", ".", text).strip(".")


def with_adjoint(buffers: dict[str, Buffer], made: Buffer) -> Buffer:
    """Adds the buffer to the kernel's ``buffers``, with an adjoint if its dtype is a float, and returns it."""
    made.grad = f"{made.name}.grad" if made.dtype.is_float else ""
    buffers[made.name] = made
    if made.grad:
        buffers[made.grad] = replace(made, name=made.grad, grad="")
    return made


def unused(names: Iterable[str], taken: Container[str]) -> str:
    """The first of the names that is not taken."""
    return next(name for name in names if name not in taken)


# --- scratch buffers that passes make and launches fill ---------------------------------------------------------

CHANGED = "keeps.changed"  # 1 while a gradient has changed fields that it restores at its end
EPOCH = "races.epoch"  # the launch's number times the number of its tasks
EPOCHS = 1 << 8  # number of different epochs in marks of one byte


def marks_of(buffer: Buffer) -> tuple[str, str] | None:
    """For a scratch buffer of marks: the buffer whose elements are marked, and the kind of access that the marks
    record. None for other buffers."""
    name, _, what = buffer.name.rpartition(".")
    return (name, what) if buffer.role == "marks" and buffer.name != EPOCH else None


def slots_of(of: Buffer) -> Slots | None:
    """The `Slots` of a buffer in a sparse layout; None for memory without a table of slots."""
    return slots_in(of.order, of.dtype.nbytes) if of.order else None
