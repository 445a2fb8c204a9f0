"""Makes the forward slice of a task: its statements without side effects, with the pushes of stashed values. `dce`
then removes the statements that the reverse does not need."""

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import replace

from quadrants_lab.autodiff.recursive_checkpointing import first_and_length, index_at, lengths
from quadrants_lab.autodiff.scopes import Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import end_of, rewrite, rules

Starts = Mapping[int, Sequence[tuple[int, int]]]  # segmented loop -> (carried value, its stack)


@dataclass(slots=True)
class Slicer:
    """Makes forward slices with pushes.

    ``stacks`` maps a stashed value to its stack. ``home`` maps a stashed value to the innermost segmented loop around
    it (NO_ID: the task); only the slice of this loop pushes the value. ``starts`` has the segmented loops. ``counts``
    makes the counting slice, which pushes all stashed values and has an empty AdStackGuard after each segment. Writes
    to the buffers ``repeated`` stay in the slice. With ``whole`` all statements stay: the slice is the forward task
    itself.
    """

    b: Builder
    stacks: Mapping[int, int]
    starts: Starts
    home: Mapping[int, int]
    counts: bool = False
    repeated: frozenset[str] = frozenset()
    whole: bool = False

    def block(self, stmts: N.Block, owner: N.Stmt | None, place: int | None) -> N.Block:
        """The block under the same ids, without effects on memory other than ``repeated`` buffers, and with
        ``AdStackPush stacks[v], v`` after the definition of every stashed value v whose home is ``place`` (None: no
        pushes). ``owner`` is the statement whose parameters the block sees."""
        out: list[N.Stmt] = []
        if owner is not None:
            out += self._pushes([p.id for p in owner.params()], owner, place)
        for stmt in stmts:
            if not self.whole:
                once_more = again(stmt, self.repeated)
                if once_more is None:
                    continue
                stmt = once_more
            if isinstance(stmt, N.For) and stmt.id in self.starts and place is not None:
                out += self._segmented(stmt, place)
            elif isinstance(stmt, N.While):
                body = self.block(stmt.body, stmt, place)
                out.append(replace(stmt, body=body, cond=self.block(stmt.cond, None, place)))
            elif stmt.blocks():
                out.append(stmt.with_blocks(tuple(self.block(s, stmt, place) for s in stmt.blocks())))
            else:
                out.append(stmt)
            out += self._pushes([i for i, _ in stmt.defs()], stmt, place)
        return tuple(out)

    def _pushes(self, ids: Sequence[int], span_of: N.Stmt, place: int | None) -> list[N.Stmt]:
        return [
            N.AdStackPush(self.b.fresh(), self.stacks[v], v, span=span_of.span)
            for v in ids
            if v in self.stacks and (self.counts or self.home.get(v, N.NO_ID) == place)
        ]

    def _segmented(self, loop: N.For, place: int) -> list[N.Stmt]:
        """The loop as a loop over segments, each of which first pushes its starting values, the carried values at its
        first iteration."""
        b = self.b
        b.span = loop.span
        t = loop.index.type
        with b.block() as made:
            n = lengths(b, loop, loop.begin, loop.end)
            zero = b.const(0, t)
            segment, at = b.param(t, "segment"), b.param(t)
            carried = tuple(b.param(p.type, p.name) for p in loop.carried)
            results = tuple(b.param(p.type, p.name) for p in loop.carried)
            names = dict(zip((p.id for p in loop.carried), carried, strict=True))
            with b.block() as body:
                for v, stack in self.starts[loop.id]:
                    b.add(N.AdStackPush(b.fresh(), stack, names[v].id))
                first, length = first_and_length(b, n, segment.id)
                with b.block() as inner:
                    index_at(b, loop, loop.begin, loop.end, first, at.id, loop.index.id)
                again = self.block(loop.body, loop, place) if self.counts else self.block(loop.body, None, None)
                code = (*inner, *again)
                inits = tuple(p.id for p in carried)
                b.add(N.For(b.fresh(), at, zero, length, loop.carried, inits, code, results))
                if self.counts:
                    b.check_depths()
                b.yield_(*(p.id for p in results))
            b.add(N.For(loop.id, segment, zero, n.segments, carried, loop.inits, tuple(body), loop.results))
        return made


def again(stmt: N.Stmt, repeated: AbstractSet[str]) -> N.Stmt | None:
    """The statement as it stands in a repetition of its task. None for statements that are not repeated: prints,
    asserts (except bounds checks), and stores to buffers that are not ``repeated``. An atomic on a buffer that is
    not ``repeated`` becomes a load. The atomic's old value is then lost, and `check_data_access` raises an error if
    a statement needs that value."""
    if isinstance(stmt, N.Print) or (isinstance(stmt, N.Assert) and stmt.kind != "bounds"):
        return None
    if not isinstance(stmt, N.Write) or stmt.buffer in repeated:
        return stmt
    return N.Load(stmt.id, stmt.type, stmt.buffer, stmt.index, span=stmt.span) if isinstance(stmt, N.Atomic) else None


def export_from_ifs(body: N.Block, values: list[int], scopes: Scopes, b: Builder) -> tuple[N.Block, dict[int, int]]:
    """Makes values that are defined in ifs (outside of all loops) visible in the task's outermost block, as results of
    those ifs.

    Returns the new body and, for each value, its id in the outermost block. If the arm that does not define the value
    ran, the result is 0; nothing reads this 0, because the reverse takes the same arm.
    """
    known: dict[int, int] = {}
    handed: dict[int, list[tuple[int, int, N.Param]]] = {}  # if -> (arm, value, result that it becomes)
    for v in values:
        inner, scope = v, scopes.of[v]
        while scope.owner is not None:
            assert isinstance(scope.owner, N.If)
            assert scope.parent is not None
            result = b.param(scopes.types[v], scopes.names[v])
            handed.setdefault(scope.owner.id, []).append((scope.arm, inner, result))
            inner, scope = result.id, scope.parent
        known[v] = inner

    def with_results(s: N.If) -> N.Stmt:
        if s.id not in handed:
            return s
        then, orelse = (_yielding(block, n, handed[s.id], b) for n, block in enumerate(s.blocks()))
        return replace(s, then=then, orelse=orelse, results=(*s.results, *(r for _, _, r in handed[s.id])))

    return rewrite(body, rules({N.If: with_results}), inner_first=True), known


def _yielding(block: N.Block, n: int, handed: Sequence[tuple[int, int, N.Param]], b: Builder) -> N.Block:
    """``block``, which is arm ``n`` of an if, with a Yield that also yields the additional results of the if."""
    end = end_of(block)
    with b.block() as made:
        values = [value if arm == n else b.const(0, result.type) for arm, value, result in handed]
    return (*block[:-1], *made, replace(end, values=(*end.values, *values)))
