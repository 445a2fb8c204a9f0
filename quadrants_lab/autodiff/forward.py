"""The pass `forward` turns an offloaded kernel into a kernel that computes tangents beside values."""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import field, replace

from quadrants_lab.analysis.accesses import Accesses, accesses_of
from quadrants_lab.analysis.dependence import may_follow
from quadrants_lab.autodiff import derivative_expressions
from quadrants_lab.autodiff.access import conflicts, repeated_reads
from quadrants_lab.autodiff.derivative_expressions import active_values
from quadrants_lab.autodiff.diagnostics import of_atomic, refusal
from quadrants_lab.autodiff.minmax_atomics import MinmaxAtomics, minmax_atomics, replay, winners_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import end_of, renamed, rewrite_in, types_of, uses

_SPLIT = (
    "compute the extreme in a loop of its own; or read {name} into a local first, and store it after all that uses it"
)


def forward(kernel: N.Kernel, early: AbstractSet[int] = frozenset()) -> N.Kernel:
    """The forward-mode derivative of an offloaded kernel: the same kernel, in which each write to a buffer with a dual
    also writes the value's tangent to the dual.

    Tangents are computed beside their values, and pass through loops and ifs as further carried values and results. A
    value has no tangent if it does not depend on a dual, or if no dual depends on it. A task with an atomic min or max
    is followed by tasks that give the result the tangent of its winners, the iterations whose value is the result. If
    the number of the task is in ``early``, the atomics and these tasks stand in front of the task, so that they read
    the values that the task overwrites. Values keep their ids; the statements of a tangent name the statement that they
    differentiate.
    """
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    duals = {name: x.dual for name, x in kernel.buffers.items() if x.dual}
    for name, x in kernel.buffers.items():
        if x.transient and x.dtype.is_float and name not in {y.grad for y in kernel.buffers.values()}:
            duals[name] = f"{name}.dual"
            buffers[name] = replace(x, dual=duals[name])
            buffers[duals[name]] = replace(x, name=duals[name], grad="", dual="")
    active = active_values(kernel, set(duals))
    info: Accesses | None = None
    tasks: list[N.Stmt] = []
    for number, task in enumerate(kernel.tasks):
        minmax = minmax_atomics(task, set(duals))
        atomics = {s.id: (s,) for s in minmax}
        first: list[N.Stmt] = []
        own = task
        if number in early:
            first.append(renamed(replay(task, atomics, frozenset()), b.fresh))
            own = rewrite_in(task, lambda s: () if s.id in atomics else s)
        own = replace(own, body=_Tangents(b, active, buffers, duals).block(own.body))
        behind: list[N.Stmt] = []
        if minmax:
            info = info or Accesses(kernel)
            won = winners_of(info, number, minmax)
            buffers |= {w.counts.name: w.counts for w in won.values()}
            around = MinmaxAtomics(b, buffers, kernel.args, won)
            behind += (*around.cleared(), around.counted(task, minmax), *around.settled(duals))
            winners = _Tangents(b, active, buffers, duals, around)
            # `active` holds ids of the task's values, so the replay must use the same ids until its tangents are
            # written
            again = replay(task, atomics, frozenset())
            again = replace(again, body=winners.block(again.body))
            behind.append(renamed(again, b.fresh))
        tasks += (*first, *behind, own) if first else (own, *behind)
    return replace(kernel, body=tuple(tasks), buffers=buffers, next_id=b.next_id, mode="dual")


