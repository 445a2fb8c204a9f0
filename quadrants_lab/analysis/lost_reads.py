"""Which reads of a kernel its gradient may repeat, although a later write may go to the same element."""

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.dependence import may_follow
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


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
    if sums_of_winners(kernel):
        return True
    info = accesses_of(kernel)
    reads = [a for a in info.of.values() if may_repeat(a.stmt) and not kernel.buffers[a.stmt.buffer].passing]
    return any(may_be_lost(info, r, w) for r in reads for w in info.writes.get(r.stmt.buffer, ()))


def sums_of_winners(kernel: N.Kernel) -> set[str]:
    """The launch temporaries that are sums over parallel loops, in a kernel with a differentiable atomic min or max in
    memory. If a gradient computed them again, in another order, it might not find the iteration that won."""
    buffers = kernel.buffers
    atomics = [s for s in walk(kernel.body) if isinstance(s, N.Atomic)]
    if not any(s.op in N.MINMAX and buffers[s.buffer].grad and buffers[s.buffer].kind != "temp" for s in atomics):
        return set()
    sums = {s.buffer for s in atomics if s.op not in N.MINMAX}
    return {name for name in sums if buffers[name].kind == "temp" and buffers[name].dtype.is_float}
