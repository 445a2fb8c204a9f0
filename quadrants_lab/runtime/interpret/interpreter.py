"""The reference interpreter runs IR statement by statement, with a numpy scalar of the right dtype for each value.

It defines the meaning of the IR; differential tests compare devices with it; and it repeats launches for the stepper.
Tasks run one after the other and the iterations of a task in row-major order, so a race has one fixed outcome here. It
runs any kernel, before or after any pass.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate
from quadrants_lab.errors import Label, QuadrantsAssertionError, QuadrantsRuntimeError
from quadrants_lab.ir import draws, nodes as N
from quadrants_lab.ir.deep_recursion import check_depth, deeply_recursive, depth_of_block
from quadrants_lab.ir.prims import PRIMS, RENAMED
from quadrants_lab.ir.show import fill, show
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import f32, f64
from quadrants_lab.ir.walk import find

Lane = tuple[int, ...]
Env = Mapping[int, Any]  # id -> value
Observer = Callable[[N.Stmt, Any, Env], None]
Box = tuple[range, ...]
Iterations = Callable[[N.Offload, Box], Iterable[Lane]]


class Trip(NamedTuple):
    """The value that an observer gets when an iteration of a loop begins: the index of a For (None for a While), and
    the loop-carried values."""

    index: Any
    carried: tuple[Any, ...]


class Stack:
    """An adstack. Beyond its capacity it still counts pushes, which overwrite the slot on top."""

    __slots__ = ("capacity", "count", "count_only", "slots")

    def __init__(self, capacity: int | None, count_only: bool) -> None:
        self.capacity = capacity
        self.count_only = count_only
        self.slots: list[Any] = []
        self.count = 0

    def push(self, value: Any) -> None:
        self.count += 1
        if self.count_only or self.capacity == 0:
            return
        if self.capacity is not None and self.count > self.capacity:
            self.slots[-1] = value
        else:
            self.slots.append(value)

    def pop(self) -> None:
        self.count -= 1
        if len(self.slots) > self.count:
            self.slots.pop()


class OutOfBounds(QuadrantsAssertionError, IndexError):
    """Raised for an access to global memory outside of the buffer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An assert that did not hold: its message with values filled in, its kind, its source position and the iteration.
    """

    message: str
    kind: str
    span: Span | None
    lane: Lane


@dataclass(slots=True)
class Result:
    """What a run returns besides the changed arrays.

    ``rets``: name of a "ret" buffer -> numpy scalar. ``scratch``: name of a scratch buffer -> its array. ``prints``:
    the text of each executed Print. ``depth``: id of a stack -> the most slots that it held at once, over all
    iterations. ``pushes``: id of a stack -> iteration -> how many pushes. ``failure``: the first assert that did not
    hold; its iteration ended there and later tasks did not run. ``overflow``: the first (id of a stack, iteration) that
    exceeded its capacity; the reverse of each such iteration was skipped. If adstacks are lowered, ``overflow`` has the
    stack's index instead of its id.
    """

    rets: dict[str, Any] = field(default_factory=dict)
    scratch: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    prints: list[str] = field(default_factory=list)
    depth: dict[int, int] = field(default_factory=dict)
    pushes: dict[int, dict[Lane, int]] = field(default_factory=dict)
    failure: Failure | None = None
    overflow: tuple[int, Lane] | None = None


@deeply_recursive
def interpret(
    kernel: N.Kernel,
    args: Mapping[str, Any] | None = None,
    arrays: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    caps: Mapping[int, int] | None = None,
    random: tuple[int, int] = (0, 1),
    observer: Observer | None = None,
    iterations: Iterations | None = None,
) -> Result:
    """Runs ``kernel`` once; ``arrays`` (buffer name -> numpy array of its dtype) are changed in place.

    ``caps``: id of a stack -> its capacity in slots; other stacks are unlimited. Float results and operands below the
    smallest normal number are flushed to zero, as on the devices.

    ``random``: the seed and the number of the launch, on which random draws depend (see `ir.draws`).

    ``observer(stmt, value, env)`` is called after every statement with the value that it defined or wrote (None if
    there is none, a tuple for the results of If, For and While), and at the start of each iteration: of a task with the
    tuple of its indices, of a For or While with a `Trip`. ``env`` has the values that are known then.

    ``iterations(task, box)`` returns the iterations of a task that should run, in order; without it all run, in
    row-major order.

    Raises `OutOfBounds`, which names buffer, index and line; `QuadrantsRuntimeError` for a buffer that is missing or
    has another dtype or rank, and for a pop of an empty adstack.
    """
    check_depth(depth_of_block(kernel.body))  # raised here, nothing has been changed yet
    return _Machine(kernel, args or {}, arrays or {}, caps or {}, random, observer, iterations).run()


class _LaneEnds(Exception):
    """Raised to end the running iteration."""


_Signal = tuple[type[N.Yield], tuple[Any, ...]]  # how a block ended, and the values that it yields
_END: _Signal = (N.Yield, ())

_TINY: dict[Any, Any] = {t.numpy: np.finfo(t.numpy).tiny for t in (f32, f64)}
_BITS_ONLY = frozenset({"neg", "abs", "select", "bitcast", "min", "max", *RENAMED})  # move bits: no flush


def _flush(value: Any) -> Any:
    tiny = _TINY.get(type(value))
    return value * 0 if tiny is not None and value != 0 and -tiny < value < tiny else value


_Handler = Callable[[Any], _Signal | None]


class _Machine:
    def __init__(
        self, kernel: N.Kernel, args: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]],
        caps: Mapping[int, int], random: tuple[int, int], observer: Observer | None, iterations: Iterations | None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.args = {a.name: a.type.numpy(args[a.name]) for a in kernel.args}
        self.arrays = {b.name: _memory(b, arrays) for b in kernel.buffers.values() if b.kind != "scratch"}
        live = LiveData(self.args, self.arrays)
        scratch = {  # the caller's array, or else zeros of the size that the buffer declares
            b.name: arrays[b.name] if b.name in arrays
            else np.zeros([evaluate(e, live) for e in b.extents], b.dtype.numpy)
            for b in kernel.buffers.values() if b.kind == "scratch"
        }  # fmt: skip
        self.arrays |= scratch
        self.caps = caps
        self.draws = random
        self.observer = observer
        self.iterations = iterations
        self.env: dict[int, Any] = {}
        self.stacks: dict[int, Stack] = {}
        self.lane: Lane = ()
        self.iteration = 0  # the row-major index of the running iteration
        # id of a place that draws -> how often this iteration has drawn there, minus one
        self.drawn: dict[int, int] = {}
        stacks = [s.id for s in find(kernel.body, N.AdStackAlloca)]
        self.result = Result(depth=dict.fromkeys(stacks, 0), pushes={i: {} for i in stacks}, scratch=scratch)
        self.table: dict[type[N.Stmt], _Handler] = {
            **{cls: getattr(self, f"_{name}") for cls, name in _HANDLERS.items()},
            **{cls: partial(self.define_by, rule) for cls, rule in _VALUES.items()},
        }

    def run(self) -> Result:
        with np.errstate(all="ignore"), contextlib.suppress(_LaneEnds):
            self.block(self.kernel.body)
        for b in self.kernel.buffers.values():
            if b.kind == "ret":
                self.result.rets[b.name] = self.arrays[b.name][()]
        return self.result

    def block(self, block: N.Block) -> _Signal:
        table = self.table
        for stmt in block:
            signal = table[type(stmt)](stmt)
            if signal is not None:
                return signal
        return _END

    def define(self, stmt: N.Value, value: Any) -> None:
        self.env[stmt.id] = value
        self.notify(stmt, value)

    def define_by(self, rule: Callable[[_Machine, Any], Any], stmt: N.Value) -> None:
        self.define(stmt, rule(self, stmt))

    def notify(self, stmt: N.Stmt, value: Any = None) -> None:
        if self.observer is not None:
            self.observer(stmt, value, self.env)

    def values(self, ids: tuple[int, ...]) -> tuple[Any, ...]:
        env = self.env
        return tuple([env[i] for i in ids])

    def bind(self, params: tuple[N.Param, ...], values: tuple[Any, ...]) -> None:
        for p, v in zip(params, values, strict=True):
            self.env[p.id] = v

    # --- values

    def _const(self, s: N.Const) -> None:
        self.define(s, s.type.numpy(s.value))

    def _op(self, s: N.Op) -> None:
        prim, env = s.prim, self.env
        if prim in _BITS_ONLY:
            value = PRIMS[prim].evaluate(s.type, *[env[i] for i in s.args])
        else:
            value = _flush(PRIMS[prim].evaluate(s.type, *[_flush(env[i]) for i in s.args]))
        self.define(s, value)

    def _choice(self, s: N.Choice) -> None:
        types = dict(s.defs())
        taken = s.taken(self.values(s.index))
        self.env |= {i: self.env[v] if v != N.NO_ID else types[i].numpy(0) for i, v in taken}
        self.notify(s, self.env.get(s.id))

    def _call(self, s: N.Call) -> None:
        f = self.kernel.functions[s.function]
        outer = self.env, self.observer
        self.env, self.observer = dict(zip((p.id for p in f.params), self.values(s.args), strict=True)), None
        _, (value,) = self.block(f.body)
        self.env, self.observer = outer
        self.define(s, value)

    def _random(self, s: N.Random) -> None:
        n = self.drawn[s.site] = self.drawn.get(s.site, -1) + 1
        seed, launch = self.draws
        self.define(s, draws.value(s.type, draws.draw(seed, launch, self.iteration, s.site, n)))

    def _builtin(self, s: N.Builtin) -> None:
        seed, launch = self.draws
        values = {
            "seed": seed, "launch": launch, "iteration": self.iteration, "lanes": 1, "place": 0, "elected": 1,
            "clock": perf_counter_ns(),
        }  # fmt: skip
        self.define(s, s.type.numpy(values[s.what] & (1 << 64) - 1))

    # --- memory

    def array(self, s: N.Stmt, buffer: str) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] | None = self.arrays[buffer]
        if array is None:
            raise QuadrantsRuntimeError(f"no array was given for buffer '{buffer}'", labels=(Label(s.span),))
        return array

    def words(self, s: N.Access, buffer: N.Buffer) -> np.ndarray[Any, Any]:
        """A copy of the bytes of the buffer that ``buffer`` is a view of, seen as elements of ``buffer``."""
        data = self.array(s, buffer.of).tobytes()
        return np.frombuffer(bytearray(data.ljust(-(-len(data) // 8) * 8, b"\0")), buffer.dtype.numpy)

    def cell(self, s: N.Access) -> tuple[np.ndarray[Any, Any], Lane]:
        buffer = self.kernel.buffers[s.buffer]
        array = self.words(s, buffer) if buffer.of else self.array(s, s.buffer)
        env = self.env
        index = tuple([int(env[i]) for i in s.index])
        if len(index) == 1 != array.ndim and 0 <= index[0] < array.size:
            index = tuple(map(int, np.unravel_index(index[0], array.shape)))
        for k, extent in zip(index, array.shape, strict=len(index) > 1):
            if not 0 <= k < extent:
                where = ", ".join(map(str, index))
                raise OutOfBounds(
                    f"index [{where}] is outside '{s.buffer}' of shape {array.shape}", labels=(Label(s.span),)
                )
        return array, index

    def _load(self, s: N.Load) -> None:
        array, index = self.cell(s)
        self.define(s, array[index])

    def _store(self, s: N.Store) -> None:
        array, index = self.cell(s)
        array[index] = self.env[s.value]
        self.notify(s, self.env[s.value])

    def _atomic(self, s: N.Atomic) -> None:
        array, index = self.cell(s)
        old, value = array[index], self.env[s.value]
        if s.op == "cas":
            value = value if old == self.env[s.expected] else old
        elif s.op != "exchange":
            value = PRIMS[s.op].evaluate(s.type, _flush(old), _flush(value))
            value = value if s.op in _BITS_ONLY else _flush(value)
        array[index] = value
        if of := self.kernel.buffers[s.buffer].of:
            whole = self.array(s, of)
            whole[...] = np.frombuffer(array.tobytes()[: whole.nbytes], whole.dtype).reshape(whole.shape)
        self.define(s, old)

    # --- effects

    def _assert(self, s: N.Assert) -> None:
        holds = bool(self.env[s.cond])
        self.notify(s, holds)
        if not holds:
            if self.result.failure is None:
                message = fill(s.message, self.values(s.args))
                self.result.failure = Failure(message, s.kind, s.span, self.lane)
            raise _LaneEnds

    def _print(self, s: N.Print) -> None:
        text = "".join(p if isinstance(p, str) else show(self.env[p], spec) for p, spec in s.pieces())
        self.result.prints.append(text)
        self.notify(s, text)

    # --- adstacks

    def _alloca(self, s: N.AdStackAlloca) -> None:
        self.stacks[s.id] = Stack(self.caps.get(s.id), s.count_only)
        self.result.pushes[s.id][self.lane] = 0
        self.notify(s)

    def _push(self, s: N.AdStackPush) -> None:
        stack, value = self.stacks[s.stack], self.env[s.value]
        stack.push(value)
        result = self.result
        result.pushes[s.stack][self.lane] += 1
        if stack.count > result.depth[s.stack]:
            result.depth[s.stack] = stack.count
        self.notify(s, value)

    def not_empty(self, s: Any) -> Stack:
        """The stack that the statement reads. Raises QuadrantsRuntimeError if it is empty."""
        stack = self.stacks[s.stack]
        if stack.count <= 0:
            raise QuadrantsRuntimeError(f"adstack {s.stack} is empty at %{s.id}", labels=(Label(s.span),))
        return stack

    def _pop(self, s: N.AdStackPop) -> None:
        stack = self.not_empty(s)
        value = stack.slots[-1] if stack.slots else None
        stack.pop()
        self.notify(s, value)

    def _guard(self, s: N.AdStackGuard) -> None:
        over = [i for i, k in self.stacks.items() if k.capacity is not None and k.count > k.capacity]
        if not over:
            self.block(s.body)
        elif self.result.overflow is None:
            self.result.overflow = (over[0], self.lane)
        self.notify(s, not over)

    def _overflow(self, s: N.Overflow) -> None:
        if self.result.overflow is None:
            self.result.overflow = (int(self.env[s.stack]), self.lane)
        self.notify(s, self.env[s.depth])

    # --- control flow

    def _end(self, s: N.Yield) -> _Signal:
        values = self.values(s.values)
        self.notify(s, values)
        return type(s), values

    def _if(self, s: N.If) -> _Signal | None:
        how, values = self.block(s.then if self.env[s.cond] else s.orelse)
        if how is not N.Yield:
            return how, values
        self.bind(s.results, values)
        self.notify(s, values)
        return None

    def _for(self, s: N.For) -> None:
        step = int(self.env[s.step]) if s.step != N.NO_ID else 1
        order = range(int(self.env[s.begin]), int(self.env[s.end]), step)
        values = self.values(s.inits)
        for k in reversed(order) if s.reverse else order:
            self.env[s.index.id] = index = s.index.type.numpy(k)
            self.bind(s.carried, values)
            self.notify(s, Trip(index, values))
            how, values = self.block(s.body)
            if how is N.Break:
                break
        self.bind(s.results, values)
        self.notify(s, values)

    def _while(self, s: N.While) -> None:
        values = self.values(s.inits)
        while True:
            self.bind(s.carried, values)
            self.notify(s, Trip(None, values))
            if not self.block(s.cond)[1][0]:
                break
            how, values = self.block(s.body)
            if how is N.Break:
                break
        self.bind(s.results, values)
        self.notify(s, values)

    def _offload(self, s: N.Offload) -> None:
        if self.result.failure is not None:
            return
        self.iteration, self.drawn = 0, {}
        found = self.block(s.bounds)[1]
        if s.kind == "threads":
            self.bind(s.indices, found)
            with contextlib.suppress(_LaneEnds):
                self.block(s.body)
            return
        bounds = [int(v) for v in found]
        axes = len(s.indices)
        outer, stacks = self.lane, self.stacks
        box = tuple(map(range, bounds[:axes], bounds[axes:]))
        for n, lane in self.numbered(s, box):
            self.lane, self.iteration, self.stacks, self.drawn = lane, n, {}, {}
            self.bind(s.indices, tuple(p.type.numpy(i) for p, i in zip(s.indices, lane, strict=True)))
            self.notify(s, lane)
            try:
                self.block(s.body)
            except _LaneEnds:
                continue
        self.lane, self.stacks = outer, stacks

    def numbered(self, s: N.Offload, box: Box) -> Iterable[tuple[int, Lane]]:
        """The iterations to run, each with its row-major index in the whole box."""
        if self.iterations is None:
            return enumerate(itertools.product(*box))
        return ((_number(box, lane), lane) for lane in self.iterations(s, box))


def _number(box: Box, lane: Lane) -> int:
    n = 0
    for axis, k in zip(box, lane, strict=True):
        n = n * len(axis) + axis.index(k)
    return n


_HANDLERS: dict[type[N.Stmt], str] = {
    N.Const: "const", N.Op: "op", N.Element: "choice", N.WithElement: "choice", N.Call: "call", N.Random: "random",
    N.Builtin: "builtin", N.Load: "load",
    N.Store: "store", N.Atomic: "atomic", N.Assert: "assert", N.Print: "print", N.AdStackAlloca: "alloca",
    N.AdStackPush: "push", N.AdStackPop: "pop", N.AdStackGuard: "guard",
    N.Overflow: "overflow", N.Yield: "end", N.Break: "end", N.Continue: "end", N.If: "if", N.For: "for",
    N.While: "while", N.Offload: "offload",
}  # fmt: skip
# class of a statement -> the value that the statement defines
_VALUES: dict[type[N.Stmt], Callable[[_Machine, Any], Any]] = {
    N.ArgLoad: lambda m, s: m.args[s.arg],
    N.ShapeOf: lambda m, s: s.type.numpy(m.array(s, s.buffer).shape[s.axis]),
    N.AdStackLoadTop: lambda m, s: m.not_empty(s).slots[-1],
    N.AdStackDepth: lambda m, s: s.type.numpy(m.stacks[s.stack].count),
    N.Lane: lambda m, s: s.type.numpy(0),  # iterations run one at a time, so the lane is always 0
    N.GroupReduce: lambda m, s: m.env[s.value],
    N.GroupSame: lambda m, s: np.bool_(True),
}


def _memory(buffer: N.Buffer, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """The array of a buffer. If the caller gave none: zeros for words of the frame and for private memory of an
    iteration, else None."""
    array = arrays.get(buffer.name)
    if array is None and (buffer.in_frame or buffer.kind in ("local", "private")):
        return np.zeros(buffer.shape or (), buffer.dtype.numpy)
    if array is None:
        return None
    if array.dtype != np.dtype(buffer.dtype.numpy) or array.ndim != buffer.ndim:
        raise QuadrantsRuntimeError(
            f"buffer '{buffer.name}' is {buffer.dtype} with {buffer.ndim} axes, "
            f"the array given for it is {array.dtype} with {array.ndim}"
        )
    if buffer.shape is not None and array.shape != buffer.shape:
        raise QuadrantsRuntimeError(
            f"buffer '{buffer.name}' has shape {buffer.shape}, the array given for it {array.shape}"
        )
    return array
