"""Follows derivatives through a launch: an observer of the reference interpreter that computes tangents and finds the
statements at which they end. Partial derivatives come from the same table as those of gradients."""

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from quadrants_lab.autodiff import derivative_expressions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, from_numpy
from quadrants_lab.ir.walk import of_kind, walk
from quadrants_lab.runtime.check.cause import Event, written
from quadrants_lab.runtime.check.windows import lane_of
from quadrants_lab.runtime.interpret.interpreter import Box, Env, Lane, Trip

DECISIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf"})
Cell = tuple[Any, Lane]  # an element: (id of its memory, or launch and name of a temporary; index)


class Flow(NamedTuple):
    """What is known of a value that depends on the input. ``tangent``: None if no derivative reaches the value.
    ``cut``: the statement that ended the derivative on some path to the value. ``lost``: the statement that turned a
    nonzero tangent into 0."""

    tangent: Any = None
    cut: Event | None = None
    lost: Event | None = None


class Eager:
    """Replaces the builder of `derivative_expressions.emit`: it evaluates each operation at once, with values in place
    of ids."""

    def const(self, value: Any, type: DType) -> Any:
        return type.numpy(value)

    def op(self, prim: str, *args: Any) -> Any:
        of = args[1] if prim == "select" else args[0]
        dtype = from_numpy(np.asarray(of).dtype)
        assert dtype is not None
        return PRIMS[prim].evaluate(dtype, *args)

    def cast(self, value: Any, type: DType) -> Any:
        return PRIMS["cast"].evaluate(type, value)


def share_of(s: N.Op, tree: ast.expr, operands: Sequence[Any], value: Any, along: Any) -> Any:
    """The product of a partial derivative at these operands and this result with a tangent or adjoint ``along``.
    ``tree``: the partial derivative, see `derivative_expressions.share`."""
    env: dict[str, Any] = dict(zip(derivative_expressions.OPERANDS, operands, strict=False)) | {"r": value, "g": along}
    with np.errstate(all="ignore"):
        return derivative_expressions.emit(Eager(), tree, env, s.type, s.type)  # type: ignore[arg-type]  # values for ids


@dataclass(slots=True)
class Trace:
    """What was found on the way from the input. ``loss``: the flow of the loss, None if it does not depend on the
    input. ``ties``: operations that are evaluated at a kink. ``decided``: comparisons of dependent values. ``over``:
    writes of independent values over dependent elements. ``skipped``: id -> branch, loop or task that would read
    dependent values but does not run. ``reached``: the last write of a dependent value. ``read``: whether a launch
    reads the input. ``partial``: whether some dependences were not followed."""

    loss: Flow | None = None
    ties: list[Event] = field(default_factory=list)
    decided: list[Event] = field(default_factory=list)
    over: list[Event] = field(default_factory=list)
    python: list[tuple[str, int]] = field(default_factory=list)  # (memory that Python overwrote, before which launch)
    skipped: dict[int, Event] = field(default_factory=dict)
    reached: Event | None = None
    read: bool = False
    partial: bool = False


class TooLong(Exception):
    """Raised if the interpreter takes longer than its time limit."""


