"""The pass `structure_exits` replaces `break` and `continue` by conditions, so that every block has a single end."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import leaves
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import all_are, end_of, find, map_blocks, of_kind, same_or, substitute, types_of

Ids = tuple[int, ...]


def structure_exits(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no Break and no Continue is left.

    If an If contains an exit, the statements after it move into an If: if only one arm reaches them, into that arm,
    otherwise into an If on a flag. A For that has `continue` but no `break` stays a For. A For with `break` becomes a
    While that carries its index and a flag "live", and a While with `break` carries a flag "live". After a break the
    condition of the While is evaluated again only if that has no side effect and is safe anywhere.
    """
    if not any(find(kernel.body, N.Exit)):
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))
    return replace(kernel, body=_Structurer(b).block(kernel.body), next_id=b.next_id)


@dataclass(slots=True)
class _Exits:
    """Says how the several terminators of a block become its one closing Yield, whose values have the dtypes ``types``.

    ``fall(values)`` returns the values of the closing Yield for the block's own Yield. ``leave(values, live)`` returns
    them for an exit with these values; ``live`` is the id of a u1 that is true if the loop goes on. ``carried``: the
    dtypes of the values that the loop carries; ``breaks``: whether the loop has a `break`.
    """

    types: Sequence[DType]
    carried: Sequence[DType]
    breaks: bool
    fall: Callable[[Ids], Ids]
    leave: Callable[[Ids, int], Ids]


