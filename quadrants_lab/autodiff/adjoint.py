"""Emits the adjoint code of one task: its statements in reverse order, with a loop for each loop and an if for each
if.

The adjoint of a loop-carried value is carried by the reversed loop. The body of an if or loop may add to the adjoint of
a value that is defined outside. This sum is then a result of the reversed if, or a carried value of the reversed loop.
So adjoints are SSA values, not memory, until they are added to the gradient of a buffer.
"""

from collections.abc import Callable, Iterable
from dataclasses import field, replace

from quadrants_lab.autodiff import derivative_expressions
from quadrants_lab.autodiff.checkpointing import StashPlan
from quadrants_lab.autodiff.diagnostics import of_atomic
from quadrants_lab.autodiff.minmax_atomics import MinmaxAtomics
from quadrants_lab.autodiff.recursive_checkpointing import (
    Segment,
    first_and_length,
    index_at,
    lengths,
    pruned,
)
from quadrants_lab.autodiff.scopes import Scopes
from quadrants_lab.autodiff.slice import Slicer
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.elements import select_result
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import end_of, free_values, reading, renamed

Adjoints = dict[int, int]  # forward value -> its adjoint so far, in the current block


@dataclass(frozen=True, slots=True)
class Carried:
    """The values whose adjoints a reversed loop carries: carried values of the forward loop, by position, and active
    values from outside the loop, by id."""

    carried: list[int]
    outer: list[int]


