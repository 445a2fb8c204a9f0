"""Given the step at which reverse and forward mode disagree, finds the element, the iteration and the statement.

Forward mode along half of the elements tells which half of a gradient is wrong, and so on down to one element. Launches
of half of the iterations tell which iteration adds the error to this element. The reference interpreter then runs this
iteration. For each statement of it, forward mode that starts at the statement gives the right derivative of the loss by
the statement's value, which is compared with the derivative in the gradient.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.autodiff import derivative_expressions
from quadrants_lab.errors import QuadrantsError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.check.cause import Event, written
from quadrants_lab.runtime.check.differences import gradients
from quadrants_lab.runtime.check.dot_product import Arrays, Element, Mismatch, Narrow, seed_gradients
from quadrants_lab.runtime.check.flow import forward_tasks
from quadrants_lab.runtime.check.launch_flow import Cell, Flow, LaunchFlow, TooLong, Trace, share_of
from quadrants_lab.runtime.check.windows import Windows, lane_of
from quadrants_lab.runtime.interpret.interpreter import Box, Env, Lane
from quadrants_lab.runtime.interpret.interpreter_trace import StopReplay
from quadrants_lab.runtime.observe.observers import watch
from quadrants_lab.runtime.record.records import Copier, LaunchRecord

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.tangent import Tangents
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.tape.step import Step

SECONDS = 10.0
MOST_PATH = 2000  # the most operations between the element and the values that the iteration writes


def narrow(tangents: Tangents, found: Mismatch, tolerance: float) -> Narrow | None:
    """Finds where the step's gradient is wrong; None if that is not possible. Memory must be as the last launch left
    it."""
    steps = list(tangents.launches.leaves())[found.first : found.last + 1]
    tangents.start()
    for step in list(tangents.launches.leaves())[: found.first]:
        tangents.step(step)
    around = _Around(tangents, steps, found, {key: m.copy() for key, m in tangents.values.items()})
    element = around.element(tolerance)
    if element is None:
        return None
    writer = _Writer(tangents, found, element)
    with suppress(QuadrantsError, ArithmeticError, TooLong):
        record = writer.record()
        if record is not None:
            return _Closer(around, element, record, writer.buffer, tolerance).look()
    return Narrow(element)


@dataclass(slots=True)
class _Around:
    """Repeats a step (with the launches within it) from the ``values`` before it."""

    tangents: Tangents
    steps: list[Step]
    found: Mismatch
    values: Arrays

    def again(self) -> None:
        """Restores the values from before the step."""
        for key, values in self.values.items():
            self.tangents.values[key].put(..., values)

    def right(self, direction: Arrays) -> float:
        """The derivative of the loss along ``direction`` by the values before the step, computed by forward mode."""
        self.again()
        self.tangents.set(direction)
        for step in self.steps:
            self.tangents.step(step)
        later = self.found.adjoints[1]
        return sum(_dot(later[key], m.array) for key, m in self.tangents.tangents.items() if key in later)

    def off(self, direction: Arrays) -> float:
        """The error of the step's gradient along ``direction``."""
        before = self.found.adjoints[0]
        return sum(_dot(before[key], t) for key, t in direction.items()) - self.right(direction)

    def element(self, tolerance: float) -> Element | None:
        """Finds an element by bisection, always in the half with the greater error; None if its error is not more than
        ``tolerance``."""
        directions = [{key: t} for key, t in self.found.tangent.items() if key in self.tangents.values and t.any()]
        wrong = sorted(((abs(self.off(direction)), n) for n, direction in enumerate(directions)), reverse=True)
        if not wrong or not np.isfinite(wrong[0][0]):
            return None
        ((key, t),) = directions[wrong[0][1]].items()
        where, off = np.flatnonzero(t), self.off({key: t})
        while where.size > 1:
            low, high = where[: where.size // 2], where[where.size // 2 :]
            part = self.off({key: _only(t, low)})
            where, off = (low, part) if abs(part) >= abs(off - part) else (high, off - part)
        index = tuple(int(k) for k in np.unravel_index(int(where[0]), t.shape))
        name = self.tangents.launches.names.get(key, "a field")
        given, right = float(self.found.adjoints[0][key][index]), self.right({key: _unit(t, index)})
        if abs(given - right) <= tolerance * max(abs(given), abs(right)):
            return None
        return Element(name, key, index, given, right)


def _only(values: Any, where: Any) -> Any:
    out = np.zeros_like(values)
    out.reshape(-1)[where] = values.reshape(-1)[where]
    return out


def _unit(like: Any, index: Lane) -> Any:
    out = np.zeros_like(like)
    out[index] = 1
    return out


def _dot(a: Any, b: Any) -> float:
    return float((a.reshape(-1).astype(np.float64) * b.reshape(-1).astype(np.float64)).sum())


class _Writer:
    """An observer of a step's gradient. It records the first launch that changes an element's adjoint (in ``buffer``).
    """

    def __init__(self, tangents: Tangents, found: Mismatch, element: Element) -> None:
        self.tangents, self.found, self.element = tangents, found, element
        self.grad: Memory | None = None
        self.at = 0
        self.kept: LaunchRecord | None = None
        self.buffer = ""

    def record(self) -> LaunchRecord | None:
        launches = self.tangents.launches
        self.grad = gradients(launches)[self.element.key][1]
        self.at = len(list(launches.leaves()))
        seed_gradients(launches, self.tangents.loss)
        with suppress(StopReplay), watch(self):
            launches.differentiate(after=self.done)
        return self.kept

    def done(self, step: Step) -> None:
        self.at -= 1
        if self.at <= self.found.first:
            raise StopReplay

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        name = next((n for n, m in plan.memories(args).items() if m is self.grad), "")
        if self.at != self.found.last + 1 or name not in plan.writes:
            return None
        copier = Copier()
        return name, copier, copier.before(plan, args)

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        if token is None:
            return
        name, copier, record = token
        copier.after(plan, args, record, failed)
        at = self.element.index
        if record.inputs is None or record.outputs is None:
            raise StopReplay
        if record.inputs[name][at] != record.outputs[name][at] or self.found.step.launch is not None:
            self.kept, self.buffer = record, name
            raise StopReplay


@dataclass(slots=True)
class _Closer:
    """Looks for the statement at which the derivatives begin to differ, in the launch ``record``. This launch writes
    the adjoint of ``element`` to ``buffer``."""

    around: _Around
    element: Element
    record: LaunchRecord
    buffer: str
    tolerance: float
    until: float = field(default_factory=lambda: monotonic() + SECONDS)

    def look(self) -> Narrow:
        plan, inputs = self.record.plan, self.record.inputs
        assert inputs is not None
        back = Windows(self.record, plan.kernel, inputs, self.around.tangents.session)
        (step,) = self.around.steps[-1:]
        forward = self._forward(step) if step.launch is not None else None
        same_box = forward is not None and len(back.tasks) == len(forward.tasks) == 1 and back.box(0) == forward.box(0)
        found = (0, self._most_wrong(back, forward)) if forward is not None and same_box else self._changed(back)
        if found is None:
            return Narrow(self.element, None if forward is None else self._reader(forward))
        seen = _Iteration(back, plan.compiled.lowered.kernel, self.buffer, self.element.index, self.until)
        event: Event | None = None
        with suppress(TooLong):  # the event is then the write, if the interpreter reached it
            back.follow(*found, seen.observe)
            event = self._statement(forward, found[1], seen, step) if forward is not None and same_box else None
        return Narrow(self.element, event or seen.event)

    def _forward(self, step: Step) -> Windows:
        """The launch with tangents, along the direction that changes only the element."""
        self.around.again()
        tangents = self.around.tangents
        key = self.element.key
        tangents.set({key: _unit(self.around.found.tangent[key], self.element.index)})
        assert step.launch is not None
        record, kernel, memories = tangents.record(*step.launch)
        return Windows(record, kernel, {name: m.array for name, m in memories.items()}, tangents.session)

    def _changed(self, back: Windows) -> tuple[int, Lane] | None:
        """The first (task, iteration) of the gradient that changes the element's adjoint."""
        was = back.array(self.buffer)[self.element.index]
        for task in range(len(back.tasks)):
            lane = back.first(task, lambda: bool(back.array(self.buffer)[self.element.index] != was))
            if lane is not None:
                return task, lane
        return None

    def _reader(self, forward: Windows) -> Event | None:
        """The first statement of the launch that reads the element, in an iteration through which its tangent
        propagates."""
        buffers = forward.kernel.buffers
        mine = {name for key, name in self._duals(forward) if key == self.element.key}
        duals = [b.dual for b in buffers.values() if b.dual and b.dual not in mine]
        names = [b.name for b in buffers.values() if b.dual in mine]
        for task in range(len(forward.tasks)):
            lane = forward.first(task, lambda: any(forward.array(name).any() for name in duals))
            if lane is not None:
                kernel = forward.record.plan.compiled.lowered.kernel
                seen = _Iteration(forward, kernel, self.buffer, self.element.index, self.until)
                forward.follow(task, lane, partial(seen.read, names))
                return seen.event
        return None

    def _most_wrong(self, back: Windows, forward: Windows) -> Lane:
        """The iteration that adds most of the error to the element's adjoint; found by bisection."""
        states = back.state(), forward.state()
        later = self.around.found.adjoints[1]
        duals = self._duals(forward)

        def off(box: Box) -> float:
            for windows, state in zip((back, forward), states, strict=True):
                windows.restore(state)
                windows.run(0, box)
            right = sum(_dot(later[key], forward.array(name)) for key, name in duals if key in later)
            return float(back.array(self.buffer)[self.element.index]) - right

        window = list(back.box(0))
        idle = off(tuple(range(axis.start, axis.start) for axis in window))
        whole = off(tuple(window)) - idle
        for k in range(len(window)):
            while len(window[k]) > 1:
                low, high = window[k][: len(window[k]) // 2], window[k][len(window[k]) // 2 :]
                part = off((*window[:k], low, *window[k + 1 :])) - idle
                window[k], whole = (low, part) if abs(part) >= abs(whole - part) else (high, whole - part)
        for windows, state in zip((back, forward), states, strict=True):
            windows.restore(state)
        return tuple(axis.start for axis in window)

    def _duals(self, forward: Windows) -> list[tuple[int, str]]:
        """Pairs of the id of a memory and the name of the buffer with its tangent."""
        plan, args = forward.record.plan, forward.record.args
        backing = plan.backing(args)
        buffers = forward.kernel.buffers
        return [(id(backing[name]), b.dual) for name, b in buffers.items() if b.dual and name in backing]

    # --- statements ----------------------------------------------------------------------------------------------

    def _statement(self, dual: Windows, lane: Lane, seen: _Iteration, step: Step) -> Event | None:
        """The operation whose derivative is wrong in this iteration: on the way from the element to the result, the
        last operation before the first one for which the gradient computed a right derivative. Raises TooLong."""
        assert step.launch is not None
        plan, args, _ = step.launch
        kernel = forward_tasks(plan.compiled)
        record = dual.record
        arrays = {name: dual.array(name) for name in kernel.buffers if name in dual.memories}
        windows = Windows(record, kernel, arrays, dual.session)
        backing = plan.backing(args)
        keys = {name: id(backing[name]) if name in backing else name for name in kernel.buffers}
        later = self.around.found.adjoints[1]

        def flow(cells: dict[Cell, Flow], inject: tuple[int, int] | None) -> tuple[LaunchFlow, float]:
            run = LaunchFlow(Trace(), cells, self.until, kernel, 0, keys)
            count = 0

            def observe(s: N.Stmt, value: Any, env: Env) -> None:
                nonlocal count
                run.observe(s, value, env)
                if inject is None and isinstance(s, N.Op) and _moves(run.flows.get(s.id)):
                    moving = [_moves(run.flows.get(a)) for a in s.args]
                    if len(path) == MOST_PATH:
                        raise TooLong
                    path.append((s, tuple(env[a] for a in s.args), value, moving))
                elif inject is not None and s.id == inject[0]:
                    count += 1
                    if count == inject[1]:
                        run.flows[s.id] = Flow(s.type.numpy(1))  # type: ignore[attr-defined]  # it is an operation

            windows.follow(0, lane, observe)
            found = ((later[key], at, f.tangent) for (key, at), f in cells.items() if key in later and _moves(f))
            return run, sum(float(a[at]) * float(t) for a, at, t in found)

        path: list[tuple[N.Op, tuple[Any, ...], Any, list[bool]]] = []
        start = np.ones((), kernel.buffers[next(n for n, k in keys.items() if k == self.element.key)].dtype.numpy)[()]
        run, _ = flow({(self.element.key, self.element.index): Flow(start)}, None)
        counts: dict[int, int] = {}
        last: Event | None = None
        for s, operands, value, moving in path:
            counts[s.id] = counts.get(s.id, 0) + 1
            computed = seen.derivatives.get(s.id)
            if not computed:
                continue
            _, adjoint = flow({}, (s.id, counts[s.id]))
            # the contributions that the adjoint of ``s`` makes to the adjoints of its operands
            g = s.type.numpy(adjoint)
            trees = (derivative_expressions.share(s.prim, k) for k, moves in enumerate(moving) if moves)
            shares = [float(share_of(s, tree, operands, value, g)) for tree in trees if tree is not None]
            if any(abs(abs(v) - abs(c)) <= self.tolerance * abs(c) for c in shares for v in computed):
                break
            names = (run.name(a) or f"operand {n + 1}" for n, a in enumerate(s.args))
            more = (("its derivative by forward mode", shares[0]), ("by the gradient", computed[-1])) if shares else ()
            at = lane_of(windows.tasks[0], lane)
            last = Event(s, plan.kernel.name, 0, at, (*zip(names, operands, strict=True), *more))
        return last


def _moves(flow: Flow | None) -> bool:
    return flow is not None and flow.tangent is not None and bool(flow.tangent != 0)


class _Iteration:
    """An observer of an iteration of a gradient. ``derivatives``: id of a statement of the launch -> the values that
    were computed as its derivative. ``event``: the write that changes the element. Raises TooLong at the first loop or
    branch after the time ``until``."""

    def __init__(self, windows: Windows, forward: N.Kernel, buffer: str, index: Lane, until: float) -> None:
        self.kernel, self.buffer, self.index, self.until = windows.kernel, buffer, index, until
        self.env: Env = {}
        self.derivatives: dict[int, list[float]] = {}
        self.loads: dict[str, tuple[int, Any]] = {}  # source text of a load -> (its line, the value)
        self.lane: Lane = ()
        self.event: Event | None = None
        self.defined = {s.id: s for k in (forward, windows.kernel) for s in walk(k.body)}

    def observe(self, s: N.Stmt, value: Any, env: Env) -> None:
        self.env = env
        if isinstance(s, N.Control) and monotonic() > self.until:
            raise TooLong
        if isinstance(s, N.Offload):
            self.lane = lane_of(s, value)
        if isinstance(s, (N.Op, N.Element)) and s.type.is_float and s.adjoint_of != N.NO_ID:
            self.derivatives.setdefault(s.adjoint_of, []).append(float(value))
        if s.loads and s.span is not None:
            self.loads[written(s.span)] = s.span.line, value
        if isinstance(s, N.Write) and s.buffer == self.buffer and self._first(s):
            self._write(s)

    def read(self, buffers: list[str], s: N.Stmt, value: Any, env: Env) -> None:
        """An observer like `observe`; but ``event`` becomes the first load of the element from one of the buffers."""
        self.observe(s, value, env)
        if isinstance(s, N.Load) and s.buffer in buffers and self._first(s):
            self.event = Event(s, self.kernel.name, 0, self.lane, ((written(s.span) or s.buffer, value),))

    def _first(self, s: N.Access) -> bool:
        """Whether ``s`` is the first access to the element."""
        return self.event is None and tuple(int(self.env[i]) for i in s.index) == self.index

    def _write(self, s: N.Write) -> None:
        of = self.defined.get(s.adjoint_of, s)
        line = of.span.line if of.span else 0
        read = [(text, value) for text, (at, value) in self.loads.items() if at == line and text]
        adds = "it adds" if s.atomic else "it writes"
        self.event = Event(of, self.kernel.name, 0, self.lane, (*read, (adds, self.env[s.value])))

