"""The memory that trip counts of loops depend on."""

from collections.abc import Sequence

from quadrants_lab.analysis.effects import touched
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import computed_from
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import end_of, reached, walk


@dataclass(frozen=True, slots=True)
class TripCount:
    """A read of ``buffer`` at ``read`` on which the trip count of the loop at ``loop`` depends; with ``steers`` false,
    a read on which none depends."""

    buffer: str
    read: Span | None
    loop: Span | None
    steers: bool = True


def trip_counts(kernel: N.Kernel) -> list[TripCount]:
    """The first read of each field and ndarray of integers that a trip count depends on and the kernel does not write.
    A trip count depends on the bounds of tasks and loops, and on the conditions of whiles."""
    written = touched(kernel.body, N.Write)
    sources = computed_from(kernel.body)
    loads: dict[int, N.Load] = {}
    steered: list[tuple[int, N.Stmt]] = []
    for s in walk(kernel.body):
        if isinstance(s, N.Load):
            loads[s.id] = s
        elif isinstance(s, N.For):
            steered += [(s.begin, s), (s.end, s)]
        elif isinstance(s, (N.While, N.Offload)):
            end = end_of(s.blocks()[0])
            steered += [(v, s) for v in end.values]
    found: dict[str, TripCount] = {}
    for value, loop in steered:
        for v in reached([value], lambda v: sources.get(v, ())):
            load = loads.get(v)
            if load is None or not load.type.is_int or load.buffer in written:
                continue
            if kernel.buffers[load.buffer].kind in ("field", "ndarray"):
                found.setdefault(load.buffer, TripCount(load.buffer, load.span, loop.span))
    return list(found.values())


def other_reads(kernel: N.Kernel, known: Sequence[TripCount]) -> list[TripCount]:
    """The first read of each other field and ndarray that the kernel reads, except derivatives."""
    leave = {c.buffer for c in known} | {d for b in kernel.buffers.values() for d in (b.grad, b.dual)}
    found: dict[str, TripCount] = {}
    for s in walk(kernel.body):
        if isinstance(s, N.Load) and kernel.buffers[s.buffer].kind in ("field", "ndarray") and s.buffer not in leave:
            found.setdefault(s.buffer, TripCount(s.buffer, s.span, None, steers=False))
    return list(found.values())
