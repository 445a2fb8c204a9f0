"""Functions of a lowered kernel, which its source carries in front of the programs that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl import names
from quadrants_lab.backends._msl.helpers import Helper
from quadrants_lab.backends._msl.source import Source
from quadrants_lab.ir import nodes as N

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body


def call(b: Body, s: N.Call) -> None:
    """The dtypes behind the first point of its name tell functions apart, as they do in MSL."""
    name = "qd_" + s.function.partition(".")[0]
    if s.function not in b.library.texts:
        b.helper(s.function, Helper(_text(b, name, b.frame.kernel.functions[s.function])))
    b.define(s, X.call(name, X.name(s.type), *(b.typed(i) for i in s.args)))


def _text(b: Body, name: str, f: N.Function) -> str:
    out = Source(False)
    body = type(b)(f.body, 0, b.frame, b.library, out, False, False)
    for p in f.params:
        body.set(p.id, p.type, X.variable(names.of_value(p.name, p.id), X.name(p.type)))
    params = ", ".join(f"{X.name(p.type)} {names.of_value(p.name, p.id)}" for p in f.params)
    out.put(f"{X.name(f.type)} {name}({params}) {{")
    with out.nest():
        body.block(f.body)
        out.put(f"return {body.typed(f.body[-1].operands()[0]).text};")
    out.put("}")
    return "\n".join(out.lines)
