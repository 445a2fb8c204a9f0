"""Sums into elements of neighbours without atomics: blocks of rows in two colours.

The adjoint of a stencil adds to the elements around its own. Iterations of a parallel loop are cut along its first axis
into blocks, and the blocks get two colours in turn. A block has at least as many rows as the sums reach, so blocks of
one colour touch no common element. Those of one colour run in parallel, then those of the other, and each sum is a
plain read, addition and write. The result does not depend on the number of threads.
"""

from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import call_parallel, chunk_function
from quadrants_lab.backends.cpu.shares import Shares
from quadrants_lab.ir import nodes as N


def launch(shared: Shares, mod: Module, task: N.Offload, number: int, at: int) -> None:
    """Runs the chunk function of task ``number`` over all iterations of its box, whose bounds are at ``at`` in the
    frame, in two colours. ``shared``: what it sums into one element."""
    fn, axes, rows, grain = shared.entry.fn, len(task.indices), task.colour_rows, task.grain
    for colour in (0, 1):
        name = f"task{number}_colour{colour}"
        _blocks(mod, name, number, axes, at, rows, grain, colour)
        _, size, blocks = _sizes(fn, axes, at, rows, grain)
        count = fn.let(f"lshr i64 {fn.let(f'add i64 {blocks}, {1 - colour}')}, 1")
        unit = shared.begin(count, 1, fn.let(f"shl i64 {size}, 1"))
        call_parallel(fn, name, count, 1, int(task.timed), unit)
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
    high = fn.call("i64", "llvm.umax.i64", ("i64", wanted), ("i64", str(rows)))
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
