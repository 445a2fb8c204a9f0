"""Control flow: the structured statements are the language's own; carried values and results are variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.ir import nodes as N

if TYPE_CHECKING:
    from quadrants_lab.backends._clike.body import Body

_FEW = 1 << 10  # trips of a loop that is not worth a look at what happens outside
_LINE = 100  # characters, about, of several variables' declaration


def _assign(b: Body, params: tuple[N.Param, ...], variables: list[str], values: tuple[Expr, ...]) -> None:
    """All at once: a value that reads a variable which another one changes is computed before."""
    left = [(p, v, e) for p, v, e in zip(params, variables, values, strict=True) if e.text != v]
    while left:
        free = next((x for x in left if not any(x[1] in y[2].reads for y in left if y is not x)), None)
        if free is not None:
            b.out.put(f"{free[1]} = {free[2].text};")
            left.remove(free)
            continue
        _, changed, _ = left[0]
        for n, (p, v, e) in enumerate(left):
            if n and changed in e.reads:
                t = b.type_name(p.type)
                b.out.put(f"{t} next{p.id}_ = {e.text};")
                left[n] = (p, v, X.variable(f"next{p.id}_", t))


def if_(b: Body, s: N.If) -> None:
    out = b.out
    cond = b.values[s.cond]
    variables = [b.variable(r.name, r.id) for r in s.results]
    for r, v in zip(s.results, variables, strict=True):
        out.put(f"{b.type_name(r.type)} {v};")
    arms = []
    for block in s.blocks():
        with out.apart() as arm, out.nest():
            _assign(b, s.results, variables, b.block(block))
        arms.append(arm)
    then, orelse = arms
    if then.lines or not orelse.lines:
        out.put(f"if ({cond.text}) {{")
        out.add(then)
        if orelse.lines:
            out.put("} else {")
            out.add(orelse)
    else:
        out.put(f"if ({X.prefix('!', 'bool', cond).text}) {{")
        out.add(orelse)
    out.put("}")
    for r, v in zip(s.results, variables, strict=True):
        b.set(r.id, r.type, X.variable(v, b.type_name(r.type)))


def _carry(b: Body, carried: tuple[N.Param, ...], inits: tuple[int, ...]) -> list[str]:
    """Declares the carried variables, which the loop's blocks may read."""
    variables = [b.variable(p.name, p.id) for p in carried]
    line = ""
    before = ""
    for p, v, i in zip(carried, variables, inits, strict=True):
        t, text = b.type_name(p.type), f"{v} = {b.values[i].text}"
        if line and (t != before or len(line) + len(text) > _LINE):
            b.out.put(line + ";")
            line = ""
        line, before = f"{line}, {text}" if line else f"{t} {text}", t
    if line:
        b.out.put(line + ";")
    for p, v in zip(carried, variables, strict=True):
        b.set(p.id, p.type, X.variable(v, b.type_name(p.type), assigned=True))
    return variables


def _results(b: Body, results: tuple[N.Param, ...], variables: list[str]) -> None:
    for r, v in zip(results, variables, strict=True):
        b.set(r.id, r.type, X.variable(v, b.type_name(r.type)))


def while_(b: Body, s: N.While) -> None:
    out = b.out
    variables = _carry(b, s.carried, s.inits)
    with out.apart() as test, out.nest():
        (cond,) = b.block(s.cond)
    if test.lines:
        out.put("while (true) {")
        out.add(test)
        with out.nest():
            out.put(f"if ({X.prefix('!', 'bool', cond).text}) break;")
    else:
        out.put(f"while ({cond.text}) {{")
    with out.nest():
        b.poll()
        _assign(b, s.carried, variables, b.block(s.body))
    out.put("}")
    _results(b, s.results, variables)


def for_(b: Body, s: N.For) -> None:
    """Backwards the variable is one more than the index until the body begins, so that it never passes the least
    number."""
    out, t = b.out, b.type_name(s.index.type)
    j = b.variable(s.index.name or "j", s.index.id)
    begin, end = b.typed(s.begin), b.typed(s.end)
    variables = _carry(b, s.carried, s.inits)
    if s.reverse:
        begin = b.fix(begin, f"begin{s.id}_", t)
        out.put(f"for ({t} {j} = {end.text}; {j} > {begin.within(X.ADD)};) {{")
    else:
        end = b.fix(end, f"end{s.id}_", t)
        out.put(f"for ({t} {j} = {begin.text}; {j} < {end.within(X.ADD)}; ++{j}) {{")
    b.set(s.index.id, s.index.type, X.variable(j, t))
    with out.nest():
        if s.reverse:
            out.put(f"--{j};")
        if begin.known is None or end.known is None or end.known - begin.known > _FEW:
            b.poll()
        _assign(b, s.carried, variables, b.block(s.body))
    out.put("}")
    _results(b, s.results, variables)
