"""`spare_pages`: writes a zero to memory in pages only over a value that is not zero, because a write makes a page."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import UNSIGNED, u1
from quadrants_lab.ir.walk import find, rewritten, types_of


def spare_pages(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that the constant 0 is stored to an element of a buffer with an order only if the element has a set
    bit, unless the kernel reads the element, too. The deactivation of a cell, and its adjoint, write zeros to the whole
    cell, whose pages may never have been written to."""
    if not any(buffer.order for buffer in kernel.buffers.values()):
        return kernel
    zeros = {s.id for s in find(kernel.body, N.Const) if not s.value}
    read = {(s.buffer, s.index) for s in find(kernel.body, N.Load)}
    b = Builder(kernel.next_id, types_of(kernel.body))

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if not isinstance(s, N.Store) or s.value not in zeros or not kernel.buffers[s.buffer].order:
            return s
        return s if (s.buffer, s.index) in read else b.made(_where_needed, b, kernel.buffers[s.buffer], s)

    return rewritten(kernel, one, b)


def _where_needed(b: Builder, buffer: N.Buffer, s: N.Store) -> None:
    b.span, b.adjoint_of = s.span, s.adjoint_of
    there = b.load(buffer, s.index)
    if buffer.dtype is not u1:
        bits = UNSIGNED[buffer.dtype.bits]
        there = b.op("ne", b.op("bitcast", there, type=bits), b.const(0, bits))
    with b.when(there):
        b.add(s)