def early_extremes(kernel: N.Kernel, dual: N.Kernel) -> frozenset[int]:
    """The numbers of the tasks to pass to `forward` as ``early``: tasks that overwrite values which ``dual``, the dual
    kernel without dead code, reads again to find the winners of an atomic min or max. A task cannot be early if it
    writes these values before it reads them, or if a statement uses the old value of the atomic."""
    info = accesses_of(kernel)
    replays, tangents = _replays(dual)
    lost = {c.write.number for c in conflicts(info, replays, tangents) if c.write.number == c.read.number}
    if not lost:
        return frozenset()
    late = {
        read.number for _, read in repeated_reads(info, replays, tangents)
        for w in info.writes.get(read.stmt.buffer, ())
        if read.stmt.loads and w.number == read.number and may_follow(info, w, read)
    }  # fmt: skip
    used = uses(kernel.body)
    for a in info.of.values():
        if a.stmt.atomic in N.MINMAX and dual.buffers[a.stmt.buffer].dual:
            late |= {a.number} if a.stmt.id in used else set()
    return frozenset(lost - late)


def check_replays(kernel: N.Kernel, dual: N.Kernel) -> None:
    """Raises QL0404 if a replay reads values that are overwritten. A replay is a copy of a task by which ``dual``, the
    simplified dual kernel of ``kernel``, finds the winners of atomic mins and maxes. It stands directly after its task,
    so only this task can have overwritten what the replay reads; a replay directly before its task is never at
    fault."""
    replays, tangents = _replays(dual)
    for c in conflicts(accesses_of(kernel), replays, tangents):
        if c.write.number == c.read.number:
            name = c.write.stmt.buffer
            raise refusal("QL0404", c.read.stmt.span, c.write.stmt.span, cure=_SPLIT.format(name=name), name=name)


def _replays(dual: N.Kernel) -> tuple[N.Kernel, set[str]]:
    """The tasks of a dual kernel that stand after the task that they repeat, and the names of all tangents."""
    done: set[int] = set()
    found: list[N.Stmt] = []
    for s in dual.body:
        done.add(s.id)
        if s.adjoint_of in done:
            found.append(s)
    return replace(dual, body=tuple(found)), {x.dual for x in dual.buffers.values() if x.dual}


