"""Emits the IR's ifs and loops as ifs and loops of the language; carried values and results become variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import uses

if TYPE_CHECKING:
    from quadrants_lab.backends._clike.body import Body

_FEW = 1 << 10  # a loop with more trips polls


def _assign(b: Body, params: tuple[N.Param, ...], variables: list[str], block: N.Block) -> None:
    """Emits a block, and assigns the values that it yields to ``variables`` as if all at once: a variable is read
    before it is changed."""
    ids = block[-1].operands()
    b.variables.homes.update(zip(ids, variables, strict=True))
    values = zip(params, variables, b.block(block, lines=True), ids, strict=True)
    left = [(p, v, e, id) for p, v, e, id in values if e.text != v]
    b.variables.written(block[-1])
    while left:
        free = next((x for x in left if not any(x[1] in y[2].reads for y in left if y is not x)), None)
        if free is not None:
            _, v, e, id = free
            with b.owned(id):
                b.out.put(X.assignment(v, e))
            left.remove(free)
            continue
        _, changed, _, _ = left[0]
        for n, (p, v, e, id) in enumerate(left):
            if n and changed in e.reads:
                t = b.type_name(p.type)
                with b.owned(id):
                    b.out.declare(t, f"next{p.id}_ = {e.text}")
                left[n] = (p, v, X.variable(f"next{p.id}_", t), id)


def if_(b: Body, s: N.If) -> None:
    out = b.out
    cond = b.values[s.cond]
    inside = Counter(uses(s.then + s.orelse))  # only reads inside the arms: the condition has been read before
    found = [_home(b, s, n, inside) for n in range(len(s.results))]
    found = [v if v not in found[:n] else "" for n, v in enumerate(found)]
    variables = [v or b.names.local(r.name) for r, v in zip(s.results, found, strict=True)]
    for r, v, known in zip(s.results, variables, found, strict=True):
        if not known:
            out.declare(b.type_name(r.type), v)
    with b.variables.beside(s.orelse), out.separate() as then, b.braces():
        _assign(b, s.results, variables, s.then)
    leave = b.exits.get(s.id, "")
    with out.separate() as orelse, nullcontext() if leave else b.braces():
        _assign(b, s.results, variables, s.orelse)
    if then.lines or not orelse.lines:
        out.put(f"if ({cond.text}) {{")
        out.add(then)
        if leave:
            out.put(f"  {leave}")
        elif orelse.lines:
            out.put("} else {")
            out.add(orelse)
    else:
        out.put(f"if ({X.prefix('!', 'bool', cond).text}) {{")
        out.add(orelse)
    out.put("}")
    if leave:
        out.add(orelse)
    _results(b, s.results, variables)


def _home(b: Body, s: N.If, n: int, inside: Counter[int]) -> str:
    """The name of an existing variable for result ``n`` of an If, else "": the variable that must hold the result in
    the end, or one whose value an arm returns unchanged. ``inside``: how often the arms read each value."""
    r = s.results[n]
    kept = [i for block in s.blocks() if (i := block[-1].operands()[n]) in b.values]
    names = [b.variables.homes.get(r.id, ""), *(b.values[i].text for i in kept)]
    own = (v for v in names[1:] if b.variables.called(v, r.name, b.type_name(r.type)))
    return next((v for v in (*names[:1], *own) if v and b.free(v, inside)), "")


def _carry(b: Body, s: N.For | N.While, fixed: frozenset[str] = frozenset()) -> list[str]:
    """Makes the variables of a loop's carried values. The loop's head reads the variables ``fixed``, so they must
    not change."""
    variables: list[str] = []
    for p, i in zip(s.carried, s.inits, strict=True):
        e, t = b.values[i], b.type_name(p.type)
        known = b.variables.called(e.text, p.name, t) and e.text not in fixed and e.text not in variables
        variables.append(e.text if known and b.free(e.text, Counter()) else b.names.local(p.name))
        if variables[-1] != e.text:
            with nullcontext() if e.known is not None or e.text.isidentifier() else b.owned(i):
                b.out.declare(t, f"{variables[-1]} = {e.text}")
    return variables


def _results(b: Body, results: tuple[N.Param, ...], variables: list[str]) -> None:
    for r, v in zip(results, variables, strict=True):
        b.types[r.id] = r.type
        b.hold(v, r.id, r.name, b.type_name(r.type))


def while_(b: Body, s: N.While) -> None:
    out = b.out
    variables = _carry(b, s)
    with b.variables.loop(), b.names.scope():
        _results(b, s.carried, variables)
        with b.variables.loop(), out.separate() as test, out.nest():
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
            _assign(b, s.carried, variables, s.body)
    out.put("}")
    _results(b, s.results, variables)


def for_(b: Body, s: N.For) -> None:
    """Emits a loop. In a backward loop the variable is one more than the index until the body begins, so that an
    unsigned variable does not wrap."""
    out, t = b.out, b.type_name(s.index.type)
    begin, end = b.typed(s.begin), b.typed(s.end)
    variables = _carry(b, s, begin.reads | end.reads)
    if s.reverse:
        begin = b.fix(begin, f"begin{s.id}_", t)
    else:
        end = b.fix(end, f"end{s.id}_", t)
    with b.variables.loop(), b.names.scope():
        j = b.names.local(s.index.name or "j")
        b.set(s.index.id, s.index.type, X.variable(j, t))
        _results(b, s.carried, variables)
        if s.reverse:
            out.put(f"for ({t} {j} = {end.text}; {j} > {begin.within(X.ADD)};) {{")
        else:
            step = f"++{j}" if s.step == N.NO_ID else f"{j} += {b.typed(s.step).assigned(t)}"
            out.put(f"for ({t} {j} = {begin.assigned(t)}; {j} < {end.within(X.ADD)}; {step}) {{")
        with out.nest():
            if s.reverse:
                out.put(f"--{j};")
            if begin.known is None or end.known is None or end.known - begin.known > _FEW:
                b.poll()
            _assign(b, s.carried, variables, s.body)
    out.put("}")
    _results(b, s.results, variables)


HANDLERS: dict[type, Callable[..., None]] = {N.If: if_, N.For: for_, N.While: while_}
