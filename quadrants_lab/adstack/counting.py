"""Makes the counting slice: a kernel that runs the control flow of the forward slice and counts pushes instead of
pushing. Its counts are exact for every kind of loop.

Control flow is decided twice (`decides_again`). A gradient's forward slice pushes along the arms and trips that it
takes. The reverse slice computes the conditions again, and pops along the arms and trips that its own results select.
If the compiler contracts or reorders floating-point operations, the two computations may be rounded differently. A
comparison of nearly equal numbers can then be true in one slice and false in the other, so that a pop takes the value
of another push, or finds an empty stack.
"""

from dataclasses import replace
from itertools import pairwise

from quadrants_lab.adstack.size import counted_stacks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i64
from quadrants_lab.ir.walk import find, map_blocks, of_kind, reached, types_of, walk

DEPTH = "depth"  # followed by the id of a stack: the name of the "ret" buffer for the depth of the stack


def counting_kernel(kernel: N.Kernel, slices: N.Kernel | None = None) -> N.Kernel | None:
    """For a sized reverse kernel: the kernel (mode "count") that returns the greatest depth of each stack that must be
    counted, in an i64 "ret" buffer named `DEPTH` and the stack's id; None if no stack must be counted.

    ``slices``: the forward slices to count instead of the kernel's own slices. In these an empty guard follows each
    segment of a checkpointed loop; the depth of a stack that a segment fills is the number of slots that the segment
    adds. Pushed values become zeros, so after dead-code elimination, which is left to the caller, only the statements
    that decide control flow remain."""
    counted = counted_stacks(kernel)
    if not counted:
        return None
    source = slices or kernel
    b = Builder(source.next_id, types_of(source.body))
    buffers = dict(source.buffers)
    for stack in sorted(counted):
        buffers[f"{DEPTH}{stack}"] = N.Buffer(f"{DEPTH}{stack}", "ret", i64, 0, ())
    tasks: list[N.Stmt] = []
    for task in source.tasks:
        stacks = {s.id for s in of_kind(task.body, N.AdStackAlloca)} & counted
        if stacks:
            tasks.append(_Counter(b, stacks, buffers).task(task))
        elif computes_temporaries(buffers, task) or _moves_kept(buffers, task):
            tasks.append(task)
    return replace(source, buffers=buffers, body=tuple(tasks), next_id=b.next_id, mode="count")


def computes_temporaries(buffers: dict[str, N.Buffer], task: N.Offload) -> bool:
    """Whether a task of a reverse kernel may recompute launch temporaries of the forward kernel: it writes nothing
    else and has no stacks. A task that only adds to adjoints of temporaries passes this test, too. It does no harm,
    because nothing in the counting kernel reads these adjoints."""
    written = [s.buffer for s in find((task,), N.Write)]
    stacks = any(of_kind(task.body, N.AdStackAlloca))
    return bool(written) and not stacks and all(buffers[b].kind == "temp" for b in written)


def _moves_kept(buffers: dict[str, N.Buffer], task: N.Offload) -> bool:
    """Whether the task copies values between fields and scratch buffers, so that later counting slices read the right
    memory. The adjoint of a task may use scratch buffers, too (for the winners of an atomic min or max), but it must
    not run here: it would add to gradients a second time."""
    gradients = {b.grad for b in buffers.values()}
    used = [s.buffer for s in find((task,), N.Access)]
    scratch = any(buffers[name].kind == "scratch" for name in used)
    return scratch and task.adjoint_of == N.NO_ID and gradients.isdisjoint(used)


@dataclass(slots=True)
class _Counter:
    """Counts the ``stacks`` of one task."""

    b: Builder
    stacks: set[int]
    buffers: dict[str, N.Buffer]

    def task(self, task: N.Offload) -> N.Offload:
        body = self.block(task.body)
        in_segments = {v for segment in _segments(task.body) for v in _pushed(segment.body)}
        with self.b.block() as tail:
            for stack in sorted(self.stacks - in_segments):
                self.report(stack, self.depth(stack))
        return replace(task, body=(*body[:-1], *tail, body[-1]))

    def depth(self, stack: int) -> int:
        return self.b.add(N.AdStackDepth(self.b.fresh(), i64, stack))

    def report(self, stack: int, depth: int) -> None:
        self.b.atomic("max", self.buffers[f"{DEPTH}{stack}"], (), depth)

    def block(self, stmts: N.Block) -> N.Block:
        segments = {s.id for s in _own_segments(stmts)}
        out: list[N.Stmt] = []
        for s in stmts:
            if isinstance(s, N.AdStackGuard):
                continue
            if isinstance(s, N.AdStackAlloca):
                if s.id not in self.stacks:
                    continue
                s = replace(s, count_only=True)
            elif isinstance(s, N.AdStackPush):
                if s.stack not in self.stacks:
                    continue
                with self.b.block() as made:
                    zero = self.b.const(0, self.b.types[s.value])
                out += made
                s = replace(s, value=zero)
            if isinstance(s, N.For) and s.id in segments:
                out += self.segment(s)
            else:
                out.append(map_blocks(s, self.block))
        return tuple(out)

    def segment(self, loop: N.For) -> list[N.Stmt]:
        """The loop of one segment, followed by statements that report how many slots the segment adds to each stack."""
        stacks = sorted(self.stacks & _pushed(loop.body))
        with self.b.block() as made:
            before = [self.depth(stack) for stack in stacks]
            self.b.stmts.append(map_blocks(loop, self.block))
            for stack, had in zip(stacks, before, strict=True):
                self.report(stack, self.b.op("sub", self.depth(stack), had))
        return made


def _own_segments(block: N.Block) -> list[N.For]:
    """The loops directly in the block that run a segment; they are recognised by the empty guard after each."""
    return [
        a for a, b in pairwise(block) if isinstance(a, N.For) and isinstance(b, N.AdStackGuard) and len(b.body) == 1
    ]


def _segments(block: N.Block) -> list[N.For]:
    """The segments of the block and of all blocks within it."""
    inner = (b for s in walk(block) for b in s.blocks())
    return [segment for b in (block, *inner) for segment in _own_segments(b)]


def _pushed(block: N.Block) -> set[int]:
    """The stacks to which the block pushes outside of its segments."""
    inner = {s.id for s in _own_segments(block)}
    found = {s.stack for s in of_kind(block, N.AdStackPush)}
    for s in block:
        if s.id not in inner:
            found = found.union(*(_pushed(b) for b in s.blocks()))
    return found


_NEVER_ROUNDED = ("neg", "abs", "min", "max", "select")


def decides_again(kernel: N.Kernel) -> bool:
    """Whether the task has stacks, and its reverse computes a condition of the forward slice again by float
    arithmetic."""
    return any(decides_by_arithmetic(s.body) for s in find(kernel.body, N.AdStackGuard))


def decides_by_arithmetic(block: N.Block) -> bool:
    """Whether a condition or a loop bound in the block is computed from results of float arithmetic."""
    ops = {s.id: s for s in find(block, N.Op)}
    decisions = [v for s in find(block, (N.If, N.For)) for v in s.deciding()]
    steps = reached(decisions, lambda v: ops[v].args if v in ops else ())
    return any(v in ops and ops[v].type.is_float and ops[v].prim not in _NEVER_ROUNDED for v in steps)
