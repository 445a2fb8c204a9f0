"""The pass `offload` splits a kernel into a sequence of tasks that share nothing but memory. A task is an outermost
loop, whose iterations run in parallel, or the serial code between two such loops."""

from dataclasses import replace

from quadrants_lab.analysis.effects import memory_classes, written
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import with_adjoint
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import free_values, substitute, types_of

_MAX_COST = 64  # a value that costs more cycles is not computed again in each iteration of a task


def offload(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that the kernel consists of `Offload`s only, and that no task reads a value from outside.

    Consecutive plain statements become one "serial" task. If a later task needs a value of such a task, it computes the
    value again, provided that this is cheap and surely gives the same value, also in a gradient that runs after the
    kernel. This is so for constants, arguments, shapes, loads from memory that the kernel does not write later, and Ops
    on such values. Any other value is stored to a launch temporary (with an adjoint if it is a float) where it is
    defined, and loaded at the top of the block that reads it.
    """
    if all(isinstance(s, N.Offload) and not _reads(s) for s in kernel.body):
        return kernel
    o = _Offloader(kernel)
    groups = o.groups()
    # last task first: later tasks decide which values of earlier tasks are stored
    done = [o.task(g) if isinstance(g, N.Offload) else o.serial(g) for g in reversed(groups)]
    tasks = [o.stored(t) for t in reversed(done)]
    return replace(kernel, body=tuple(tasks), buffers=o.buffers, next_id=o.b.next_id)


def _reads(task: N.Offload) -> set[int]:
    """The ids of the values that the task reads from outside."""
    own = {p.id for p in task.indices}
    return free_values(task.bounds) | (free_values(task.body) - own)


class _Offloader:
    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.b = Builder(kernel.next_id, types_of(kernel.body))
        self.buffers = dict(kernel.buffers)
        self.temps: dict[int, N.Buffer] = {}  # value -> the temporary that holds it
        classes = memory_classes(kernel)
        last_write: dict[str, int] = {}
        # id of a load at the top level -> (memory class, position in the kernel)
        loads: dict[int, tuple[str, int]] = {}
        for n, s in enumerate(kernel.body):
            last_write.update(dict.fromkeys(written(((s,),), classes), n))
            if isinstance(s, N.Load):
                loads[s.id] = classes[s.buffer], n
        self.unchanged = {i for i, (memory, n) in loads.items() if last_write.get(memory, -1) < n}
        self.defs: dict[int, N.Stmt] = {}
        self.names: dict[int, str] = {}
        # id of a value -> the cost of computing it again, None if that is impossible
        self.cost: dict[int, int | None] = {}
        for s in kernel.body:
            for i, _ in s.defs():
                self.defs[i] = s
            if isinstance(s, (N.Control, N.WithElement)):
                self.names.update((r.id, r.name) for r in s.results)
            elif isinstance(s, N.Value):
                self.names[s.id] = s.name

    def groups(self) -> list[N.Offload | list[N.Stmt]]:
        """The kernel's tasks and, between them, lists of consecutive plain statements."""
        out: list[N.Offload | list[N.Stmt]] = []
        for s in self.kernel.body:
            if isinstance(s, N.Offload):
                out.append(s)
            elif out and isinstance(out[-1], list):
                out[-1].append(s)
            else:
                out.append([s])
        return out

    def task(self, s: N.Offload) -> N.Offload:
        own = {p.id for p in s.indices}
        return replace(s, bounds=self.through_temporaries(s.bounds, set()), body=self.through_temporaries(s.body, own))

    def serial(self, stmts: list[N.Stmt]) -> N.Offload:
        b = self.b
        b.span = stmts[0].span
        bounds = b.nothing()
        body = self.through_temporaries((*stmts, *b.nothing()), set())
        return N.Offload(b.fresh(), "serial", bounds, (), body, span=stmts[0].span)

    def through_temporaries(self, block: N.Block, own: set[int]) -> N.Block:
        """The block, with the values that it reads from outside computed again or loaded at its top. ``own``: values of
        the task."""
        ids: dict[int, int] = {}
        with self.b.block() as top:
            for i in sorted(free_values(block) - own):
                self.bring(i, ids)
        return (*top, *substitute(block, ids))

    def bring(self, i: int, ids: dict[int, int]) -> int:
        """The id of a value equal to ``i`` in the block under construction. ``ids``: the values that are there already;
        it is extended."""
        if i not in ids:
            s = self.defs[i]
            if self.remake_cost(i) is not None:
                operands = tuple(self.bring(o, ids) for o in s.operands())
                ids[i] = self.b.fresh()
                self.b.stmts.append(replace(s.with_operands(operands), id=ids[i]))
            else:
                self.b.span = s.span
                load = N.Load(self.b.fresh(), self.b.types[i], self.temp(i).name, (), name=self.names[i])
                ids[i] = self.b.add(load)
        return ids[i]

    def remake_cost(self, i: int) -> int | None:
        """The cost in cycles of computing the value again anywhere in the kernel; None if that is impossible or costs
        too much."""
        if i not in self.cost:
            s = self.defs.get(i)
            cost: int | None = None
            if isinstance(s, N.Uniform):
                cost = 0
            elif isinstance(s, N.Op) or (isinstance(s, N.Load) and s.id in self.unchanged):
                cost = PRIMS[s.prim].cost if isinstance(s, N.Op) else 4
                for o in s.operands():
                    inner = self.remake_cost(o)
                    cost = None if cost is None or inner is None else cost + inner
            self.cost[i] = cost if cost is not None and cost <= _MAX_COST else None
        return self.cost[i]

    def temp(self, i: int) -> N.Buffer:
        """The temporary that holds the value between tasks."""
        if i not in self.temps:
            name = f"{N.buffer_name(self.names[i]) or 'value'}.temp"
            if name in self.buffers:
                name = f"{name}{i}"
            self.temps[i] = with_adjoint(self.buffers, N.Buffer(name, "temp", self.b.types[i], 0, ()))
        return self.temps[i]

    def stored(self, task: N.Offload) -> N.Offload:
        """The task with stores to the temporaries that later tasks load."""
        body: list[N.Stmt] = []
        for s in task.body:
            body.append(s)
            for i, _ in s.defs():
                if i in self.temps:
                    body.append(N.Store(self.b.fresh(), self.temps[i].name, (), i, span=s.span))
        return task if len(body) == len(task.body) else replace(task, body=tuple(body))
