"""Finds the statement that made the first NaN or infinity of a program, in the forward or the backward pass.

Launches are repeated and observed. The first launch that leaves a NaN or an infinity although it reads none is repeated
in the reference interpreter. Only nonfinite values that reach memory count: in 1/inf, which is 0, nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends import DEFAULT
from quadrants_lab.errors import QuadrantsError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.check.cause import Cause, Event, cause, written
from quadrants_lab.runtime.check.windows import Windows, draws_random, lane_of
from quadrants_lab.runtime.interpret.interpreter import Env, Lane, interpret
from quadrants_lab.runtime.interpret.interpreter_trace import StopReplay
from quadrants_lab.runtime.observe.observers import watch
from quadrants_lab.runtime.record.records import Arrays, Copier, LaunchRecord
from quadrants_lab.runtime.record.replay import shadow

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.recorder import Launches

SECONDS = 10.0  # seconds that the interpreter may take
_CLAMP = "clamp the operand to between -1 and 1"
_WHY: dict[str, tuple[str, str]] = {  # operation -> (why its value or slope is not finite, what to do)
    "sqrt": (
        "the root has no finite slope at 0, and below 0 no value",
        "keep the operand above 0: qd.sqrt(max(v, 1e-12)); or v.norm()",
    ),
    "div": ("a division by 0", "keep the divisor away from 0, or select a harmless one where it is"),
    "log": ("the logarithm of what is not above 0", "keep the operand above 0: qd.log(max(v, 1e-12))"),
    "pow": ("a power that has no finite value or slope there", "v * v for whole exponents; max(v, 1e-12) for others"),
    "acos": ("the slope of acos is infinite at -1 and 1, and beyond them it has no value", _CLAMP),
    "asin": ("the slope of asin is infinite at -1 and 1, and beyond them it has no value", _CLAMP),
    "exp": ("the exponential is too large for the dtype", "take the greatest operand out of it, or use f64"),
    "mul": ("the product is too large for the dtype", "scale the factors, or use f64"),
    "add": ("the sum is too large for the dtype", "scale the terms, or use f64"),
}


class _Watch(Copier):
    """An observer that stops at the first launch that makes a nonfinite value from finite ones; ``found`` is that
    launch."""

    found: LaunchRecord | None = None

    def after(self, plan: Plan, args: tuple[Any, ...], token: LaunchRecord, failed: bool) -> None:
        super().after(plan, args, token, failed)
        before = token.inputs or {}
        for name, left in (token.outputs or {}).items():
            if left.dtype.kind == "f" and (~np.isfinite(left) & np.isfinite(before.get(name, 0.0))).any():
                self.found = token
                raise StopReplay


def first_nonfinite(run: Callable[[], None], of: Launches | None = None) -> Cause | None:
    """The cause of the first nonfinite value, or None. ``run`` makes launches, or runs the gradients of the launches
    ``of``."""
    watcher = _Watch()
    with suppress(StopReplay), watch(watcher):
        run()
    record = watcher.found
    if record is None:
        return None
    return why_nonfinite(record, watcher.launches if of is None else _number(of, record), backwards=of is not None)


def why_nonfinite(record: LaunchRecord, launch: int, backwards: bool) -> Cause:
    """The operation that made the first NaN or infinity that the launch wrote, as a cause. ``launch``: its number in
    the program; ``backwards``: it is a gradient's."""
    name, event = record.kernel, None if record.inputs is None else origin(record)
    if event is None:
        way = "the gradient of " if backwards else ""
        says = f"{way}kernel {name} is the first to leave a NaN or an infinity"
        return Cause("nonfinite", says, kernel=name, launch=launch)
    op = event.stmt
    why, help = _WHY.get(op.prim, (f"{op.prim} has no finite value or slope of these operands", ""))
    way = "on the way back, through the derivative" if backwards else "on the way forwards"
    made = event.values[-1][1]
    what = "NaN" if np.isnan(made) else "infinity"
    event = Event(op, name, launch, event.iteration, event.values[:-1])
    return cause("nonfinite", f"the first {what} arises {way}: {why}", event, f"{what} here", help)


def _number(launches: Launches, gradient: LaunchRecord) -> int:
    """The number, from 1, of the launch that the record is the gradient of; 0 if it is none of the launches."""
    made = [(step.inner, *step.launch) for step in launches.leaves() if step.launch is not None]
    same = (n for n, (inner, plan, _, number) in enumerate(made, 1) if not inner and number == gradient.draws
            and plan.owner.gradient is gradient.plan.owner)  # fmt: skip
    return next(same, 0)