@dataclass(slots=True)
class _Tangents:
    """Writes one task. With ``winners`` the task is a replay, in which each atomic min or max adds its share of a
    tangent if its value is the result."""

    b: Builder
    active: set[int]
    buffers: dict[str, N.Buffer]
    duals: Mapping[str, str]
    winners: MinmaxAtomics | None = None
    of: dict[int, int] = field(default_factory=dict)  # value -> its tangent

    def block(self, stmts: N.Block) -> N.Block:
        with self.b.block() as made:
            for s in stmts:
                self.b.span, self.b.adjoint_of = s.span, s.id
                self._stmt(s)
        self.b.adjoint_of = N.NO_ID
        return tuple(made)

    def _stmt(self, s: N.Stmt) -> None:
        match s:
            case N.Op():
                self.b.stmts.append(s)
                self._op(s)
            case N.Choice():
                self.b.stmts.append(s)
                self._choice(s)
            case N.Load():
                self.b.stmts.append(s)
                if s.id in self.active and s.buffer in self.duals:
                    self.of[s.id] = self.b.load(self._dual(s.buffer), s.index)
            case N.Store():
                self.b.stmts.append(s)
                if s.buffer in self.duals:
                    dual = self._dual(s.buffer)
                    self.b.store(dual, s.index, self._tangent(s.value, dual.dtype))
            case N.Atomic():
                self._atomic(s)
            case N.If():
                self._if(s)
            case N.For() | N.While():
                self._loop(s)
            case _:
                self.b.stmts.append(s)

    def _dual(self, buffer: str) -> N.Buffer:
        return self.buffers[self.duals[buffer]]

    def _tangent(self, v: int, type: DType) -> int:
        """The tangent of a value, or a new zero where it has none."""
        return self.of[v] if v in self.of else self.b.const(0, type)

    def _op(self, s: N.Op) -> None:
        if s.id not in self.active:
            return
        total: int | None = None
        for k, a in enumerate(s.args):
            tree = derivative_expressions.share(s.prim, k)
            if tree is None or a not in self.of:
                continue
            env = {**dict(zip(derivative_expressions.OPERANDS, s.args, strict=False)), "r": s.id, "g": self.of[a]}
            share = derivative_expressions.emit(self.b, tree, env, s.type, s.type)
            total = share if total is None else self.b.op("add", total, share)
        if total is not None:
            self.of[s.id] = total

    def _choice(self, s: N.Choice) -> None:
        """The same access to the tangents."""
        if any(v in self.of for v in s.operands()) and any(i in self.active for i, _ in s.defs()):
            t = self.b.types[s.values[0]]
            ids = {v: self._tangent(v, t) for v in dict.fromkeys(s.operands()[len(s.index) :])}
            made = replace(s, id=self.b.fresh(), values=tuple(ids[v] for v in s.values))
            if isinstance(made, N.WithElement):
                made = replace(made, value=ids[made.value], results=tuple(map(self._param, made.results)))
            self.b.stmts.append(made)
            self.b.types.update(made.defs())
            self.of.update((i, j) for (i, _), (j, _) in zip(s.defs(), made.defs(), strict=True) if i in self.active)

    def _atomic(self, s: N.Atomic) -> None:
        if s.buffer not in self.duals:
            self.b.stmts.append(s)
            return
        if s.op not in ("add", "sub", *N.MINMAX):
            raise of_atomic("QL0401", s, self.buffers[s.buffer])
        if s.id in self.active:
            raise of_atomic("QL0402", s, self.buffers[s.buffer])
        if self.winners is not None:
            if s.op in N.MINMAX and s.value in self.of:
                b = self.b
                with b.when(self.winners.is_argmax(s, s.value, s.index)):
                    b.atomic("add", self._dual(s.buffer), s.index, self.winners.share(s, self.of[s.value], s.index))
            return
        self.b.stmts.append(s)
        if s.op not in N.MINMAX and s.value in self.of:
            self.b.atomic(s.op, self._dual(s.buffer), s.index, self.of[s.value])

    def _if(self, s: N.If) -> None:
        chosen = [n for n, r in enumerate(s.results) if r.id in self.active]
        arms = tuple(self._arm(block, s.results, chosen) for block in s.blocks())
        made = tuple(self._param(s.results[n]) for n in chosen)
        self.b.stmts.append(replace(s, then=arms[0], orelse=arms[1], results=(*s.results, *made)))
        self.of.update((s.results[n].id, p.id) for n, p in zip(chosen, made, strict=True))

    def _loop(self, s: N.For | N.While) -> None:
        chosen = [
            n for n, (c, r) in enumerate(zip(s.carried, s.results, strict=True)) if {c.id, r.id} & self.active
        ]
        inits = tuple(self._tangent(s.inits[n], s.carried[n].type) for n in chosen)
        carried = tuple(self._param(s.carried[n]) for n in chosen)
        self.of.update((s.carried[n].id, p.id) for n, p in zip(chosen, carried, strict=True))
        body = self._arm(s.body, s.carried, chosen)
        results = tuple(self._param(s.results[n]) for n in chosen)
        loop = replace(s, carried=(*s.carried, *carried), inits=(*s.inits, *inits), body=body)
        self.b.stmts.append(replace(loop, results=(*s.results, *results)))
        self.of.update((s.results[n].id, p.id) for n, p in zip(chosen, results, strict=True))

    def _param(self, p: N.Param) -> N.Param:
        return self.b.param(p.type, f"{p.name}.dual" if p.name else "")

    def _arm(self, block: N.Block, to: tuple[N.Param, ...], chosen: list[int]) -> N.Block:
        """One arm of an if, with tangents, that yields beside its results the tangents of the chosen results."""
        end = end_of(block)
        with self.b.block() as tail:
            outer = self.b.span, self.b.adjoint_of
            body = self.block(block[:-1])
            self.b.span, self.b.adjoint_of = end.span, N.NO_ID
            more = tuple(self._tangent(end.values[n], to[n].type) for n in chosen)
            self.b.span, self.b.adjoint_of = outer
        return (*body, *tail, replace(end, values=(*end.values, *more)))