@dataclass(slots=True)
class AdjointBuilder:
    """Writes the adjoint of one task. ``slicer`` made the forward slice and knows the stack of each stashed value.
    ``env`` maps a forward value to its id in the reverse code; it grows as values are restored or recomputed.
    ``colliding`` has the stores to an element that another iteration may store to as well (`colliding_stores`)."""

    b: Builder
    scopes: Scopes
    plan: StashPlan
    active: set[int]
    buffers: dict[str, N.Buffer]
    slicer: Slicer
    env: dict[int, int]
    minmax: MinmaxAtomics
    colliding: frozenset[int] = frozenset()
    order: dict[int, int] = field(init=False)  # value -> its number in program order
    free: dict[int, tuple[N.Block, set[int]]] = field(init=False, default_factory=dict)  # see `free_values`

    def __post_init__(self) -> None:
        self.order = {v: n for n, v in enumerate(self.scopes.of)}

    def task(self, task: N.Offload) -> N.Block:
        """The reverse of the task's body, without a terminator."""
        with self.b.block() as made:
            self._restore((N.NO_ID, 0))
            self._block(task.body, {})
        return tuple(made)

    # --- primal values ---------------------------------------------------------------------------------------

    def _primal(self, v: int) -> int:
        """The id of a forward value in the reverse code. A constant or another uniform value is emitted where it is
        read."""
        if v in self.env:
            return self.env[v]
        stmt = self.scopes.defs[v]
        if isinstance(stmt, N.Uniform) and self.scopes.of[v].parent is not None:
            return self.b.add(replace(stmt, id=self.b.fresh(), adjoint_of=N.NO_ID))
        return v

    def _restore(self, key: tuple[int, int]) -> None:
        """Emits the beginning of a reversed block: it pops the block's stashed values from their stacks and recomputes
        the other values that the reverse needs. ``key`` is that of the block's `Scope`."""
        scope = self.scopes.by_key[key]
        for v in scope.defined:
            stmt = self.scopes.defs[v]
            self.b.span = stmt.span
            self.b.adjoint_of = N.NO_ID
            if v in self.slicer.stacks:
                stack = self.slicer.stacks[v]
                name = self.scopes.names[v]
                top = N.AdStackLoadTop(self.b.fresh(), self.scopes.types[v], stack, name=name)
                self.env[v] = self.b.add(top)
                self.b.add(N.AdStackPop(self.b.fresh(), stack))
            elif v in self.plan.recompute and isinstance(stmt, N.WithElement):
                k = stmt.position(v)
                needed = reading(stmt, {i: self._primal(i) for i in (*stmt.index, *stmt.becoming(k))})
                self.env[v] = select_result(self.b, needed, k, self.b.fresh(), {})
            elif v in self.plan.recompute:
                operands = tuple(self._primal(a) for a in stmt.operands())
                copy = replace(stmt.with_operands(operands), id=self.b.fresh(), adjoint_of=N.NO_ID)
                self.env[v] = self.b.add(copy)

    # --- adjoints --------------------------------------------------------------------------------------------

    def _name(self, v: int) -> str:
        """The name of the adjoint of a value, formed like the name of a buffer's adjoint."""
        name = self.scopes.names[v]
        return f"{name}.grad" if name else ""

    def _add(self, adj: Adjoints, v: int, share: int) -> None:
        if v in adj:
            adj[v] = self.b.op("add", adj[v], share, name=self._name(v))
            return
        adj[v] = share
        last = self.b.stmts[-1] if self.b.stmts else None
        if isinstance(last, N.Op) and last.id == share and not last.name:
            self.b.stmts[-1] = replace(last, name=self._name(v))

    def _zero(self, v: int) -> int:
        return self.b.const(0, self.scopes.types[v])

    def _block(self, block: N.Block, adj: Adjoints) -> None:
        for stmt in reversed(block):
            if stmt.id not in self.plan.reversed:
                continue
            self.b.span = stmt.span
            self.b.adjoint_of = stmt.id
            match stmt:
                case N.Op():
                    self._op(stmt, adj)
                case N.Element():
                    self._element(stmt, adj)
                case N.WithElement():
                    self._with_element(stmt, adj)
                case N.Load():
                    self._load(stmt, adj)
                case N.Store():
                    self._store(stmt, adj)
                case N.Atomic():
                    self._atomic(stmt, adj)
                case N.If():
                    self._if(stmt, adj)
                case N.Loop():
                    self._loop(stmt, adj)

    def _op(self, op: N.Op, adj: Adjoints) -> None:
        g = adj.pop(op.id, None)
        if g is None:
            return
        for k, a in enumerate(op.args):
            tree = derivative_expressions.share(op.prim, k)
            if a not in self.active or tree is None:
                continue
            env = {"g": g}
            names = derivative_expressions.needs(op.prim, k)
            for name, v in zip(derivative_expressions.OPERANDS, op.args, strict=False):
                if name in names:
                    env[name] = self._primal(v)
            if "r" in names:
                env["r"] = self._primal(op.id)
            self._add(adj, a, derivative_expressions.emit(self.b, tree, env, op.type, self.scopes.types[a]))

    def _element(self, s: N.Element, adj: Adjoints) -> None:
        g = adj.pop(s.id, None)
        if g is not None:
            zero = self._zero(s.id)
            # each sum is changed in place; an element that equals an earlier one has a sum of its own
            sums = tuple(adj.pop(v, zero) if v in self.active else zero for v in s.values)
            index = self._index(s.index)
            sum = self.b.op("add", self._chosen(s, index, sums), g)
            self._shared(s, self._changed(s, index, sums, sum), adj)

    def _with_element(self, s: N.WithElement, adj: Adjoints) -> None:
        given = [adj.pop(r.id, None) for r in s.results]
        if any(g is not None for g in given):
            zero = self._zero(s.value)
            index, shares = self._index(s.index), tuple(zero if g is None else g for g in given)
            if s.value in self.active:
                self._add(adj, s.value, self._chosen(s, index, shares))
            self._shared(s, self._changed(s, index, shares, zero), adj)

    def _shared(self, s: N.Choice, shares: Iterable[int], adj: Adjoints) -> None:
        for v, share in zip(s.values, shares, strict=True):
            if v in self.active:
                self._add(adj, v, share)

    def _chosen(self, s: N.Choice, index: N.Ids, values: N.Ids) -> int:
        return self.b.add(N.Element(self.b.fresh(), self.b.types[values[0]], index, s.shape, values, clamped=s.clamped))

    def _changed(self, s: N.Choice, index: N.Ids, values: N.Ids, value: int) -> list[int]:
        """The elements ``values`` after the one that the index means became ``value``."""
        results = tuple(self.b.param(self.b.types[value], self._name(v)) for v in s.values)
        self.b.add(N.WithElement(self.b.fresh(), index, s.shape, values, value, results, clamped=s.clamped))
        return [r.id for r in results]

    def _grad_of(self, buffer: str) -> N.Buffer:
        return self.buffers[self.buffers[buffer].grad]

    def _load(self, load: N.Load, adj: Adjoints) -> None:
        g = adj.pop(load.id, None)
        if g is not None:
            self.b.atomic("add", self._grad_of(load.buffer), self._index(load.index), g)

    def _index(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._primal(i) for i in index)

    def _store(self, store: N.Store, adj: Adjoints) -> None:
        grad, index = self._grad_of(store.buffer), self._index(store.index)
        if store.value in self.active and store.id in self.colliding:
            taken = self.b.atomic("exchange", grad, index, self.b.const(0, grad.dtype))
            self._add(adj, store.value, taken)
            return
        if store.value in self.active:
            self._add(adj, store.value, self.b.load(grad, index))
        self.b.store(grad, index, self.b.const(0, grad.dtype))

    def _atomic(self, atomic: N.Atomic, adj: Adjoints) -> None:
        known = ("add", "sub") if self.buffers[atomic.buffer].role == "block" else ("add", "sub", *N.MINMAX)
        if atomic.op not in known:
            raise of_atomic("QL0401", atomic, self.buffers[atomic.buffer])
        if atomic.id in adj:
            raise of_atomic("QL0402", atomic, self.buffers[atomic.buffer])
        if atomic.value in self.active:
            b, index = self.b, self._index(atomic.index)
            g = b.load(self._grad_of(atomic.buffer), index)
            if atomic.op == "sub":
                g = b.op("neg", g)
            elif atomic.op in N.MINMAX:
                mine = self.minmax.is_argmax(atomic, self._primal(atomic.value), index)
                g = b.op("select", mine, self.minmax.share(atomic, g, index), self._zero(atomic.value))
            self._add(adj, atomic.value, g)

    def _outer_active(self, *blocks: N.Block) -> list[int]:
        """The active values that these blocks read and that are defined outside of them, in the order of their
        definition."""
        free = set().union(*(free_values(s, self.free) & self.active for s in blocks))
        return sorted(free, key=self.order.__getitem__)

    def _if(self, stmt: N.If, adj: Adjoints) -> None:
        b = self.b
        cond = self._primal(stmt.cond)
        incoming = [adj.pop(r.id, None) for r in stmt.results]
        arms: list[tuple[list[N.Stmt], Adjoints]] = []
        for n, block in enumerate(stmt.blocks()):
            local = dict(adj)
            with b.block() as made:
                self._restore((stmt.id, n))
                self._yielded(block, incoming, local)
                self._block(block, local)
            arms.append((made, local))
        changed = [
            v for v in self._outer_active(*stmt.blocks()) if any(local.get(v) != adj.get(v) for _, local in arms)
        ]
        b.span, b.adjoint_of = stmt.span, stmt.id
        for made, local in arms:
            with b.block(made):
                b.yield_(*(local[v] if v in local else self._zero(v) for v in changed))
        results = tuple(b.param(self.scopes.types[v], self._name(v)) for v in changed)
        b.add(N.If(b.fresh(), cond, tuple(arms[0][0]), tuple(arms[1][0]), results))
        adj.update((v, r.id) for v, r in zip(changed, results, strict=True))

    def _yielded(self, block: N.Block, incoming: list[int | None], adj: Adjoints) -> None:
        end = end_of(block)
        for v, g in zip(end.values, incoming, strict=True):
            if g is not None and v in self.active:
                self._add(adj, v, g)

    def _loop(self, stmt: N.Loop, adj: Adjoints) -> None:
        b = self.b
        if isinstance(stmt, N.For):
            begin, end = self._primal(stmt.begin), self._primal(stmt.end)
            index = b.param(stmt.index.type, stmt.index.name)
        else:
            begin, end = b.const(0, i32), self._primal(stmt.results[-1].id)
            index = b.param(i32, stmt.carried[-1].name)
        carried = [
            k for k, (c, r) in enumerate(zip(stmt.carried, stmt.results, strict=True))
            if c.id in self.active or r.id in self.active
        ]
        own = {p.id for p in stmt.params()}
        outer = [v for v in self._outer_active(stmt.body) if v not in own]
        inits = []
        for k in carried:
            last = stmt.results[k].id
            g = adj.pop(last, None)
            inits.append(self._zero(last) if g is None else g)
        inits += [adj[v] if v in adj else self._zero(v) for v in outer]

        adjoints = Carried(carried, outer)
        if isinstance(stmt, N.For) and stmt.id in self.plan.segments:
            ends = self._segments(stmt, begin, end, adjoints, inits)
        else:
            ends = self._backwards(stmt, index, begin, end, adjoints, inits, index.id)
        for v, r in zip(outer, ends[len(carried) :], strict=True):
            adj[v] = r
        for k, r in zip(carried, ends, strict=False):
            if stmt.inits[k] in self.active:
                self._add(adj, stmt.inits[k], r)

    def _backwards(
        self, stmt: N.Loop, index: N.Param, begin: int, end: int, adjoints: Carried, inits: list[int],
        own: int, before: Callable[[], None] = lambda: None,
    ) -> list[int]:  # fmt: skip
        """Emits the reversed loop, a For over ``index``. In the body ``own`` is the id of the forward loop's index or
        counter, and ``before`` emits this value. Returns the adjoints, after the last iteration, of the carried values
        and of the values that are defined outside the loop."""
        b, carried, outer = self.b, adjoints.carried, adjoints.outer
        own_index, arm = stmt.counter.id, len(stmt.blocks()) - 1
        params = tuple(b.param(self.scopes.types[v], self._name(v)) for v in (stmt.carried[k].id for k in carried))
        sums = tuple(b.param(self.scopes.types[v], self._name(v)) for v in outer)
        incoming: list[int | None] = [None] * len(stmt.carried)
        for k, p in zip(carried, params, strict=True):
            incoming[k] = p.id
        local: Adjoints = {v: p.id for v, p in zip(outer, sums, strict=True)}
        with b.block() as made:
            before()
            self.env[own_index] = own
            self._restore((stmt.id, arm))
            b.span, b.adjoint_of = stmt.span, stmt.id
            self._yielded(stmt.body, incoming, local)
            self._block(stmt.body, local)
            b.span, b.adjoint_of = stmt.span, stmt.id
            nexts = [local.get(stmt.carried[k].id) for k in carried]
            values = [self._zero(stmt.carried[k].id) if g is None else g for g, k in zip(nexts, carried, strict=True)]
            b.yield_(*values, *(local[v] for v in outer))
        results = tuple(b.param(p.type, p.name) for p in (*params, *sums))
        upwards = own == index.id and isinstance(stmt, N.For) and stmt.reverse  # the forward loop ran downwards
        loop = N.For(
            b.fresh(), index, begin, end, (*params, *sums), tuple(inits), tuple(made), results,
            reverse=not upwards,
        )  # fmt: skip
        b.add(loop)
        return [r.id for r in results]

    def _segments(self, loop: N.For, begin: int, end: int, adjoints: Carried, inits: list[int]) -> list[int]:
        """Emits a reversed checkpointed loop, segment by segment (`autodiff.recursive_checkpointing`)."""
        b, t = self.b, loop.index.type
        segment = self.plan.segments[loop.id]
        n = lengths(b, loop, begin, end)
        zero = b.const(0, t)
        number = b.param(t, "segment")
        params = tuple(b.param(b.types[v]) for v in inits)
        results = tuple(b.param(b.types[v]) for v in inits)
        with b.block() as made:
            starts: list[int] = []
            for v, stack in self.slicer.starts[loop.id]:
                top = N.AdStackLoadTop(b.fresh(), self.scopes.types[v], stack, name=self.scopes.names[v])
                starts.append(b.add(top))
                b.add(N.AdStackPop(b.fresh(), stack))
            first, length = first_and_length(b, n, number.id)
            b.adjoint_of = N.NO_ID
            self._again(segment, (begin, end, first), zero, length, starts)
            b.span, b.adjoint_of = loop.span, loop.id
            at, own = b.param(t), b.fresh()
            ends = self._backwards(
                loop, at, zero, length, adjoints, [p.id for p in params], own,
                lambda: index_at(b, loop, begin, end, first, at.id, own),
            )  # fmt: skip
            b.yield_(*ends)
        b.span, b.adjoint_of = loop.span, loop.id
        b.add(N.For(b.fresh(), number, zero, n.segments, params, tuple(inits), tuple(made), results, reverse=True))
        return [r.id for r in results]

    def _again(self, segment: Segment, at: tuple[int, int, int], zero: int, length: int, starts: list[int]) -> None:
        """Emits the forward slice of one segment, with its pushes, and then the check of capacities. ``starts`` are the
        carried values with which the segment begins, and ``at`` has begin and end of the loop and the number of the
        segment's first iteration."""
        b, loop = self.b, segment.loop
        count = b.param(loop.index.type)
        carried = tuple(p for p in loop.carried if p.id in segment.starts)
        end = end_of(loop.body)
        nexts = tuple(v for p, v in zip(loop.carried, end.values, strict=True) if p.id in segment.starts)
        live = pruned(loop.body[:-1], segment.live)
        kept = replace(loop, carried=carried, body=(*live, replace(end, values=nexts)))
        with b.block() as inner:
            index_at(b, loop, *at, count.id, loop.index.id)
        ids = {v: self._primal(v) for v in segment.outside}
        body = (*inner, *self.slicer.block(kept.body, kept, loop.id))
        results = tuple(N.Param(b.fresh(), p.type, p.name) for p in carried)
        again = N.For(loop.id, count, zero, length, carried, tuple(starts), body, results, span=loop.span)
        copy = renamed(again, b.fresh, ids)
        b.types.update({new: b.types[old] for old, new in ids.items() if old in b.types})
        b.add(copy)
        b.check_depths()
