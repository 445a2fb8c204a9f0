"""Builds expressions as text, with the parentheses that their precedence needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# levels of precedence; a higher one binds tighter
PRIMARY, UNARY, MUL, ADD, SHIFT, LESS, EQUAL, AND, XOR, OR, BOTH, EITHER, CHOICE = range(13, 0, -1)
_OPERATORS: dict[str, int] = {
    "*": MUL, "/": MUL, "%": MUL, "+": ADD, "-": ADD, "<<": SHIFT, ">>": SHIFT, "<": LESS, "<=": LESS, ">": LESS,
    ">=": LESS, "==": EQUAL, "!=": EQUAL, "&": AND, "^": XOR, "|": OR, "&&": BOTH, "||": EITHER,
}  # fmt: skip
_IN_PLACE = ("+", "-", "*", "/", "&", "|", "^")
_CHAINS = (MUL, ADD, BOTH, EITHER)  # levels at which the left operand needs no parentheses


@dataclass(frozen=True, slots=True)
class Expr:
    """The text of an expression, and what is known of it. ``level``: its precedence; ``type``: its type in the
    language; ``known``: its value if it is a constant; ``reads``: the variables in it that may be assigned more than
    once; ``memory``: whether it reads global memory; ``step``: left operand, operator and right operand, as text;
    ``source``: the operand, if it is a conversion."""

    text: str
    level: int
    type: str
    known: Any = None
    reads: frozenset[str] = frozenset()
    memory: bool = False
    step: tuple[str, str, str] = ("", "", "")
    source: Expr | None = None

    def within(self, level: int) -> str:
        """The text as an operand, with parentheses if the place needs a higher precedence than it has."""
        return self.text if self.level >= level else f"({self.text})"

    def assigned(self, t: str) -> str:
        """The text of this expression for an assignment to a variable of type ``t``. A cast to ``t`` is left out, since
        the assignment converts. A cast to or from half is kept, because half is a class in the simulation of Metal."""
        half = "half" in (t, self.source and self.source.type)
        cast = self.level == PRIMARY and not half and self.text.startswith(f"{t}(")
        return self.text[len(t) + 1 : -1] if cast else self.text


def variable(text: str, t: str, assigned: bool = False) -> Expr:
    """Makes the expression that reads a variable. ``assigned`` says that the variable is assigned more than once."""
    return Expr(text, PRIMARY, t, reads=frozenset((text,)) if assigned else frozenset())


def made(text: str, level: int, t: str, *parts: Expr) -> Expr:
    """Makes an expression of the expressions ``parts``."""
    reads: frozenset[str] = frozenset()
    for p in parts:
        reads |= p.reads
    return Expr(text, level, t, None, reads, any(p.memory for p in parts))


def call(function: str, t: str, *args: Expr) -> Expr:
    return made(f"{function}({', '.join(a.text for a in args)})", PRIMARY, t, *args)


def binary(op: str, t: str, a: Expr, b: Expr) -> Expr:
    level = _OPERATORS[op]
    if level in _CHAINS:
        left, right = level, level + 1
    else:
        left = right = ADD if level in (LESS, EQUAL) else UNARY
    e = made(f"{a.within(left)} {op} {b.within(right)}", level, t, a, b)
    return replace(e, step=(a.text, op, b.text))


def assignment(name: str, e: Expr) -> str:
    """The line that assigns a value to a variable."""
    left, op, right = e.step
    return f"{name} {op}= {right};" if left == name and op in _IN_PLACE else f"{name} = {e.text};"


def digits(x: Any, suffix: str) -> str:
    """The literal of a float ``x`` of a numpy type."""
    if np.isfinite(x):
        text = str(x)
        return f"{text}{'' if '.' in text or 'e' in text else '.0'}{suffix}"
    return "NAN" if np.isnan(x) else "INFINITY" if x > 0 else "-INFINITY"


def prefix(op: str, t: str, a: Expr) -> Expr:
    return made(f"{op}{a.within(PRIMARY)}", UNARY, t, a)


def choose(cond: Expr, t: str, a: Expr, b: Expr) -> Expr:
    text = f"{cond.within(EITHER)} ? {a.within(EITHER)} : {b.within(CHOICE)}"
    return made(text, CHOICE, t, cond, a, b)


def extreme(sign: str, t: str, a: Expr, b: Expr) -> Expr:
    """The minimum of two integers where ``sign`` is <, the maximum where it is >."""
    return choose(binary(sign, "bool", a, b), t, a, b)
