"""Which reads of a kernel its gradient may repeat, although a later write may go to the same element."""

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.dependence import may_follow
from quadrants_lab.ir import nodes as N


def may_repeat(s: N.Access) -> bool:
    """Whether a gradient may read what this statement read."""
    return isinstance(s, N.Load) or (isinstance(s, N.Atomic) and s.op in N.MINMAX)


def may_be_lost(info: Accesses, read: Access, write: Access) -> bool:
    """Whether the write may go to the element after the read. The result of an atomic is that of its whole task."""
    if isinstance(read.stmt, N.Atomic):
        return write.number > read.number
    return may_follow(info, read, write)


def may_lose_reads(kernel: N.Kernel) -> bool:
    """Whether the kernel may overwrite what its gradient needs. If not, it has nothing to keep."""
    if not any(b.grad and not b.passing for b in kernel.buffers.values()):
        return False
    info = accesses_of(kernel)
    reads = [a for a in info.of.values() if may_repeat(a.stmt) and not kernel.buffers[a.stmt.buffer].passing]
    return any(may_be_lost(info, r, w) for r in reads for w in info.writes.get(r.stmt.buffer, ()))
