"""The pass `fold` evaluates constants, simplifies by algebra, and removes control flow that is decided at compile
time."""

from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.analysis.effects import pure
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import exits, keep_carried, keep_results
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.traits import S
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import map_blocks, of_kind, reading
from quadrants_lab.passes.fold_rules import COMMUTATIVE, KNOWN, Rewritten, rules_of


def fold(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no Op has only constant operands, and that no rule of `fold_rules` applies to an Op; that no If
    has a condition that is constant or decided by the Ifs around it, nor arms that only yield constants; that no loop
    is known to run never or just once; and that no carried value is known to keep its first value. Values stay the same
    bit for bit, except that small integer powers become products. Statements that are not used any more are left to
    `dce`."""
    f = _Folder(kernel)
    body = f.block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body, next_id=f.b.next_id)


class _Folder:
    """Folds a kernel in one walk in program order. ``ids``: id of a value -> id of an earlier value that equals it."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.b = Builder(kernel.next_id)
        self.types = self.b.types
        self.ids: dict[int, int] = {}
        self.defs: dict[int, N.Stmt] = {}
        # id of a condition -> its value, as the Ifs around the current place decide it
        self.assumed: dict[int, bool] = {}
        self.changed = False  # whether anything changed in the block that is being walked

    # --- the protocol `Facts` of the rules -------------------------------------------------------------------

    def const(self, ident: int) -> Any:
        d = self.defs.get(ident)
        return d.value if type(d) is N.Const else self.assumed.get(ident)

    def op(self, ident: int, *prims: str) -> N.Op | None:
        d = self.defs.get(ident)
        return d if type(d) is N.Op and d.prim in prims else None

    def kind(self, ident: int) -> str:
        """The value's kind, as `rules_of` takes it."""
        d = self.defs.get(ident)
        prim = d.prim if type(d) is N.Op else ""
        return prim + KNOWN if type(d) is N.Const or ident in self.assumed else prim

    def emit(self, at: N.Op, prim: str, args: tuple[int, ...], type: DType) -> int:
        return self.add(N.Op(self.b.fresh(), type, prim, args, span=at.span, adjoint_of=at.adjoint_of))

    def emit_const(self, at: N.Op, value: Any, type: DType) -> int:
        return self.add(N.Const(self.b.fresh(), type, value, span=at.span, adjoint_of=at.adjoint_of))

    def add(self, s: N.Value | N.WithElement) -> int:
        self.defs[s.id] = s
        return self.b.add(s)

    # --- walk -----------------------------------------------------------------------------------------------

    def block(self, block: N.Block) -> N.Block:
        """The block with its statements folded; the same object if nothing changed."""
        outer, self.changed = self.changed, False
        with self.b.block() as out:
            self.stmts(block)
        new = tuple(out) if self.changed else block
        self.changed = self.changed or outer
        return new

    def stmts(self, block: N.Block) -> bool:
        """Emits the folded statements. Returns whether one of them was replaced by a block that ends in an exit."""
        ids = self.ids
        for s in block:
            if ids and not ids.keys().isdisjoint(s.operands()):
                s, self.changed = reading(s, ids), True
            fn = _FOLD.get(type(s))
            if fn is None:
                self.b.add(s)
            elif fn(self, s):
                return True
        return False

    def becomes(self, ident: int, other: int) -> None:
        """Replaces the value ``ident`` by the equal value ``other`` in all statements that follow."""
        self.ids[ident] = other
        self.changed = True

    def const_(self, s: N.Const) -> None:
        self.add(s)

    def op_(self, s: N.Op) -> None:
        now: N.Value = s
        while type(now) is N.Op:
            got = self.step(now)
            if got is None:
                break
            self.changed = True
            if isinstance(got, int):
                self.becomes(s.id, got)
                return
            now = got
        self.add(now)

    def step(self, s: N.Op) -> Rewritten:
        """Rewrites the Op once; None if no rule applies."""
        args = [self.defs.get(a) for a in s.args]
        known = [type(a) is N.Const for a in args]
        if all(known):
            values = [a.type.numpy(a.value) for a in of_kind(args, N.Const)]
            with np.errstate(all="ignore"):
                value = PRIMS[s.prim].evaluate(s.type, *values)
            if any(_subnormal(v) for v in (value, *values)):
                return None  # not folded, since devices may flush subnormal numbers to zero
            return N.Const(s.id, s.type, value.item(), name=s.name, span=s.span, adjoint_of=s.adjoint_of)
        if known[0] and s.prim in COMMUTATIVE:  # a constant operand goes to the right: c . x = x . c
            s = replace(s, args=(s.args[1], s.args[0]))
            again = self.rules(s)
            return s if again is None else again
        return self.rules(s)

    def rules(self, s: N.Op) -> Rewritten:
        for rule in rules_of(s.prim, tuple(map(self.kind, s.args))):
            got = rule(self, s)
            if got is not None:
                return got
        return None

    def choice(self, s: N.Element | N.WithElement) -> None:
        index = [self.const(i) for i in s.index]
        same = s.clamped and isinstance(s, N.Element) and s.values.count(s.values[0]) == len(s.values)
        if None not in index or same:
            for i, v in s.taken(index if None not in index else [0 for _ in index]):
                if v != N.NO_ID:
                    self.becomes(i, v)
                else:
                    self.changed = True
                    self.add(N.Const(i, self.types[s.values[0]], 0.0, span=s.span, adjoint_of=s.adjoint_of))
        else:
            self.add(s)

    def assert_(self, s: N.Assert) -> None:
        if self.const(s.cond) is True:
            self.changed = True
        else:
            self.b.add(s)

    def if_(self, s: N.If) -> bool:
        known = self.const(s.cond)
        if known is not None:
            return self.splice(s.then if known else s.orelse, s.results)
        then, orelse = self.arm(s.then, s.cond, True), self.arm(s.orelse, s.cond, False)
        if then is not s.then or orelse is not s.orelse:
            s = replace(s, then=then, orelse=orelse)
            self.changed = True
        if type(then[-1]) is N.Yield and type(orelse[-1]) is N.Yield:
            if all(type(a) is N.Const for a in (*then[:-1], *orelse[:-1])):
                self.selects(s)
                return False
            s = self.merged(s)
        self.b.add(s)
        return False

    def arm(self, block: N.Block, cond: int, holds: bool) -> N.Block:
        """The arm of an If, folded. It runs only if the condition has the value ``holds``, so within it the condition
        is known."""
        before = dict(self.assumed)
        self.assume(cond, holds)
        block = self.block(block)
        self.assumed = before
        return block

    def assume(self, cond: int, holds: bool) -> None:
        """Records that a condition has the value ``holds``. ``not a`` also decides ``a``; a true ``a and b``, or a
        false ``a or b``, decides both operands."""
        self.assumed[cond] = holds
        if (inner := self.op(cond, "not")) is not None:
            self.assume(inner.args[0], not holds)
        elif (inner := self.op(cond, "and" if holds else "or")) is not None and inner.type is u1:
            for a in inner.args:
                self.assume(a, holds)

    def splice(self, block: N.Block, results: tuple[N.Param, ...]) -> bool:
        """Puts the block's statements in place of the statement that contains it. The values that the block yields
        replace the statement's results."""
        self.changed = True
        if type(block[-1]) is not N.Yield:
            return self.stmts(block) or True
        if self.stmts(block[:-1]):
            return True
        for r, v in zip(results, block[-1].operands(), strict=True):
            self.becomes(r.id, self.ids.get(v, v))
        return False

    def selects(self, s: N.If) -> None:
        """Replaces if b {yield x} else {yield y} -> r by r = select(b, x, y)."""
        self.changed = True
        for a in (*s.then[:-1], *s.orelse[:-1]):
            assert isinstance(a, N.Const)
            self.add(a)
        for r, x, y in zip(s.results, s.then[-1].operands(), s.orelse[-1].operands(), strict=True):
            self.op_(
                N.Op(r.id, r.type, "select", (s.cond, x, y), name=r.name, span=s.span, adjoint_of=s.adjoint_of)
            )

    def merged(self, s: N.If) -> N.If:
        """The If without those results that get the same value from both arms, or that equal the condition."""
        keep = []
        for n, (r, x, y) in enumerate(
            zip(s.results, s.then[-1].operands(), s.orelse[-1].operands(), strict=True)
        ):
            if x == y:
                self.becomes(r.id, x)
            elif self.const(x) is True and self.const(y) is False:
                self.becomes(r.id, s.cond)
            elif self.const(x) is not None and repr(self.const(x)) == repr(self.const(y)):
                self.changed = True
                self.add(N.Const(r.id, r.type, self.const(x), name=r.name, span=s.span, adjoint_of=s.adjoint_of))
            else:
                keep.append(n)
        return keep_results(s, keep)

    def kept(self, s: N.Loop) -> list[int]:
        """Positions of the carried values that may change. The other carried values are replaced by their initial
        values."""
        ends = exits(s.body)
        keep = []
        for n, (p, init, r) in enumerate(zip(s.carried, s.inits, s.results, strict=True)):
            if all(e.values[n] == p.id or self.ids.get(e.values[n], e.values[n]) == init for e in ends):
                self.becomes(p.id, init)
                self.becomes(r.id, init)
            else:
                keep.append(n)
        return keep

    def for_(self, s: N.For) -> bool:
        begin, end = self.const(s.begin), self.const(s.end)
        if begin is not None and end is not None and begin >= end:
            return self.never(s)
        s = keep_carried(s, self.kept(s))
        # a loop over the threads of a block is not removed
        once = begin is not None and end == begin + 1 and not s.threads
        if once and len(exits(s.body)) == 1 and type(s.body[-1]) is N.Yield:
            self.becomes(s.index.id, s.begin)
            for p, init in zip(s.carried, s.inits, strict=True):
                self.becomes(p.id, init)
            return self.splice(s.body, s.results)
        self.b.add(self.inside(s))
        return False

    def while_(self, s: N.While) -> bool:
        s = self.inside(keep_carried(s, self.kept(s)))
        if self.const(s.cond[-1].operands()[0]) is False and pure((s.cond,)):
            return self.never(s)
        self.b.add(s)
        return False

    def never(self, s: N.Loop) -> bool:
        """Removes a loop that never runs: the initial values replace its results."""
        self.changed = True
        for r, init in zip(s.results, s.inits, strict=True):
            self.becomes(r.id, init)
        return False

    def inside(self, s: S) -> S:
        """The statement with its blocks folded."""
        for p in s.params():
            self.types[p.id] = p.type
        made = map_blocks(s, self.block)
        self.changed = self.changed or made is not s
        return made

    def owner(self, s: N.AdStackGuard | N.Offload) -> None:
        self.b.add(self.inside(s))


_TINY: dict[type, float] = {np.float32: 2.0**-126, np.float64: 2.0**-1022}


def _subnormal(value: Any) -> bool:
    """Whether the numpy scalar is smaller than the smallest normal f32 or f64."""
    tiny = _TINY.get(type(value))
    return tiny is not None and value != 0 and bool(-tiny < value < tiny)


_FOLD: dict[type, Any] = {
    N.Const: _Folder.const_, N.Op: _Folder.op_, N.Element: _Folder.choice, N.WithElement: _Folder.choice,
    N.Assert: _Folder.assert_, N.If: _Folder.if_,
    N.For: _Folder.for_, N.While: _Folder.while_, N.AdStackGuard: _Folder.owner, N.Offload: _Folder.owner,
}  # fmt: skip