class _Structurer:
    def __init__(self, b: Builder) -> None:
        self.b = b

    def block(self, block: N.Block) -> N.Block:
        """The block, in which every loop and task has no exits any more."""
        new: list[N.Stmt] = []
        for s in block:
            s = map_blocks(s, self.block)  # inner loops first: the exits that remain belong to this loop
            if not isinstance(s, (N.For, N.While, N.Offload)) or not (exits := list(leaves(s.body))):
                new.append(s)
            elif isinstance(s, N.Offload) or not any(of_kind(exits, N.Break)):
                carried = [] if isinstance(s, N.Offload) else [p.type for p in s.carried]
                new.append(replace(s, body=self.body(s.body, carried, False)))
            else:
                new += self.for_(s) if isinstance(s, N.For) else self.while_(s)
        return same_or(block, new)

    # --- loops ------------------------------------------------------------------------------------------------

    def body(self, body: N.Block, carried: Sequence[DType], breaks: bool) -> N.Block:
        """The loop's body, ending in one Yield of the carried values and, if the loop ``breaks``, of the flag "live".
        """
        out = _Exits(
            [*carried, u1] if breaks else carried, carried, breaks,
            fall=lambda values: (*values, self.b.const(True, u1)) if breaks else values,
            leave=lambda values, live: (*values, live) if breaks else values,
        )  # fmt: skip
        with self.b.block() as stmts:
            self.rest(body, out)
        return tuple(stmts)

    def for_(self, s: N.For) -> list[N.Stmt]:
        b = self.b
        carried = [p.type for p in s.carried]
        b.span = s.span
        t = s.index.type
        with b.block() as before:
            true = b.const(True, u1)
        # a reversed loop counts upwards, too, and computes its index as begin + (end - 1) - count
        index = b.param(t, s.index.name) if s.reverse else s.index
        live = b.param(u1, "live")
        with b.block() as cond:
            b.yield_(b.op("and", b.op("lt", index.id, s.end), live.id))
        with b.block() as inner:
            one = b.const(1, t)
            if s.reverse:
                last = b.op("sub", b.op("add", s.begin, s.end), one)
                b.add(N.Op(s.index.id, t, "sub", (last, index.id), name=s.index.name))
            after = b.op("add", index.id, one)
        body = self.body(s.body, carried, True)
        end = end_of(body)
        end = replace(end, values=(after, end.values[-1], *end.values[:-1]))
        results = (N.Param(b.fresh(), t, index.name), N.Param(b.fresh(), u1, "live"), *s.results)
        loop = N.While(
            s.id, (index, live, *s.carried), (s.begin, true, *s.inits), tuple(cond), (*inner, *body[:-1], end), results,
            checkpoint=s.checkpoint, span=s.span, adjoint_of=s.adjoint_of,
        )  # fmt: skip
        return [*before, loop]

    def while_(self, s: N.While) -> list[N.Stmt]:
        b = self.b
        b.span = s.span
        with b.block() as before:
            true = b.const(True, u1)
        live = b.param(u1, "live")
        (goes_on,) = s.cond[-1].operands()
        if all_are(s.cond[:-1], N.Pure):
            with b.block() as end:
                b.yield_(b.op("and", goes_on, live.id))
            cond = (*s.cond[:-1], *end)
        else:
            with b.block() as dead:
                b.yield_(b.const(False, u1))
            result = b.param(u1)
            with b.block() as whole:
                b.add(N.If(b.fresh(), live.id, s.cond, tuple(dead), (result,)))
                b.yield_(result.id)
            cond = tuple(whole)
        body = self.body(s.body, [p.type for p in s.carried], True)
        close = end_of(body)
        body = (*body[:-1], replace(close, values=(close.values[-1], *close.values[:-1])))
        results = (N.Param(b.fresh(), u1, "live"), *s.results)
        carried, inits = (live, *s.carried), (true, *s.inits)
        return [*before, replace(s, carried=carried, inits=inits, cond=cond, body=body, results=results)]

    # --- blocks with exits ------------------------------------------------------------------------------------

    def rest(self, stmts: Sequence[N.Stmt], out: _Exits) -> None:
        """Emits the statements, of which the last one is a terminator, so that they end in one Yield."""
        for n, s in enumerate(stmts):
            if isinstance(s, N.Yield):
                self.terminator(s, out)
            elif isinstance(s, N.If) and any(True for _ in leaves((s,))):
                self.branch(s, stmts[n + 1 :], out)
                return
            else:
                self.b.stmts.append(s)

    def terminator(self, s: N.Yield, out: _Exits) -> None:
        b = self.b
        b.span = s.span
        if isinstance(s, N.Exit):
            live = b.const(isinstance(s, N.Continue), u1) if out.breaks else N.NO_ID
            values = out.leave(s.values, live)
        else:
            values = out.fall(s.values)
        b.add(N.Yield(s.id, values, span=s.span))

    def branch(self, s: N.If, rest: Sequence[N.Stmt], out: _Exits) -> None:
        """Emits an If with exits inside, and the statements ``rest`` that follow it in its block."""
        falls = [type(arm[-1]) is N.Yield for arm in s.blocks()]
        if all(falls):
            self.flagged(s, rest, out)
            return
        # at most one arm reaches the statements that follow, which move into it
        arms = []
        for arm, goes_on in zip(s.blocks(), falls, strict=True):
            stmts: Sequence[N.Stmt] = arm
            if goes_on:
                ids = dict(zip((r.id for r in s.results), arm[-1].operands(), strict=True))
                stmts = (*arm[:-1], *substitute(tuple(rest), ids))
            with self.b.block() as inner:
                self.rest(stmts, out)
            arms.append(tuple(inner))
        self.close(s, arms[0], arms[1], out)

    def close(self, s: N.If, then: N.Block, orelse: N.Block, out: _Exits) -> None:
        """Emits the If as the last statement of its block, which then yields the results of the If."""
        b = self.b
        b.span = s.span
        results = tuple(N.Param(b.fresh(), t) for t in out.types)
        b.add(replace(s, then=then, orelse=orelse, results=results))
        b.yield_(*(r.id for r in results))

    def flagged(self, s: N.If, rest: Sequence[N.Stmt], out: _Exits) -> None:
        """Emits an If whose arms may both reach the statements after it. Besides its results it yields whether an exit
        was taken, and the values of that exit."""
        b = self.b
        own = [r.type for r in s.results]
        extra: list[DType] = [u1, *([u1] if out.breaks else []), *out.carried]

        def zeros(types: Sequence[DType]) -> Ids:
            return tuple(b.const(0, t) for t in types)

        def fall(values: Ids) -> Ids:
            return (*values, *zeros(extra))

        def leave(values: Ids, live: int) -> Ids:
            flags = (b.const(True, u1), live) if out.breaks else (b.const(True, u1),)
            return (*zeros(own), *flags, *values)

        inner = _Exits([*own, *extra], out.carried, out.breaks, fall, leave)
        arms = []
        for arm in s.blocks():
            with b.block() as stmts:
                self.rest(arm, inner)
            arms.append(tuple(stmts))
        b.span = s.span
        left = tuple(N.Param(b.fresh(), t) for t in extra)
        b.add(replace(s, then=arms[0], orelse=arms[1], results=(*s.results, *left)))
        with b.block() as gone:
            values = tuple(r.id for r in left[-len(out.carried) :]) if out.carried else ()
            b.yield_(*out.leave(values, left[1].id if out.breaks else N.NO_ID))
        with b.block() as stays:
            self.rest(rest, out)
        self.close(N.If(b.fresh(), left[0].id, (), (), (), span=s.span), tuple(gone), tuple(stays), out)
