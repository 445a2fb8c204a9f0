"""Saves values that a kernel overwrites although its gradient reads them (keeps): the forward launch copies them to
scratch memory, and the gradient copies them back.

In front of a task that overwrites such values, the forward kernel copies the box of elements that the task may write
into a scratch buffer of the launch (role "kept"). The gradient goes through the tasks in reverse order. After the
adjoint of such a task it copies the box back, so that the adjoints of earlier tasks find the memory that these tasks
had read. If a task itself reads elements before it overwrites them, the gradient copies the box back before the adjoint
of the task. If the task also reads what it wrote, the forward slice in the adjoint repeats the task's writes. When the
gradient ends, all fields hold again what the forward launch left in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from quadrants_lab.analysis.boxes import Box, Ids, size_types, task_over
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import CHANGED
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import print_size
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, i32
from quadrants_lab.ir.walk import find, rewrite_in, rules, types_of


@dataclass(frozen=True, slots=True)
class Saved:
    """A copy, in the scratch buffer ``slot``, of the elements ``box`` of ``buffer`` as they were before task number
    ``task`` of the kernel. The task overwrites these elements (at the source lines ``written``) although the gradient
    reads them."""

    buffer: str
    task: int
    box: Box
    slot: str
    written: Span | None = field(default=None, compare=False)

    @property
    def final(self) -> str:
        """The scratch buffer in which a gradient keeps the values that the elements had after the forward launch."""
        return f"{self.slot}.final"


@dataclass(frozen=True, slots=True)
class Keeps:
    """All values that a forward kernel copies to scratch memory for its gradient.

    ``before`` has the pairs (number of a task, buffer) for which the task reads elements that it then overwrites; the
    gradient copies them back to the buffer before the adjoint of the task. ``repeated`` has the pairs for which the
    task may also read what it wrote; the adjoint repeats these writes in its forward slice. ``temporaries`` maps each
    launch temporary that cannot be computed again to the scratch buffer that keeps it.
    """

    saved: tuple[Saved, ...] = ()
    before: frozenset[tuple[int, str]] = frozenset()
    repeated: frozenset[tuple[int, str]] = frozenset()
    temporaries: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.saved or self.temporaries)

    def of(self, task: int) -> list[Saved]:
        return [s for s in self.saved if s.task == task]

    def put_before(self, task: int) -> list[Saved]:
        """The boxes that the gradient copies back to their buffers before the adjoint of a task."""
        return [s for s in self.of(task) if (task, s.buffer) in self.before]

    def put_after(self, task: int) -> list[Saved]:
        """The boxes that the gradient copies back to their buffers after the adjoint of a task: those that it did not
        copy back before the adjoint, and those that the adjoint wrote."""
        return [s for s in self.of(task) if (task, s.buffer) not in self.before - self.repeated]

    def repeats(self, task: int) -> frozenset[str]:
        """The buffers whose writes the adjoint of a task repeats."""
        return frozenset(buffer for number, buffer in self.repeated if number == task)

    def argument(self) -> tuple[Any, ...]:
        """Packs all attributes into an argument of a pass, so that the pass can be printed (`ir.passes`);
        `of_argument` unpacks it."""
        saved = tuple(
            (s.buffer, s.task, *(tuple(map(print_size, ends)) for ends in (s.box.low, s.box.high)), s.box.type, s.slot)
            for s in self.saved
        )
        return saved, tuple(sorted(self.before)), tuple(sorted(self.repeated)), tuple(self.temporaries.items())

    @classmethod
    def of_argument(cls, saved: Any, before: Any, repeated: Any, temporaries: Any) -> Keeps:
        from quadrants_lab.ir.parse import parse_size  # only `opt` reads text

        def read(buffer: str, task: int, low: Any, high: Any, type: DType, slot: str) -> Saved:
            first, last = (tuple(parse_size(str(e)) for e in ends) for ends in (low, high))
            return Saved(buffer, task, Box(first, last, type), slot)

        return cls(tuple(read(*s) for s in saved), frozenset(before), frozenset(repeated), dict(temporaries))

    def scratch(self, buffers: Mapping[str, N.Buffer], gradient: bool) -> dict[str, N.Buffer]:
        """The scratch buffers of the forward kernel, or of its gradient."""
        made = {slot: N.Buffer(slot, "scratch", buffers[t].dtype, 0, None, role="kept")
                for t, slot in self.temporaries.items()}
        for s in self.saved:
            of = buffers[s.buffer]
            made[s.slot] = N.Buffer(s.slot, "scratch", of.dtype, of.ndim, None, role="kept", extents=s.box.extents(),
                                    order=of.order)  # fmt: skip
            if gradient:
                made[s.final] = replace(made[s.slot], name=s.final, role="work")
                made[CHANGED] = N.Buffer(CHANGED, "scratch", i32, 0, None, role="work")
        return made


NOTHING = Keeps()


def save_overwritten(kernel: N.Kernel, keeps: Keeps) -> N.Kernel:
    """The forward kernel in which each task that overwrites values of its gradient has a task in front of it that
    copies these elements to scratch memory."""
    buffers = {**kernel.buffers, **keeps.scratch(kernel.buffers, gradient=False)}
    b = Builder(kernel.next_id, types_of(kernel.body))
    body: list[N.Stmt] = []
    sizes = size_types(kernel.args, buffers)
    for number, task in enumerate(kernel.body):
        body += [copied(b, s, sizes, buffers, s.buffer, s.slot) for s in keeps.of(number)]
        body.append(task)
    if keeps.temporaries:
        pairs = [(buffers[t], buffers[slot]) for t, slot in keeps.temporaries.items()]
        body.append(_serial(b, lambda: _copies(b, pairs)))
    return replace(kernel, buffers=buffers, body=tuple(body), next_id=b.next_id)


def restored_temporaries(b: Builder, keeps: Keeps, buffers: Mapping[str, N.Buffer], needed: set[str]) -> N.Block:
    """The tasks (one, or none if nothing is to be restored) that copy the ``needed`` launch temporaries from the
    scratch buffers of the forward launch into the gradient."""
    pairs = [(buffers[slot], buffers[t]) for t, slot in keeps.temporaries.items() if t in needed]
    return (_serial(b, lambda: _copies(b, pairs)),) if pairs else ()


def set_changed(b: Builder, buffers: Mapping[str, N.Buffer], value: int) -> N.Offload:
    """The task that writes to the flag which says whether a gradient has changed fields that it must restore."""
    return _serial(b, lambda: b.store(buffers[CHANGED], (), b.const(value, i32)))


def put_back(kernel: N.Kernel) -> N.Kernel:
    """The last tasks of a gradient, which give all fields the values again that they had after the forward launch.
    After an interrupted gradient only these tasks run."""

    def ends(task: N.Stmt) -> bool:
        read = [s.buffer for s in find((task,), N.Load)]
        return any(name.endswith(".final") for name in read) and kernel.buffers[read[0]].role == "work"

    b = Builder(kernel.next_id, types_of(kernel.body))
    tasks = tuple(task for task in kernel.body if ends(task))
    return replace(kernel, body=(*tasks, set_changed(b, kernel.buffers, 0)), next_id=b.next_id)


def _copies(b: Builder, pairs: Iterable[tuple[N.Buffer, N.Buffer]]) -> None:
    """Emits copies of 0-d buffers; each pair is (source, target)."""
    for source, target in pairs:
        b.store(target, (), b.load(source, ()))


def _serial(b: Builder, build: Callable[[], None]) -> N.Offload:
    bounds = b.nothing()
    with b.block() as body:
        build()
        b.yield_()
    return N.Offload(b.fresh(), "serial", bounds, (), tuple(body))


def copied(
    b: Builder, saved: Saved, sizes: Mapping[str, DType], buffers: Mapping[str, N.Buffer], source: str, target: str
) -> N.Offload:
    """The task that copies the box of ``saved`` between its buffer and one of its scratch buffers, from ``source`` to
    ``target``. ``sizes`` has the dtype of each size that bounds the box (`size_types`)."""
    b.span, b.adjoint_of = saved.written, N.NO_ID

    def copy(index: Ids, within: Ids) -> None:
        at = {saved.buffer: index}
        value = b.load(buffers[source], at.get(source, within))
        b.store(buffers[target], at.get(target, within), value)

    return task_over(b, saved.box, sizes, copy)


def without_checkpoints(task: N.Offload) -> N.Offload:
    """The task, in which no loop is checkpointed: a task whose writes the adjoint repeats cannot run a segment of a
    loop twice."""

    return rewrite_in(task, rules({N.Loop: lambda s: replace(s, checkpoint=False) if s.checkpoint else s}))
