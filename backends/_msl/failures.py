"""Asserts and prints: what a thread leaves behind for the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import VALUES
from quadrants_lab.ir import nodes as N

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body


def check(b: Body, s: N.Assert) -> None:
    """A failed assert ends the thread."""
    out = b.out
    number = b.frame.layout.frame.numbers[s.id]
    kept = s.args[:VALUES]
    call = f"{b.helper('qd_fail')}(f, {Status.ASSERT}u, {number}, {len(kept)})"
    values = b.frame.head(L.FAIL_VALUES) if kept else ""
    out.put(f"if ({X.prefix('!', 'bool', b.values[s.cond]).text}) {{")
    with out.nest():
        out.put(f"if ({call}) {{" if kept else f"{call};")
        if kept:
            with out.nest():
                for n, i in enumerate(kept):
                    out.put(f"{values}[{n}] = {raw(b, i)};")
            out.put("}")
        out.put("return;")
    out.put("}")


def raw(b: Body, id: int) -> str:
    """A value's bits in the low part of a ulong."""
    e, t = b.typed(id), b.types[id]
    if t.is_float:
        return X.call(f"as_type<{X.UNSIGNED[e.type]}>", "ulong", e).text
    return X.as_type(e, "ulong").text


def print_(b: Body, s: N.Print) -> None:
    """Takes room for a record in the print block and writes it."""
    out = b.out
    number = b.frame.layout.frame.numbers[s.id]
    values = s.operands()
    call = f"{b.helper('qd_record')}(f, {1 + len(values)}u, {number})"
    if not values:
        out.put(f"{call};")
        return
    out.put(f"if (device ulong* record = {call}) {{")
    with out.nest():
        for n, i in enumerate(values):
            out.put(f"record[{n}] = {raw(b, i)};")
    out.put("}")
