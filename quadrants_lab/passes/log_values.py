"""The pass `log_values` makes a kernel log what one of its iterations computes, for a stepper without an
interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import DType, f64, i32, i64
from quadrants_lab.ir.walk import map_blocks, types_of

LOG, PLACE = "$log", "$log.place"
ROOM = 1 << 20  # how many 64-bit numbers the log holds
# elements of the buffer "place": the task to log, the next free element of the log, the first index of the iteration
TASK, NEXT, INDEX = 0, 1, 2


class Logged(NamedTuple):
    """A statement that has run, or a loop or task of which an iteration begins. ``defs``: the values that it has
    defined, with their dtypes."""

    stmt: N.Stmt
    begins: bool
    defs: tuple[tuple[int, DType], ...]


Runs = dict[int, list[Logged]]  # index of a run -> its statements, in order


def log_values(kernel: N.Kernel) -> tuple[N.Kernel, list[Runs]]:
    """A kernel with tasks, extended by two scratch buffers: the log, and the place, which says what to log. Also
    returns the runs of each task.

    A run is a sequence of statements without blocks. In the iteration that the place names (in a serial task always),
    each run appends to the log its index, and then the values of its statements, in order. A 64-bit value that is not a
    float is appended as its bits. When the log is full, the place still counts the numbers that would follow.
    """
    log = N.Buffer(LOG, "scratch", f64, 1, None, extents=(S.SizeConst(ROOM),), role="work")
    place = N.Buffer(PLACE, "scratch", i64, 1, None, extents=(S.SizeConst(INDEX + 8),), role="work")
    logger = _Logger(Builder(kernel.next_id, types_of(kernel.body)), log, place)
    body = tuple(logger.task(n, task) for n, task in enumerate(kernel.tasks))
    buffers = kernel.buffers | {LOG: log, PLACE: place}
    return replace(kernel, body=body, buffers=buffers, next_id=logger.b.next_id), logger.runs


class _Logger:
    def __init__(self, b: Builder, log: N.Buffer, place: N.Buffer) -> None:
        self.b, self.log, self.place = b, log, place
        self.runs: list[Runs] = []  # the runs of each task that was rewritten so far
        self.count = 0  # how many runs there are
        self.chosen = N.NO_ID  # id of a u1: whether this is the iteration to log

    def task(self, number: int, task: N.Offload) -> N.Offload:
        b = self.b

        def choose() -> None:
            asked = [(TASK, b.const(number, i64)), *((INDEX + n, p.id) for n, p in enumerate(task.indices))]
            same = [b.op("eq", self._element(n), b.cast(id, i64)) for n, id in asked]
            self.chosen = b.reduced("and", same)

        head = b.made(choose)
        self.runs.append({})
        return replace(task, body=(*head, *self.block(task.body, [_begin(task)])))

    def block(self, block: N.Block, run: list[Logged]) -> N.Block:
        """The block with code that logs; ``run`` is logged at its begin."""
        out: list[N.Stmt] = []
        for s in block[:-1]:
            if s.nests:
                out += self._append(run)
                begins, run = [_begin(s)] if isinstance(s, N.Loop) else [], []
                first = s.blocks()[0]
                s = map_blocks(s, partial(self._inner, first, begins))
            out.append(s)
            run.append(Logged(s, False, tuple(_scalars(s.defs()))))
        return (*out, *self._append(run), block[-1])

    def _inner(self, first: N.Block, begins: list[Logged], block: N.Block) -> N.Block:
        return self.block(block, begins if block is first else [])

    def _element(self, n: int) -> int:
        return self.b.load(self.place, (self.b.const(n, i32),))

    def _append(self, run: list[Logged]) -> Sequence[N.Stmt]:
        return self.b.made(self._appended, run) if run else ()

    def _appended(self, run: list[Logged]) -> None:
        b, values = self.b, [id for logged in run for id, _ in logged.defs]
        with b.when(self.chosen):
            at = self._element(NEXT)
            after = b.op("add", at, b.const(1 + len(values), i64))
            b.store(self.place, (b.const(NEXT, i32),), after)
            with b.when(b.op("le", after, b.const(ROOM, i64))):
                for n, value in enumerate([b.const(self.count, f64), *map(self._number, values)]):
                    b.store(self.log, (b.op("add", at, b.const(n, i64)),), value)
        self.runs[-1][self.count] = run
        self.count += 1

    def _number(self, id: int) -> int:
        t = self.b.types[id]
        return self.b.op("bitcast", id, type=f64) if t.bits == 64 and not t.is_float else self.b.cast(id, f64)


def _begin(s: N.Stmt) -> Logged:
    return Logged(s, True, tuple(_scalars((p.id, p.type) for p in s.params())))


def _scalars(defs: Iterator[tuple[int, DType]] | Sequence[tuple[int, DType]]) -> Iterator[tuple[int, DType]]:
    return ((id, t) for id, t in defs if isinstance(t, DType))
