"""Lowers loops over the threads of a block (`qd.loop_config(block_dim=...)`): the threads of a GPU's group share the
work of each loop, with barriers between loops.

offload range_for .. do (block) { for threads t in 0..n { A } .. } becomes, for groups of 64,

offload range_for block_dim 64 .. do (block, w) { for t in w..n step 64 { A } barrier .. }

and, if a group has as many threads as the block,

offload range_for block_dim 64 .. do (block, w) { if w < n { A[t := w] } barrier .. }

The pass `split_blocks` has made these loops. Each thread of the group runs the statements between the loops. The
threads wait for each other after each loop that accesses what the task writes, and after each load between loops. Some
arrays have an element, or a row, for each thread, which no other thread accesses. Such an array becomes a private array
of each thread if, after loops are unrolled, all indices into the row are constants: then it is kept in registers. So a
value that a thread needs in several phases costs nothing on a device, and a tile (`frontend.values.tile`) lies in
registers.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.unroll import unroll_loops
from quadrants_lab.ir.walk import constants, end_of, find, of_kind, rewrite, rules, substitute, types_of, walk

# the most statements after loops over private arrays are unrolled: for one loop and for a task; a Cholesky
# factorisation of 32 x 32 fits
MOST_UNROLLED = 12_000, 100_000


@dataclass(frozen=True, slots=True)
class LowerBlocks(Parametrised):
    """Turns a task over blocks, in which only the loops over threads have side effects, into a task of groups of
    threads. Several threads then run an iteration, so none of its atomics is private. ``group``: the most threads of a
    group, a power of two; 0 on devices whose threads cannot wait for each other: then the pass does nothing. ``least``:
    the fewest threads of a group, a power of two; 0: always ``group``."""

    group: int = 0
    least: int = 0

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        fits = [self.group > 0 and _fits(task) for task in kernel.tasks]
        if not any(fits):
            return kernel
        b, ranges, body = Builder(kernel.next_id, types_of(kernel.body)), Ranges(kernel), []
        shared = [
            _Shared(b, kernel, task, self.threads(task, ranges), ranges) if fit else None
            for task, fit in zip(kernel.tasks, fits, strict=True)
        ]
        own = {name: x for s in shared if s for name, x in s.own.items()}
        while True:
            body = [s.task(own) if s else t for t, s in zip(kernel.tasks, shared, strict=True)]
            buffers = kernel.buffers | {x.name: x for x in own.values()}
            made = replace(kernel, buffers=buffers, body=tuple(body), next_id=b.next_id)
            made = unroll_loops(made, _indexing(made), MOST_UNROLLED)
            moving = _moving(made)
            if not moving:
                return made
            own = {name: x for name, x in own.items() if x.name not in moving}

    def threads(self, task: N.Offload, ranges: Ranges) -> int:
        """How many threads a group has: as many as the block, rounded up to a power of two, within ``least`` and
        ``group``; if the block's size is not known, ``group``."""
        ends = [ranges.range(loop.end) for loop in _loops(task)]
        size = max((self.group if end is None else end[1] for end in ends), default=self.group)
        return min(self.group, max(self.least or self.group, 1 << (size - 1).bit_length()))


def _loops(task: N.Offload) -> list[N.For]:
    """The loops over the threads of a block."""
    return [loop for loop in find(task.body, N.For) if loop.threads]


def _fits(task: N.Offload) -> bool:
    """Whether groups can run the task. All side effects must be in loops over threads that carry no values; no thread
    may leave such a loop early; and no thread may depend on how many random numbers another thread has drawn."""
    excluded = (N.Assert, N.Random, N.AdStackAlloca, N.StackUse)
    one = task.kind == "range_for" and len(task.indices) == 1  # the form that `split_blocks` makes
    loops = _loops(task) if one else []
    inside = {id(s) for loop in loops for s in walk(loop.body)}
    return bool(loops) and not any(loop.carried for loop in loops) and all(
        not isinstance(s, excluded) and (id(s) in inside or not isinstance(s, N.Effect)) for s in walk(task.body)
    )


