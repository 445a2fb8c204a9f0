"""Follows a derivative from an input to the loss: the reference interpreter repeats the recorded launches, and computes
for every value that depends on the input its tangent, or the statement at which its derivative ends.

It also follows dependences that have no derivative: casts to integers, comparisons, memory without a gradient, values
that are overwritten, and branches and loops that do not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import find, rewrite, rules, types_of
from quadrants_lab.passes import pipeline
from quadrants_lab.pipelines.launch import TASKS
from quadrants_lab.runtime.check.launch_flow import Cell, Flow, LaunchFlow, TooLong, Trace
from quadrants_lab.runtime.check.windows import Windows, others, windowed
from quadrants_lab.runtime.compile.compile import forward_ir
from quadrants_lab.runtime.interpret.interpreter import Box, Lane, interpret
from quadrants_lab.runtime.record.records import Arrays, LaunchRecord

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.specialisation import Compiled
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.session import Session
    from quadrants_lab.runtime.tape.recorder import Launches


MOST_LANES = 4  # how many iterations of a task `follow_one` follows


def follow(launches: Launches, loss: Any, x: Any, direction: npt.NDArray[np.float64], seconds: float) -> Trace:
    """Follows what depends on the memory ``x``, changed along a direction, to the memory ``loss``. Raises TooLong after
    ``seconds``."""
    elements = zip(np.ndindex(x.operand.shape), direction.tolist(), strict=True)
    return _Follower(launches, monotonic() + seconds).through(loss, x, elements)


def follow_one(launches: Launches, loss: Any, x: Any, at: int, session: Session, seconds: float) -> Trace:
    """Follows what depends on the element of ``x`` with flat index ``at``, and in each task only through the first
    iterations that access it; compiled code in ``session`` runs all other iterations. Raises TooLong and
    QuadrantsError."""
    index = tuple(int(k) for k in np.unravel_index(at, x.operand.shape))
    return _Sampler(launches, monotonic() + seconds, session).through(loss, x, [(index, 1.0)])


def forward_tasks(compiled: Compiled) -> N.Kernel:
    """The kernel split into tasks, in the form of which its gradient is made."""
    made = forward_ir(compiled.lowered.kernel, compiled.options)
    return pipeline.run(made, TASKS, compiled.options.verify)


class _Follower:
    """Follows dependences through all iterations. ``state``: id of a memory -> its values; ``cells``: the elements that
    depend on the input."""

    def __init__(self, launches: Launches, until: float) -> None:
        self.launches = launches
        self.until = until
        self.state = {key: before.copy() for key, (_, before) in launches.initial.items()}
        self.kernels: dict[int, N.Kernel] = {}
        self.cells: dict[Cell, Flow] = {}
        self.trace = Trace()

    def through(self, loss: Any, x: Any, direction: Iterable[tuple[tuple[int, ...], float]]) -> Trace:
        """Follows the elements of ``x``, which are given with their tangents, to the loss."""
        for index, t in direction:
            self.cells[id(x), index] = Flow(x.operand.dtype.type(t))
        number = 0
        for step in self.launches.leaves():
            if step.launch is not None:
                number += 1
                self.launch(number, *step.launch)
            elif step.write is not None:
                self.write(number + 1, *step.write)
        self.trace.loss = self.cells.get((id(loss), ()), None)
        self.trace.read |= id(loss) == id(x)
        return self.trace

    def write(self, number: int, memory: Any, elements: list[tuple[Any, Any]]) -> None:
        """Repeats a write that Python made before launch ``number``."""
        if id(memory) not in self.state:
            return
        for where, values in elements:
            self.state[id(memory)][where] = values
            mask = np.zeros(self.state[id(memory)].shape, bool)
            mask[where] = True
            gone = [cell for cell in self.cells if cell[0] == id(memory) and mask[cell[1]]]
            for cell in gone:
                del self.cells[cell]
            if gone:
                self.trace.python.append((self.launches.names.get(id(memory), "a field"), number))

    def launch(self, number: int, plan: Plan, args: tuple[Any, ...], draws: int) -> None:
        compiled = plan.compiled
        if id(compiled) not in self.kernels:
            self.kernels[id(compiled)] = forward_tasks(compiled)
        kernel = self.kernels[id(compiled)]
        backing = plan.backing(args)
        keys: dict[str, Any] = {name: id(one) for name, one in backing.items() if id(one) in self.state}
        arrays = {name: self.state[key] for name, key in keys.items() if name in kernel.buffers}
        keys |= {b.name: (number, b.name) for b in kernel.buffers.values() if b.name not in keys}
        run = LaunchFlow(self.trace, self.cells, self.until, kernel, number, keys)
        shapes = {name: array.shape for name, array in arrays.items()}
        self.interpret(run, LaunchRecord(plan, args, 0, None, shapes, draws=draws), arrays)
        run.done()

    def interpret(self, run: LaunchFlow, record: LaunchRecord, arrays: Arrays) -> None:
        """Repeats a launch in the interpreter on ``arrays``, which it changes."""
        random, observer, iterations = record.random, run.observe, run.iterations
        interpret(run.kernel, record.scalars, arrays, random=random, observer=observer, iterations=iterations)


class _Sampler(_Follower):
    """Follows dependences through some of the iterations only, and runs whole launches as compiled code."""

    def __init__(self, launches: Launches, until: float, session: Session) -> None:
        super().__init__(launches, until)
        self.session = session
        self.made: dict[Any, tuple[Windows, N.Kernel]] = {}

    def interpret(self, run: LaunchFlow, record: LaunchRecord, arrays: Arrays) -> None:
        if monotonic() > self.until:
            raise TooLong
        key = id(run.kernel), *sorted(record.shapes.items())
        like, plain = self.made.get(key) or (None, windowed(run.kernel))
        windows = Windows(record, listing(run.kernel, record.shapes), arrays, self.session, like)
        self.made[key] = windows, plain
        names = {name: key for name, key in run.keys.items() if name + MARK in windows.memories}
        for task in range(len(windows.tasks)):
            for name, key in names.items():
                mark = windows.array(name + MARK)
                mark[...] = 0
                for cell, index in self.cells:
                    if cell == key:
                        mark[index] = 1
            before, box = windows.state(), windows.box(task)
            competes = any(s.op in N.MINMAX for s in find((run.kernel.tasks[task],), N.Atomic))
            windows.run(task)
            after = windows.state()
            windows.restore(before)
            if all(map(len, box)):
                for lane in self._lanes(int(after[COUNT]), after[LISTED], box):
                    if competes:
                        windows.restore(before)
                        for part in others(box, lane):
                            windows.run(task, part)
                    windows.follow(task, lane, run.observe, plain)
            else:
                run.skip(run.kernel.tasks[task], run.kernel.tasks[task].body)
            windows.restore({**after, COUNT: np.zeros_like(after[COUNT]), LISTED: np.zeros_like(after[LISTED])})
        for name, values in arrays.items():
            values[...] = windows.array(name)

    def _lanes(self, count: int, listed: npt.NDArray[Any], box: Box) -> list[Lane]:
        """The iterations to follow: the first ones in the list of dependent iterations; if the list is empty, the first
        ones of the task, which may miss a dependence."""
        lanes = sorted({tuple(map(int, row[: len(box)])) for row in listed[:count]})
        self.trace.partial |= len(lanes) > MOST_LANES or count > len(listed)
        return lanes[:MOST_LANES] or [tuple(axis.start for axis in box)]


MARK = ".depends"  # the suffix of buffers that mark the dependent elements of another buffer
COUNT, LISTED = "dependent", "dependent.at"  # names of buffers: how many entries the list has, and the list
MOST = 256  # the most entries of the list


def listing(kernel: N.Kernel, shapes: Mapping[str, tuple[int, ...]]) -> N.Kernel:
    """The kernel (after the passes `TASKS`) with code that lists dependent iterations: an iteration that accesses a
    marked element appends its indices to a list. ``shapes``: name of each array -> its shape."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    axes = max((len(task.indices) for task in kernel.tasks), default=0)
    count = buffers[COUNT] = N.Buffer(COUNT, "field", i32, 0, ())
    listed = buffers[LISTED] = N.Buffer(LISTED, "field", i64, 2, (MOST, axes or 1))
    for x in kernel.buffers.values():
        shape = () if x.kind == "temp" else shapes.get(x.name)
        if shape is not None:
            buffers[x.name + MARK] = N.Buffer(x.name + MARK, "field", i32, len(shape), shape)

    def noted(task: N.Offload) -> N.Offload:
        def note(s: N.Access) -> None:
            b.span = s.span
            mark = b.load(buffers[s.buffer + MARK], s.index)
            with b.when(b.op("ne", mark, b.const(0, i32))):
                at = b.atomic("add", count, (), b.const(1, i32))
                with b.when(b.op("lt", at, b.const(MOST, i32))):
                    for axis, p in enumerate(task.indices):
                        b.store(listed, (at, b.const(axis, i32)), b.cast(p.id, i64))

        def access(s: N.Access) -> N.Stmt | list[N.Stmt]:
            return [*b.made(note, s), s] if s.buffer + MARK in buffers else s

        return replace(task, body=rewrite(task.body, rules({N.Access: access})))

    body = tuple(noted(task) for task in kernel.tasks)
    return replace(kernel, body=body, buffers=buffers, next_id=b.next_id)
