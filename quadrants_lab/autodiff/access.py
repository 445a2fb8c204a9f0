"""Enforces the data-access rule: where a gradient repeats a load of its kernel, the memory must hold the value that
the kernel read.

A gradient starts from the memory that the launch left, and its forward slices repeat loads of the kernel. Each
repeated load is compared with every write of the kernel that may come later and go to the same element. The values
that such writes overwrite are saved first (`autodiff.keeps`). The old value that an atomic operation returned in a
parallel loop cannot be saved, because it depends on the order in which the threads ran.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.boxes import box_of, whole
from quadrants_lab.analysis.dependence import may_be_lost, may_follow, may_lose_reads, sums_of_winners
from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff.diagnostics import refusal, shown
from quadrants_lab.autodiff.keeps import NOTHING, Keeps, Saved
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find


@dataclass(frozen=True, slots=True)
class Conflict:
    """An access of the forward kernel that the gradient repeats although the statement ``write`` may have changed the
    element in the meantime. The access is a load, or an atomic min or max with whose result the gradient compares
    values. If a task that recomputes launch temporaries repeats the access, ``temporary`` is that task."""

    read: Access
    write: Access
    temporary: N.Offload | None


def overwritten(kernel: N.Kernel, gradient: Callable[[Keeps], N.Kernel]) -> Keeps:
    """Which values an offloaded forward kernel has to copy away before it overwrites them, because its gradient reads
    them.

    ``gradient(keeps)`` makes the gradient for these ``keeps``, after dead-code elimination. A gradient repeats some
    writes, which may need further values to be kept. So the search is repeated until the gradient needs no value that
    is not kept.
    """
    if not may_lose_reads(kernel):
        return NOTHING
    info = accesses_of(kernel)
    saved: dict[tuple[str, int], Conflict] = {}
    before: set[tuple[int, str]] = set()
    repeated: set[tuple[int, str]] = set()
    temporaries: dict[str, str] = {}
    sums = sums_of_winners(kernel)
    known = -1
    while known != len(saved) + len(before) + len(repeated) + len(temporaries):
        known = len(saved) + len(before) + len(repeated) + len(temporaries)
        made = gradient(Keeps((), frozenset(before), frozenset(repeated), temporaries))
        temporaries |= {t: f"{t}.kept" for t in sums & touched(made.body, N.Load)}
        for c in conflicts(info, made):
            if c.temporary is not None:
                temporaries |= {t: f"{t}.kept" for t in touched((c.temporary,), N.Write)}
                continue
            buffer, number = c.write.stmt.buffer, c.write.number
            saved.setdefault((buffer, number), c)
            if number == c.read.number and c.read.stmt.loads:
                _check_extremes_apart(info, c)
                before.add((number, buffer))
        for _, read in repeated_reads(info, made, _adjoints(info)):
            buffer, number = read.stmt.buffer, read.number
            writes = (w for w in _writes(info, buffer) if w.number == number)
            if (number, buffer) in before and any(may_follow(info, w, read) for w in writes):
                repeated.add((number, buffer))
    copies = tuple(_saved(info, c, n) for n, c in enumerate(saved.values()))
    return Keeps(copies, frozenset(before), frozenset(repeated), temporaries)


def _check_extremes_apart(info: Accesses, c: Conflict) -> None:
    """Raises QL0404 if a task writes results of atomic mins or maxes to a field whose old values must be restored
    before the adjoint of the task. That adjoint compares values with the results, which are then overwritten."""
    buffer = info.kernel.buffers[c.write.stmt.buffer]
    own = (w.stmt for w in _writes(info, buffer.name) if w.number == c.write.number)
    if buffer.grad and any(s.atomic in N.MINMAX for s in own):
        cure = "keep the result of the atomic min or max in a field of its own"
        raise refusal("QL0404", c.read.stmt.span, c.write.stmt.span, cure=cure, name=buffer.name)


def _saved(info: Accesses, c: Conflict, n: int) -> Saved:
    buffer, number = c.write.stmt.buffer, c.write.number
    of = info.kernel.buffers[buffer]
    # of a field in pages the whole field is the box: only the pages that were written to are copied
    box = whole(of) if of.order else box_of(info, (w for w in _writes(info, buffer) if w.number == number))
    return Saved(buffer, number, box, f"{buffer}.kept{n}", c.write.stmt.span)


def _adjoints(info: Accesses) -> set[str]:
    return {b.grad for b in info.kernel.buffers.values()}


def repeated_reads(info: Accesses, gradient: N.Kernel, derivatives: set[str]) -> Iterator[tuple[N.Load, Access]]:
    """Pairs each load of the gradient that repeats an access of the kernel of ``info`` with that access.
    ``derivatives`` are the buffers of derivatives."""
    buffers = info.kernel.buffers
    for load in find(gradient.body, N.Load):
        if load.buffer in buffers and load.buffer not in derivatives:
            read = info.of.get(load.id if load.adjoint_of == N.NO_ID else load.adjoint_of)
            if read is not None and (not buffers[load.buffer].transient or read.stmt.atomic):
                yield load, read


def conflicts(info: Accesses, gradient: N.Kernel, derivatives: set[str] | None = None) -> Iterator[Conflict]:
    """The loads of the kernel of ``info`` that its gradient (after dead-code elimination) repeats although the kernel
    may have overwritten the element by then. Raises QuadrantsCompilationError if the gradient needs the old value of an
    atomic."""
    derivatives = _adjoints(info) if derivatives is None else derivatives
    for task in gradient.tasks:
        computes = touched((task,), N.Write)
        primal = computes and all(gradient.buffers[t].kind == "temp" and t not in derivatives for t in computes)
        for load, read in repeated_reads(info, replace(gradient, body=(task,)), derivatives):
            of = gradient.buffers[load.buffer]
            compared = load.adjoint_of != N.NO_ID and not derivatives.isdisjoint((of.grad, of.dual))
            if read.stmt.atomic and not (compared and read.stmt.atomic in N.MINMAX):
                raise refusal("QL0403", read.stmt.span, name=shown(info.kernel.buffers[read.stmt.buffer]))
            for write in _writes(info, read.stmt.buffer):
                if may_be_lost(info, read, write):
                    yield Conflict(read, write, task if primal else None)


def check_data_access(kernel: N.Kernel, gradient: N.Kernel, keeps: Keeps = NOTHING) -> None:
    """Raises QuadrantsCompilationError where the gradient needs a value that the kernel has overwritten and that
    ``keeps`` does not copy away."""
    kept = {(s.buffer, s.task) for s in keeps.saved}
    for c in conflicts(accesses_of(kernel), gradient):
        buffer, number = c.write.stmt.buffer, c.write.number
        put_back = number != c.read.number or (number, buffer) in keeps.before
        if (buffer, number) not in kept or not put_back or c.temporary is not None:
            raise refusal("QL0404", c.read.stmt.span, c.write.stmt.span, name=buffer)


def _writes(info: Accesses, buffer: str) -> list[Access]:
    return info.writes.get(buffer, [])
