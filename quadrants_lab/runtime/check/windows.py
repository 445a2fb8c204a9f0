"""Runs only some of the iterations of a launch (a window), as compiled code on the CPU, to find one faulty iteration
among millions.

A binary search over how many iterations run takes one launch for each step. The reference interpreter then runs the
iteration that was found, on the memory that the iterations before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.effects import touched
from quadrants_lab.errors import QuadrantsCompilationError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import end_of, find, types_of
from quadrants_lab.passes.lower_prims import lower_custom_jvp
from quadrants_lab.runtime.compile.specialisation import load_cached
from quadrants_lab.runtime.interpret.interpreter import Box, Lane, Observer, interpret
from quadrants_lab.runtime.memory.memory import allocate
from quadrants_lab.runtime.record.replay import add_scratch, frame_of, launch, memories_for

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable, Frame
    from quadrants_lab.runtime.record.records import Arrays, LaunchRecord
    from quadrants_lab.runtime.session import Session

NOTHING = range(0)
ONCE = "(once)"  # stands for the index of the only iteration of a serial task


def windowed(kernel: N.Kernel) -> N.Kernel:
    """The kernel (after all passes) with two more arguments for each axis of each task: the first index that runs, and
    the index after the last. A serial task gets one axis with one index. Temporaries become fields, so that they can be
    read. Raises QuadrantsCompilationError if the kernel draws random numbers, because these depend on the number of
    iterations."""
    if draws_random(kernel):
        raise QuadrantsCompilationError("iterations that draw random numbers do not run one by one")
    b = Builder(kernel.next_id, types_of(kernel.body))
    args, body = list(kernel.args), []
    for number, task in enumerate(kernel.tasks):
        indices = task.indices or (b.param(i32, ONCE),)
        with b.block() as bounds:
            b.stmts += task.bounds[:-1]
            ends = end_of(task.bounds).values or (b.const(0, i32), b.const(1, i32))
            half = len(indices)
            limits: list[int] = []
            for n, value in enumerate(ends):
                p = indices[n % half]
                args.append(N.Arg(_name(number, n, half), p.type))
                limit = b.add(N.ArgLoad(b.fresh(), p.type, args[-1].name))
                limits.append(b.op("max" if n < half else "min", value, limit))
            b.yield_(*limits)
        kind = "range_for" if task.kind == "serial" else task.kind
        body.append(replace(task, kind=kind, bounds=tuple(bounds), indices=indices))
    buffers = {
        name: replace(x, kind="field", shape=()) if x.kind == "temp" else x for name, x in kernel.buffers.items()
    }
    return replace(kernel, args=tuple(args), body=tuple(body), buffers=buffers, next_id=b.next_id)


def others(box: Box, lane: Lane) -> Iterator[Box]:
    """Boxes that together contain all iterations of a box except one."""
    for k, axis in enumerate(box):
        for part in (range(axis.start, lane[k]), range(lane[k] + 1, axis.stop)):
            if part:
                yield (*(range(i, i + 1) for i in lane[:k]), part, *box[k + 1 :])


def draws_random(kernel: N.Kernel) -> bool:
    return any(find(kernel.body, (N.Random, N.Builtin)))


def lane_of(task: N.Offload, lane: Lane) -> Lane:
    """An iteration as the program has it: () for a task that was serial."""
    return () if task.indices and task.indices[0].name == ONCE else lane


def _name(task: int, n: int, axes: int) -> str:
    return f"{'first' if n < axes else 'end'}{task}.{n % axes}"


class Windows:
    """The launch of a ``record``, whose kernel after all passes is ``kernel``, for running windows of it. ``memories``:
    name of each buffer, also of temporaries, -> its memory, which starts with the values in ``arrays``, or else with 0.
    ``like``: another object for a launch of the same kernel, whose code is used again. Raises QuadrantsError if the CPU
    cannot run it."""

    def __init__(
        self, record: LaunchRecord, kernel: N.Kernel, arrays: Arrays, session: Session, like: Windows | None = None
    ) -> None:
        self.record = record
        self.kernel: N.Kernel = windowed(kernel) if like is None else like.kernel
        self.executable: Executable | None = None if like is None else like.executable
        self.tasks = self.kernel.tasks
        self.temporaries = frozenset(b.name for b in kernel.buffers.values() if b.kind == "temp")
        self.session = session
        self.frame: Frame | None = None
        buffers = self.kernel.buffers
        self.memories = memories_for(record, self.kernel, session)
        for b in buffers.values():
            if b.kind == "field" and b.name not in self.memories:
                self.memories[b.name] = allocate(session, b.dtype, b.shape or (), b.order)
        add_scratch(record.scalars, self.kernel, session, self.memories)
        self.restore(arrays)

    def _frame(self) -> Frame:
        if self.executable is None:
            options = self.record.plan.compiled.options
            self.executable = load_cached(lower_custom_jvp(self.kernel), options, self.session)
        frame = frame_of(self.record, self.executable, self.kernel, self.session, self.memories)
        if self.record.report:
            frame.set_stacks([row.depth for row in self.record.report])
        return frame

    def array(self, name: str) -> Any:
        """The present values of a buffer."""
        return self.memories[name].array

    def state(self) -> Arrays:
        return {name: memory.copy() for name, memory in self.memories.items()}

    def restore(self, arrays: Arrays) -> None:
        for name, values in arrays.items():
            if name in self.memories:
                self.memories[name].put(..., values)

    def box(self, task: int) -> Box:
        """The box of iterations that the task has with the present values of its bounds."""
        found: list[Box] = []

        def note(t: N.Offload, box: Box) -> Iterable[Lane]:
            if t is self.tasks[task]:
                found.append(box)
            return ()

        interpret(self.kernel, self._scalars(task, None), self._arrays(), iterations=note)
        return found[0]

    def run(self, task: int, box: Box | None = None) -> None:
        """Runs the iterations of one task in the box; None: all."""
        frame = self.frame = self.frame or self._frame()
        for name, value in self._windows(task, box).items():
            frame.set_arg(name, value)
        launch(self.record, frame, self.session)
        for memory in self.memories.values():
            memory.after_write()

    def first(self, task: int, holds: Callable[[], bool]) -> Lane | None:
        """The first iteration of the task, in row-major order, after which ``holds()`` is true; memory is then as it
        was before that iteration. None if it is false after all of them; memory is then as they left it."""
        before = self.state()
        box = self.box(task)
        self.run(task)
        if not holds():
            return None
        window = list(box)
        for k, axis in enumerate(box):
            low, high = 0, len(axis)  # ``holds()`` is true after ``high`` iterations, and false after ``low``
            while high - low > 1:
                middle = (low + high) // 2
                self.restore(before)
                self.run(task, (*window[:k], axis[:middle], *window[k + 1 :]))
                low, high = (low, middle) if holds() else (middle, high)
            self.restore(before)
            if low:
                self.run(task, (*window[:k], axis[:low], *window[k + 1 :]))
                before = self.state()
            window[k] = axis[low:high]
        return tuple(axis.start for axis in window)

    def follow(self, task: int, lane: Lane, observer: Observer, kernel: N.Kernel | None = None) -> None:
        """Runs the iteration in the reference interpreter, on copies of what it writes. ``kernel``: another `windowed`
        kernel with the same tasks, to be run instead."""
        box = tuple(range(k, k + 1) for k in lane)
        written = touched((self.tasks[task],), N.Write)
        arrays = {name: a.copy() if name in written else a for name, a in self._arrays().items()}
        interpret(kernel or self.kernel, self._scalars(task, box), arrays, caps=self.record.caps, observer=observer)

    def _arrays(self) -> Arrays:
        return {name: memory.array for name, memory in self.memories.items()}

    def _scalars(self, task: int, box: Box | None) -> dict[str, Any]:
        return {**self.record.scalars, **self._windows(task, box)}

    def _windows(self, task: int, box: Box | None) -> dict[str, int]:
        """The values of all arguments that `windowed` added: ``box`` for this task, and empty windows for the others.
        """
        found: dict[str, int] = {}
        for number, t in enumerate(self.tasks):
            axes = len(t.indices)
            for n, p in enumerate(chain(t.indices, t.indices)):
                window = NOTHING if number != task else None if box is None else box[n % axes]
                least, most = (-(2**31), 2**31 - 1) if p.type is i32 else (-(2**63), 2**63 - 1)
                ends = (least, most) if window is None else (window.start, window.stop)
                found[_name(number, n, axes)] = ends[n // axes]
        return found