def origin(record: LaunchRecord) -> Event | None:
    """The operation that made the first NaN or infinity that the launch wrote; the event's last value is its result.
    For a gradient, the operation whose derivative made the value. None if the search takes too long."""
    plan, kernel = record.plan, record.plan.kernel
    assert record.inputs is not None
    look = _Origins(kernel, plan.compiled.lowered.kernel)
    with suppress(StopReplay, QuadrantsError, ArithmeticError):
        if draws_random(kernel):  # their iterations cannot be run one by one
            arrays = {name: np.zeros(shape, kernel.buffers[name].dtype.numpy) for name, shape in record.shapes.items()}
            arrays |= {name: a.copy() for name, a in record.inputs.items()}
            interpret(kernel, record.scalars, arrays, caps=record.caps, random=record.random, observer=look.observe)
        else:
            _look_closely(Windows(record, kernel, record.inputs, shadow(plan.session, DEFAULT)), look)
    return look.found


def _look_closely(launch: Windows, look: _Origins) -> None:
    """Interprets, in each task, the first iteration that leaves a nonfinite value. Raises StopReplay when the operation
    is found."""
    written = launch.record.plan.writes
    buffers = launch.kernel.buffers
    floats = [name for name in written | launch.temporaries if buffers[name].dtype.is_float]
    for task in range(len(launch.tasks)):
        before = launch.state()

        def spoilt(before: Arrays = before) -> bool:
            return any((~np.isfinite(launch.array(x)) & np.isfinite(before[x])).any() for x in floats)

        lane = launch.first(task, spoilt)
        if lane is not None:
            launch.follow(task, lane, look.observe)
            launch.restore(before)
            launch.run(task)


class _Origins:
    """An observer that tracks nonfinite values from the operation that made them to memory."""

    def __init__(self, kernel: N.Kernel, forward: N.Kernel) -> None:
        self.env: Env = {}
        # id of a value -> the operation that made it, and that operation's operands and result
        self.of: dict[int, tuple[N.Op, tuple[Any, ...]]] = {}
        self.latest: tuple[N.Op, tuple[Any, ...]] | None = None
        self.lane: Lane = ()
        self.found: Event | None = None
        self.until = monotonic() + SECONDS
        self.defined = {s.id: s for k in (kernel, forward) for s in walk(k.body)}

    def observe(self, s: N.Stmt, value: Any, env: Env) -> None:
        self.env = env
        if isinstance(s, (N.Offload, N.Control)) and monotonic() > self.until:
            raise StopReplay
        match s:
            case N.Offload():
                self.lane = lane_of(s, value)
            case N.Op() if s.type.is_float:
                if np.isfinite(value):
                    self.of.pop(s.id, None)
                    return
                known = next((self.of[a] for a in s.args if a in self.of), None)
                if known is None and any(map(_lost, (self.env[i] for i in s.args))):
                    known = self.latest  # the value came through a loop, a stack or memory
                if known is None:
                    known = self.latest = s, (*(self.env[a] for a in s.args), value)
                self.of[s.id] = known
            case N.Choice():
                for i, v in s.taken([env[i] for i in s.index]):
                    self.of.pop(i, None)
                    if v in self.of:
                        self.of[i] = self.of[v]
            case N.Write() if _lost(self.env[s.value]):
                made = self.of.get(s.value, self.latest)
                if made is not None:
                    self.found = self._event(*made)
                    raise StopReplay

    def _event(self, op: N.Op, values: tuple[Any, ...]) -> Event:
        """The operation as the user wrote it: for a derivative, the operation that was differentiated, with its
        operands."""
        of = self.defined.get(op.adjoint_of, op)
        known = [(a, self.env[a]) for a in of.args if a in self.env] if isinstance(of, N.Op) else []
        if of is op or not isinstance(of, N.Op):
            of, known = op, list(zip(op.args, values, strict=False))
        names = [self._name(a) or f"operand {n + 1}" for n, (a, _) in enumerate(known)]
        shown = dict(zip(names, (v for _, v in known), strict=True))
        return Event(of, "", 0, self.lane, (*shown.items(), ("result", values[-1])))

    def _name(self, value: int) -> str:
        s = self.defined.get(value)
        return (getattr(s, "name", "") or written(s.span)) if s is not None else ""


def _lost(value: Any) -> bool:
    return isinstance(value, np.floating) and not np.isfinite(value)