class _Shared:
    """A task whose blocks run on groups of ``group`` threads. ``own``: name of an array that may become private to each
    thread -> the private buffer."""

    def __init__(self, b: Builder, kernel: N.Kernel, task: N.Offload, group: int, ranges: Ranges) -> None:
        self.b, self.kernel, self.of, self.group = b, kernel, task, group
        self.place = b.param(i32, "w")
        self.known = constants(walk(task.body))
        self.direct = {
            loop.id for loop in _loops(task) if (end := ranges.range(loop.end)) is not None and end[1] <= group
        }
        self.parts = {name: shape for name, shape in self.rows().items() if self.is_own(name)}
        self.own = {
            name: N.Buffer(f"{name}.own", "private", kernel.buffers[name].dtype, 1, (prod(shape),))
            for name, shape in self.parts.items()
        }

    # --- arrays of which each thread has a part of its own --------------------------------------------------------

    def rows(self) -> dict[str, tuple[int, ...]]:
        """The arrays with a part for each block that no other task accesses; name -> the shape of one thread's part."""
        others = {s.buffer for t in self.kernel.tasks if t is not self.of for s in find(t.body, N.Access)}
        others |= {x.grad for x in self.kernel.buffers.values()}  # gradients must be 0 before a block begins
        used = sorted({s.buffer for s in find(self.of.body, N.Access)} - others)
        arrays = (self.kernel.buffers[name] for name in used)
        return {
            x.name: tuple(n.value for n in of_kind(x.extents[2:], SizeConst))
            for x in arrays if x.role == "block" and len(x.extents) > 1
        }  # fmt: skip

    def is_own(self, name: str) -> bool:
        """Whether every access to the array goes to the part of the thread that makes it, which is the index of the
        loop over threads around the access."""
        block, mine = self.of.indices[0].id, 0
        for loop in _loops(self.of):
            for s in find(loop.body, N.Access):
                if s.buffer == name:
                    mine += 1
                    index = s.index[:2] == (block, loop.index.id)
                    if loop.id not in self.direct or not index or s.atomic:
                        return False
        return mine == sum(s.buffer == name for s in find(self.of.body, N.Access))

    # --- the task -----------------------------------------------------------------------------------------------

    def task(self, own: Mapping[str, N.Buffer]) -> N.Offload:
        b, task = self.b, self.of
        b.span = task.span
        begin, end = end_of(task.bounds).values
        with b.block() as bounds:
            b.stmts += task.bounds[:-1]
            b.yield_(begin, b.const(0, i32), end, b.const(self.group, i32))
        written = {s.buffer for s in find(task.body, N.Write)} - set(own)

        def load(s: N.Load) -> N.Stmt | list[N.Stmt]:
            # all threads must have read the element before the first one changes it
            return [s, N.Barrier(b.fresh(), span=s.span)] if s.buffer in written else s

        def loop(s: N.For) -> N.Stmt | list[N.Stmt]:
            waits = any(x.buffer in written for x in find(s.body, N.Access))
            return b.made(self.shared, s, own, waits) if s.threads else s

        body = rewrite(task.body, rules({N.Load: load, N.For: loop}))
        return replace(task, bounds=tuple(bounds), indices=(*task.indices, self.place), body=body, block_dim=self.group)

    def shared(self, loop: N.For, own: Mapping[str, N.Buffer], waits: bool) -> None:
        """Emits the loop so that the threads of the group share its iterations; if ``waits``, a barrier follows."""
        b = self.b
        b.span = loop.span
        body = rewrite(loop.body, rules({N.Access: lambda s: self.accessed(s, own), N.Atomic: met}))
        if loop.id in self.direct:
            self.by_one(loop, substitute(body, {loop.index.id: self.place.id}))
        else:
            # The end may be below 0 if the block is partly filled. A loop with a step compares unsigned integers, so
            # its end must not be negative.
            first, step = b.op("add", loop.begin, self.place.id), b.const(self.group, i32)
            end = b.op("max", loop.end, b.const(0, i32))
            b.add(replace(loop, begin=first, end=end, body=body, step=step, reverse=False, threads=False))
        if waits:
            b.add(N.Barrier(b.fresh()))

    def by_one(self, loop: N.For, body: N.Block) -> None:
        """Emits the loop's body once: each thread of the group runs the iteration with its own index, if there is one.
        """
        b, tests = self.b, []
        if self.known.get(loop.begin) != 0:
            tests.append(b.op("ge", self.place.id, loop.begin))
        if self.known.get(loop.end) != self.group:
            tests.append(b.op("lt", self.place.id, loop.end))
        if not tests:
            b.stmts += body[:-1]
            return
        cond = b.reduced("and", tests)
        b.add(N.If(b.fresh(), cond, body, b.nothing(), (), span=loop.span))

    def accessed(self, s: N.Access, own: Mapping[str, N.Buffer]) -> N.Stmt | list[N.Stmt]:
        """Emits the load or store ``s`` as a thread of the group runs it."""
        if s.buffer not in own:
            return s
        b = self.b
        b.span = s.span
        with b.block() as found:
            at = b.const(0, i32) if len(s.index) < 3 else s.index[2]
            for n, i in zip(self.parts[s.buffer][1:], s.index[3:], strict=True):
                at = b.op("add", b.op("mul", at, b.const(n, b.types[at])), b.cast(i, b.types[at]))
        return [*found, replace(s, buffer=own[s.buffer].name, index=(at,))]


def _indexing(kernel: N.Kernel) -> set[int]:
    """The ids of the loops that must be unrolled: their index occurs in an index of a private array, or in the bounds
    of such a loop."""
    loops: dict[int, set[int]] = {}  # integer value -> ids of the loops whose indices it depends on
    wanted: set[int] = set()
    for s in walk(kernel.body):
        if isinstance(s, N.For) and not (s.reverse or s.checkpoint or s.step != N.NO_ID):
            loops[s.index.id] = {s.id}.union(*(loops.get(end, ()) for end in (s.begin, s.end)))
        elif isinstance(s, (N.Op, N.Element)) and s.type.is_int:
            if of := set().union(*(loops.get(a, ()) for a in s.operands())):
                loops[s.id] = of
        elif isinstance(s, N.Access) and kernel.buffers[s.buffer].kind == "private":
            wanted.update(*(loops.get(i, ()) for i in s.index))
    return wanted


def _moving(kernel: N.Kernel) -> set[str]:
    """The names of the private arrays that registers cannot hold, because some index is not constant."""
    constants = {s.id for s in find(kernel.body, N.Const)}
    own = {name for name, x in kernel.buffers.items() if x.kind == "private"}
    return {s.buffer for s in find(kernel.body, N.Access) if s.buffer in own and s.index[0] not in constants}


def met(s: N.Atomic) -> N.Atomic:
    """The atomic without the mark "private": several threads now run its iteration."""
    return replace(s, private=False, distance=-1, fission=0)
