"""Stores values that are read long after they are computed, and loads them where they are read:

    v = ..; ..; use v    becomes    v = ..; store @far$v[], v; ..; w = load @far$v[]; use w

In the gradient of a long kernel most values of the forward part are read so late. There are more of them than
registers, so LLVM would put them into memory, too. But first it follows each of them through all blocks in between,
and that takes a time which grows with the square of the kernel's size.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f32, f64
from quadrants_lab.ir.walk import map_blocks, reading, walk

# id of a value -> (the id that it has since it was last read from memory, the place of that read in program order)
Near = dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SpillFarValues(Parametrised):
    """Guarantees that in a task with more than ``least`` statements no f32 or f64 is read more than ``distance``
    statements after its definition, unless there is a loop around only one of the two statements. Comparisons of floats
    are computed again, because LLVM joins a comparison with the branch or the selection that reads it."""

    distance: int = 300
    least: int = 1000

    @deeply_recursive
    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        made = kernel
        for n, task in enumerate(kernel.tasks):
            # the steps of a task with fission hold only what their own sums need
            if not task.fission and sum(1 for _ in walk(task.body)) > self.least:
                made = _Task(made, n, self.distance).spilled()
        return made


class _Definition(NamedTuple):
    """The definition of a float, or of a comparison of floats: its place in program order, the loop around it, and
    its statement."""

    place: int
    loop: int
    type: DType
    stmt: N.Stmt


class _Task:
    """Rewrites a task. ``far``: id of a value that is read far from its definition -> its variable, or None for a
    comparison."""

    def __init__(self, kernel: N.Kernel, number: int, distance: int) -> None:
        self.kernel = kernel
        self.number = number
        self.distance = distance
        self.next_id = kernel.next_id
        self.place = 0
        self.known: dict[int, _Definition] = {}
        self.far: dict[int, N.Buffer | None] = {}

    def spilled(self) -> N.Kernel:
        kernel, task = self.kernel, self.kernel.tasks[self.number]
        self.search(task.body, N.NO_ID)
        if not self.far:
            return kernel
        self.place = 0
        body = list(kernel.body)
        body[self.number] = replace(task, body=self.block(task.body, N.NO_ID, {}))
        variables = {b.name: b for b in self.far.values() if b is not None}
        return replace(kernel, body=tuple(body), buffers={**kernel.buffers, **variables}, next_id=self.next_id)

    def is_far(self, i: int, loop: int) -> bool:
        """Whether the statement at this place is far from the definition of a value."""
        known = self.known.get(i)
        return known is not None and known.loop == loop and self.place - known.place > self.distance

    def search(self, block: N.Block, loop: int) -> None:
        """Finds what is read far away. ``loop``: the loop around the block."""
        for s in block:
            self.place += 1
            for i in s.operands():
                if self.is_far(i, loop):
                    self.spill(i, loop)
            for inner in s.blocks():
                self.search(inner, s.id if isinstance(s, N.Loop) else loop)
            for i, t in s.defs():
                if (t is f32 or t is f64 or self._compares(s)) and s.constant is None:
                    self.known[i] = _Definition(self.place, loop, t, s)

    def _compares(self, s: N.Stmt) -> bool:
        return bool(s.prim) and PRIMS[s.prim].rule == "cmp" and any(i in self.known for i in s.operands())

    def spill(self, i: int, loop: int) -> None:
        if i in self.far:
            return
        t = self.known[i].type
        self.far[i] = N.Buffer(f"far${i}", "local", t, 0, (), role="far") if t.is_float else None
        if not t.is_float:
            for x in self.known[i].stmt.operands():
                if self.is_far(x, loop):
                    self.spill(x, loop)

    # --- the new statements -----------------------------------------------------------------------------------------

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def block(self, block: N.Block, loop: int, near: Near) -> N.Block:
        out, near = list[N.Stmt](), dict(near)
        for s in block:
            self.place += 1
            s = reading(s, {i: self.again(i, loop, near, out.append) for i in s.operands() if self.is_far(i, loop)})
            inside = partial(self.block, loop=s.id if isinstance(s, N.Loop) else loop, near=near)
            out.append(map_blocks(s, inside))
            for i, _ in s.defs():
                if (variable := self.far.get(i)) is not None:
                    out.append(
                        N.Store(self.fresh(), variable.name, (), i, span=s.span, adjoint_of=s.adjoint_of)
                    )
        return tuple(out)

    def again(self, i: int, loop: int, near: Near, add: Callable[[N.Stmt], None]) -> int:
        """The id of a far value in this place."""
        if i in near and self.place - near[i][1] <= self.distance:
            return near[i][0]
        variable, s = self.far[i], self.known[i].stmt
        if variable is not None:
            made: N.Stmt = N.Load(self.fresh(), variable.dtype, variable.name, (), span=s.span)
        else:
            s = reading(s, {x: self.again(x, loop, near, add) for x in s.operands() if self.is_far(x, loop)})
            made = replace(s, id=self.fresh())
        add(made)
        near[i] = made.id, self.place
        return made.id
