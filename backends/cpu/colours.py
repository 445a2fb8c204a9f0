"""Sums into elements of neighbours without atomics: blocks of rows in two colours.

The adjoint of a stencil adds to the elements around its own. Iterations of a parallel loop are cut along its first axis
into blocks, and the blocks get two colours in turn. A block has at least as many rows as the sums reach, so blocks of
one colour touch no common element. Those of one colour run in parallel, then those of the other, and each sum is a
plain read, addition and write. The result does not depend on the number of threads.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends.cost import estimate
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import call_parallel, chunk_function
from quadrants_lab.backends.cpu.shares import Shares
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import map_blocks, rewrite_in, walk


@dataclass(frozen=True, slots=True)
class Coloured:
    """A kernel whose sums into neighbours are private. ``rows``: by the number of a task, the least rows of the blocks
    that must run in two colours for that. ``steps``: by the number of a task, the bodies that each of its rows runs one
    after the other instead of the task's own."""

    kernel: N.Kernel
    rows: Mapping[int, int]
    steps: Mapping[int, tuple[N.Block, ...]]


_last: tuple[N.Kernel, Coloured] | None = None


def coloured(kernel: N.Kernel) -> Coloured:
    """See `Coloured`. The result of the last kernel is kept, because compiling a kernel asks several times."""
    global _last
    last = _last  # another thread may replace it meanwhile
    if last is None or last[0] is not kernel:
        _last = last = kernel, _coloured(kernel)
    return last[1]


def _coloured(kernel: N.Kernel) -> Coloured:
    rows: dict[int, int] = {}
    stepped: dict[int, tuple[N.Block, ...]] = {}
    body: list[N.Stmt] = []
    for number, task in enumerate(kernel.tasks):
        reaches = [s.reach for s in walk(task.blocks()[-1]) if isinstance(s, N.Atomic) and s.reach >= 0]
        disjoint = max(reaches, default=0) == 0 and len(task.indices) == 1  # no other iteration adds to its elements
        if reaches:
            task = rewrite_in(task, partial(_private, disjoint=disjoint))
        if reaches and not disjoint:
            rows[number] = max(reaches)
            found = steps(task.blocks()[-1])
            if len(found) > 1:
                stepped[number] = found
        body.append(task)
    return Coloured(replace(kernel, body=tuple(body)), rows, stepped)


def _private(s: N.Stmt, disjoint: bool) -> N.Stmt:
    """Makes a sum private. ``disjoint``: no other iteration adds to its element at all."""
    if not isinstance(s, N.Atomic) or s.reach < 0:
        return s
    return replace(s, private=True, reach=-1 if disjoint else s.reach)


# --- the code -------------------------------------------------------------------------------------------------------


def launch(shared: Shares, mod: Module, number: int, axes: int, at: int, rows: int, grain: int, timed: int) -> None:
    """Runs the chunk function of task ``number`` over all iterations of its box of ``axes`` axes, whose bounds are at
    ``at`` in the frame, in two colours. ``shared``: what it sums into one element."""
    fn = shared.entry.fn
    for colour in (0, 1):
        name = f"task{number}_colour{colour}"
        _blocks(mod, name, number, axes, at, rows, grain, colour)
        _, size, blocks = _sizes(fn, axes, at, rows, grain)
        count = fn.let(f"lshr i64 {fn.let(f'add i64 {blocks}, {1 - colour}')}, 1")
        unit = shared.begin(count, 1, fn.let(f"shl i64 {size}, 1"))
        call_parallel(fn, name, count, 1, timed, unit)
        shared.end(count, unit)


def _sizes(fn: Function, axes: int, at: int, rows: int, grain: int) -> tuple[str, str, str]:
    """The number of iterations, of iterations in a block, and of blocks."""
    first, *others = (fn.word(at + (2 * axis + 1) * L.WORD) for axis in range(axes))
    row = "1"
    for extent in others:
        row = fn.let(f"mul i64 {row}, {extent}")
    first = fn.let(f"select i1 {fn.let(f'icmp eq i64 {row}, 0')}, i64 0, i64 {first}")  # no rows without iterations
    row = fn.call("i64", "llvm.umax.i64", ("i64", row), ("i64", "1"))
    wanted = fn.let(f"udiv i64 {fn.let(f'add i64 {row}, {grain - 1}')}, {row}")
    high = fn.call("i64", "llvm.umax.i64", ("i64", wanted), ("i64", str(max(rows, 1))))
    last = fn.let(f"add i64 {first}, {fn.let(f'sub i64 {high}, 1')}")
    blocks = fn.let(f"udiv i64 {last}, {high}")
    return fn.let(f"mul i64 {first}, {row}"), fn.let(f"mul i64 {high}, {row}"), blocks


def _blocks(mod: Module, name: str, number: int, axes: int, at: int, rows: int, grain: int, colour: int) -> None:
    """A chunk function over the blocks of one colour."""
    fn = chunk_function(mod, name)
    total, size, _ = _sizes(fn, axes, at, rows, grain)
    with fn.loop("block", "i64", "%begin", "%end", "done", less="ult") as n:
        place = fn.let(f"add i64 {fn.let(f'shl i64 {n}, 1')}, {colour}")
        low = fn.let(f"mul i64 {place}, {size}")
        high = fn.call("i64", "llvm.umin.i64", ("i64", fn.let(f"add i64 {low}, {size}")), ("i64", total))
        fn.call("void", f"task{number}", ("ptr", "%frame"), ("i64", low), ("i64", high), ("i64", "%worker"))
    fn.start("done")
    fn.put("ret void")
    fn.close()


_MOST = 2  # how many times the work of the body its steps may take together


def steps(body: N.Block) -> tuple[N.Block, ...]:
    """The sweeps of a task's body, and last the rest of it; only the body where LLVM cannot vectorise it or too much
    would be recomputed."""
    sweeps = sorted({s.sweep for s in walk(body) if isinstance(s, N.Atomic)} - {0})
    if not sweeps or any(isinstance(s, N.Op) and "@math" in PRIMS[s.prim].llvm for s in walk(body)):
        return (body,)
    found = tuple(_step(body, n, set()) for n in (*sweeps, 0))
    return found if sum(estimate(b)[0] for b in found) <= _MOST * estimate(body)[0] else (body,)


def _step(block: N.Block, sweep: int, live: set[int]) -> N.Block:
    """The atomics of one sweep, and for sweep 0 the stores, with what they need. ``live``: ids that are read behind the
    block."""
    out: list[N.Stmt] = []
    for s in reversed(block):
        if isinstance(s, N.If):
            s = map_blocks(s, lambda arm: _step(arm, sweep, live))
        acts = any(isinstance(a, N.Write) for b in s.blocks() for a in walk(b))
        acts = acts or (s.sweep == sweep if isinstance(s, N.Atomic) else isinstance(s, N.Store) and not sweep)
        if acts or isinstance(s, N.Yield) or any(i in live for i, _ in s.defs()):
            out.append(s)
            live.update(s.operands())
    return tuple(reversed(out))