class LaunchFlow:
    """The observer of launch ``number``. ``keys``: name of a buffer -> key of its memory in ``cells``. ``flows``: id of
    a dependent value -> its flow."""

    def __init__(
        self, trace: Trace, cells: dict[Cell, Flow], until: float, kernel: N.Kernel, number: int, keys: dict[str, Any]
    ) -> None:
        self.kernel, self.number, self.keys, self.until = kernel, number, keys, until
        self.trace, self.cells = trace, cells
        self.env: Env = {}
        self.flows: dict[int, Flow] = {}
        self.lane: Lane = ()
        self.yielded: tuple[Flow | None, ...] = ()
        self.ended: type[N.Stmt] = N.Yield
        self.running_loops: set[int] = set()
        self.statements = {s.id: s for s in walk(kernel.body)}
        self.params = {p.id: p for s in self.statements.values() for p in s.params()}
        dependent = {key for key, _ in cells}
        self.dependent = {name for name, key in keys.items() if key in dependent}

    def iterations(self, task: N.Offload, box: Box) -> Iterable[Lane]:
        if not all(map(len, box)):
            self.skip(task, task.body)
        return product(*box)

    def done(self) -> None:
        self.trace.read |= bool(self.dependent & {s.buffer for s in of_kind(self.statements.values(), N.Read)})

    def observe(self, s: N.Stmt, value: Any, env: Env) -> None:
        self.env = env
        handler = _HANDLERS.get(type(s))
        if handler is not None:
            handler(self, s, value)
        elif isinstance(s, N.Value):
            self.flows.pop(s.id, None)

    # --- statements ----------------------------------------------------------------------------------------------

    def task(self, s: N.Offload, value: Any) -> None:
        self.lane = lane_of(s, value)
        self.flows.clear()
        if monotonic() > self.until:
            raise TooLong

    def op(self, s: N.Op, value: Any) -> None:
        flows = [self.flows.get(a) for a in s.args]
        if not any(flows):
            self.flows.pop(s.id, None)
            return
        self._tie(s, flows)
        tangent, cut = None, next((f.cut for f in flows if f is not None and f.cut), None)
        lost = next((f.lost for f in flows if f is not None and f.lost), None)
        moving = False
        for k, f in enumerate(flows):
            tree = derivative_expressions.share(s.prim, k)
            if f is None or f.tangent is None:
                continue
            if tree is None or not s.type.is_float:
                cut = cut or self.event(s, value)
                continue
            part = share_of(s, tree, [self.env[i] for i in s.args], value, f.tangent)
            with np.errstate(all="ignore"):
                tangent = part if tangent is None else tangent + part
            moving |= bool(f.tangent != 0)
        if tangent is not None and moving and tangent == 0:
            lost = self.event(s, value)
        self.flows[s.id] = Flow(tangent, cut, lost if tangent is None or tangent == 0 else None)

    def _tie(self, s: N.Op, flows: list[Flow | None]) -> None:
        values = [self.env[a] for a in s.args]
        tangents = [0 if f is None or f.tangent is None else f.tangent for f in flows]
        two = s.prim in ("min", "max") and values[0] == values[1] and tangents[0] != tangents[1]
        found = self.trace.ties
        if s.prim in DECISIONS:
            found = found if len(values) == 2 and values[0] == values[1] else self.trace.decided
        elif not two and not (s.prim == "abs" and values[0] == 0):
            return
        if len(found) < 16:
            found.append(self.event(s))

    def choice(self, s: N.Choice, value: Any) -> None:
        found = [(i, self.flows.get(v)) for i, v in s.taken([self.env[i] for i in s.index])]
        for i, flow in found:
            self._set(i, flow)

    def load(self, s: N.Load, value: Any) -> None:
        flow = self.cells.get(self._cell(s))
        if any(i in self.flows for i in s.index):
            tangent, cut, lost = flow or Flow()
            flow = Flow(tangent, cut or self.event(s, value), lost)
        self._set(s.id, flow)

    def store(self, s: N.Store, value: Any) -> None:
        cell, flow = self._cell(s), self.flows.get(s.value) or self._chosen(s)
        if flow is not None:
            self.cells[cell] = self._kept(s, flow)
        elif self.cells.pop(cell, None) is not None and len(self.trace.over) < 64:
            self.trace.over.append(self.event(s, value))

    def atomic(self, s: N.Atomic, value: Any) -> None:
        self._set(s.id, None)
        cell, flow = self._cell(s), self.flows.get(s.value) or self._chosen(s)
        old, new = self.cells.get(cell), self.env[s.value]
        if s.op in ("min", "max"):
            if new == value and (flow or old):
                self.trace.ties.append(self.event(s, value))
            elif new < value if s.op == "min" else new > value:
                self.store(s, new)  # type: ignore[arg-type]  # has the same effect as a store
        elif flow is not None or old is not None:
            a, b = old or Flow(), flow or Flow()
            tangent = a.tangent if b.tangent is None else b.tangent if a.tangent is None else a.tangent + b.tangent
            if s.op not in ("add", "sub"):
                tangent = None
            self.cells[cell] = self._kept(s, Flow(tangent, a.cut or b.cut, a.lost or b.lost))

    def _kept(self, s: N.Write, flow: Flow) -> Flow:
        """The flow of an element after a value with the flow ``flow`` was written to it."""
        b = self.kernel.buffers[s.buffer]
        self.trace.reached = self.event(s)
        if flow.tangent is None or b.transient or (b.grad and b.dtype.is_float):
            return flow
        return Flow(None, flow.cut or self.event(s, self.env[s.value]), flow.lost)

    def end(self, s: N.Yield, value: Any) -> None:
        self.yielded, self.ended = tuple(self.flows.get(v) for v in s.values), type(s)

    def branch(self, s: N.If, value: Any) -> None:
        cond = self.flows.get(s.cond)
        for r, flow in zip(s.results, self.yielded, strict=True):
            self._set(r.id, flow or (cond and Flow(None, cond.cut)))
        self.skip(s, s.orelse if self.env[s.cond] else s.then)

    def loop(self, s: N.For | N.While, value: Any) -> None:
        if isinstance(value, Trip):
            if monotonic() > self.until:
                raise TooLong
            first = s.id not in self.running_loops
            self.running_loops.add(s.id)
            flows = tuple(self.flows.get(i) for i in s.inits) if first else self.yielded
            for p, flow in zip(s.carried, flows, strict=True):
                self._set(p.id, flow)
            return
        if s.id not in self.running_loops:
            flows = tuple(self.flows.get(i) for i in s.inits)
            self.skip(s, s.body)
        elif isinstance(s, N.While) and self.ended is not N.Break:
            flows = tuple(self.flows.get(p.id) for p in s.carried)
        else:
            flows = self.yielded
        self.running_loops.discard(s.id)
        for p, flow in zip(s.results, flows, strict=True):
            self._set(p.id, flow)

    # ---------------------------------------------------------------------------------------------------------------

    def skip(self, s: N.Stmt, block: N.Block) -> None:
        """Records that a block was skipped, if it would have read a dependent value."""
        if s.id in self.trace.skipped:
            return
        for inner in walk(block):
            if any(i in self.flows for i in inner.operands()) or getattr(inner, "buffer", "") in self.dependent:
                values = tuple((self.name(i), self.env[i]) for i in s.deciding() if not isinstance(s, N.While))
                self.trace.skipped[s.id] = Event(s, self.kernel.name, self.number, self.lane, values)
                return

    def _set(self, value: int, flow: Flow | None) -> None:
        if flow is None:
            self.flows.pop(value, None)
        else:
            self.flows[value] = flow

    def _chosen(self, s: N.Access) -> Flow | None:
        """The flow of an index. The index decides which element is accessed, and no derivative goes through this
        decision."""
        flow = next((self.flows[i] for i in s.index if i in self.flows), None)
        return flow and Flow(None, flow.cut)

    def _cell(self, s: N.Access) -> Cell:
        return self.keys[s.buffer], tuple(int(self.env[i]) for i in s.index)

    def event(self, s: N.Stmt, result: Any = None) -> Event:
        ids = s.args if isinstance(s, N.Op) else (s.value,) if isinstance(s, N.Write) else getattr(s, "index", ())
        # constants that the compiler made have the source position of their statement
        made = (self.statements.get(i) for i in ids)
        ids = tuple(i for i, x in zip(ids, made, strict=True) if not (isinstance(x, N.Const) and x.span == s.span))
        values = [(self.name(i) or f"operand {n + 1}", self.env[i]) for n, i in enumerate(ids)]
        if result is not None and isinstance(s, N.Op):
            values.append(("result", result))
        return Event(s, self.kernel.name, self.number, self.lane, tuple(values))

    def name(self, value: int) -> str:
        s = self.statements.get(value)
        if s is None:
            return getattr(self.params.get(value), "name", "")
        return getattr(s, "name", "") or written(s.span)


_HANDLERS: dict[type[N.Stmt], Callable[[Any, Any, Any], None]] = {
    N.Offload: LaunchFlow.task, N.Op: LaunchFlow.op, N.Element: LaunchFlow.choice,
    N.WithElement: LaunchFlow.choice, N.Load: LaunchFlow.load, N.Store: LaunchFlow.store,
    N.Atomic: LaunchFlow.atomic, N.Yield: LaunchFlow.end, N.Break: LaunchFlow.end, N.Continue: LaunchFlow.end,
    N.If: LaunchFlow.branch, N.For: LaunchFlow.loop, N.While: LaunchFlow.loop,
}  # fmt: skip
