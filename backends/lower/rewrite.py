"""Drives lowering passes: it applies a table of rules, each of which replaces one kind of operation."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from quadrants_lab.analysis.ranges import Range, Ranges
from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import map_blocks, reading, same_or, types_of, walk


class Site:
    """What a rule gets besides the operands of the operation that it replaces: the builder with which it emits, and
    dtypes.

    ``t``: the dtype of the first operand, for a select of the second; ``out``: the dtype of the result.
    """

    def __init__(self, b: Builder, ranges: Ranges, functions: dict[str, N.Function], op: N.Op) -> None:
        self.b = b
        self.ranges = ranges
        self.functions = functions
        self.prim = op.prim
        self.t = b.types[op.args[1 if op.prim == "select" else 0]]
        self.out = op.type

    def lit(self, value: Any, t: DType | None = None) -> X:
        return X(self.b, self.b.const(value, t or self.t))

    def constant(self, x: X) -> Any:
        """The value of ``x`` if it is a constant, else None."""
        d = self.ranges.defs.get(x.id)
        return None if d is None else d.constant

    def range(self, x: X) -> Range:
        """The least and greatest value that the integer ``x`` can have."""
        return self.ranges.range(x.id) or x.type.limits

    def may_be(self, x: X, value: int) -> bool:
        low, high = self.range(x)
        return low <= value <= high

    def call(self, f: N.Function, *args: X) -> X:
        """Emits a call of the function ``f``, which is added to the kernel's functions."""
        self.functions.setdefault(f.name, f)
        return X(self.b, self.b.add(N.Call(self.b.fresh(), f.type, f.name, tuple(x.id for x in args))))

    def shared(self, name: str, make: Callable[..., X], *args: X) -> X:
        """Emits a call of the function with this name for the dtypes of ``args``. If there is none yet, ``make(site,
        *params)`` makes its body."""
        name = ".".join((name, *dict.fromkeys(x.type.name for x in args)))
        if name not in self.functions:
            b = Builder(0)
            site = copy(self)
            site.b, site.ranges = b, Ranges(EMPTY)
            params = tuple(b.param(x.type, "abc"[n]) for n, x in enumerate(args))
            with b.block() as body:
                result = make(site, *(X(b, p.id) for p in params))
                b.yield_(result.id)
            self.functions[name] = N.Function(name, params, result.type, tuple(body))
        return self.call(self.functions[name], *args)


EMPTY = N.Kernel("", (), {}, (), 0)
Rule = Callable[..., X | None]  # (site, *operands) -> the new value; None: the operation stays


@deeply_recursive
def rewrite(
    kernel: N.Kernel, rules: Mapping[str, Rule], where: Callable[[N.Op], bool] = lambda s: True
) -> N.Kernel:
    """Replaces each operation whose primitive has a rule, in the kernel and its functions. Operations that a rule emits
    are replaced in turn, except those of the rule's own primitive. A result keeps its id and its known range.
    ``where``: which operations to replace."""
    functions: dict[str, N.Function] = {}
    for f in kernel.functions.values():
        if not _concerned(f.body, rules):
            functions[f.name] = f
            continue
        inner = replace(EMPTY, body=f.body, next_id=_past(f))
        body = _Rewriter(inner, rules, where, functions, {p.id: p.type for p in f.params}).block(f.body)
        functions[f.name] = f if body is f.body else replace(f, body=body)
    body, next_id = kernel.body, kernel.next_id
    if _concerned(body, rules):
        r = _Rewriter(kernel, rules, where, functions, {})
        body, next_id = r.block(body), r.b.next_id
    if body is kernel.body and all(f is kernel.functions.get(n) for n, f in functions.items()):
        return kernel
    return replace(kernel, body=body, next_id=next_id, functions=functions)


def _concerned(block: N.Block, rules: Mapping[str, Rule]) -> bool:
    return any(type(s) is N.Op and s.prim in rules for s in walk(block))


def _without_duplicates(made: list[N.Stmt]) -> tuple[list[N.Stmt], dict[int, int]]:
    """The statements without repeated computations; and dropped value -> the equal value that is computed first."""
    out: list[N.Stmt] = []
    first: dict[object, int] = {}
    same: dict[int, int] = {}
    for m in made:
        m = reading(m, same)
        if isinstance(m, (N.Const, N.Op, N.Call)):
            what = repr(m.value) if isinstance(m, N.Const) else m.prim if isinstance(m, N.Op) else m.function
            known = first.setdefault((type(m), m.type, what, m.operands()), m.id)
            if known != m.id:
                same[m.id] = known
                continue
        out.append(m)
    return out, same


def _past(f: N.Function) -> int:
    """An id that is greater than all ids in the function."""
    ids = {p.id for p in f.params} | types_of(f.body).keys() | {s.id for s in walk(f.body)}
    return 1 + max(ids)


class _Rewriter:
    def __init__(
        self, kernel: N.Kernel, rules: Mapping[str, Rule], where: Callable[[N.Op], bool],
        functions: dict[str, N.Function], types: dict[int, DType],
    ) -> None:  # fmt: skip
        self.rules = rules
        self.where = where
        self.functions = functions
        self.b = Builder(kernel.next_id, types | types_of(kernel.body))
        self.ranges = Ranges(kernel)
        self.ids: dict[int, int] = {}

    def block(self, block: N.Block) -> N.Block:
        with self.b.block() as out:
            for s in block:
                self.stmt(s, "")
        return same_or(block, out)

    def stmt(self, s: N.Stmt, ruled: str) -> None:
        """Handles one statement. ``ruled``: the primitive whose rule emitted the statement, or ""."""
        b, s = self.b, reading(s, self.ids)
        if isinstance(s, N.Op) and s.prim in self.rules and s.prim != ruled and self.where(s):
            b.span, b.adjoint_of = s.span, s.adjoint_of
            with b.block() as made:
                x = self.rules[s.prim](Site(b, self.ranges, self.functions, s), *(X(b, i) for i in s.args))
            b.span, b.adjoint_of = None, N.NO_ID
            if x is not None:
                made, same = _without_duplicates(made)
                self._replace(s, X(b, same.get(x.id, x.id)), made)
                return
        b.stmts.append(map_blocks(s, self.block))

    def _replace(self, s: N.Op, x: X, made: list[N.Stmt]) -> None:
        known = self.ranges.range(s.id) if s.type.is_int else None
        if made and isinstance(last := made[-1], N.Value) and last.id == x.id:
            del self.b.types[x.id]
            made[-1] = last = replace(last, id=s.id, name=s.name)
            if isinstance(last, N.Op) and last.prim == "select" and known is not None:
                made[-1] = replace(last, range=known)
        for m in made:
            if isinstance(m, N.Value) and m.id != s.id:
                self.ranges.defs[m.id] = m
        for m in made:
            self.stmt(m, s.prim)
        if x.id in self.b.types and x.id != s.id:
            self.ids[s.id] = self.ids.get(x.id, x.id)
