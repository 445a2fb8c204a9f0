"""The text form of SizeExpr, and its parser."""

from __future__ import annotations

import re

from quadrants_lab.ir import sizeexpr as S

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_TIGHT = {"add": 1, "sub": 1, "mul": 2, "floordiv": 2, "mod": 2}


def print_size(e: S.SizeExpr, outer: int = 0) -> str:
    """One line, e.g. ``sum(j%7 in 0..@n[]: 1 + j%7)``."""
    match e:
        case S.SizeConst(value):
            return str(value) if value >= 0 else f"({value})"
        case S.SizeArg(arg):
            return f"arg {arg}"
        case S.SizeShape(buffer, axis):
            return f"@{buffer}.shape[{axis}]"
        case S.SizeLoad(buffer, index):
            return f"@{buffer}[{', '.join(print_size(i) for i in index)}]"
        case S.SizeVar(id, name):
            return f"{name}%{id}"
        case S.SizeCounted(stack):
            return f"counted ${stack}"
        case S.SizeOp(op, a, b) if op in _INFIX:
            tight = _TIGHT[op]
            text = f"{print_size(a, tight)} {_INFIX[op]} {print_size(b, tight + 1)}"
            return f"({text})" if tight < outer else text
        case S.SizeOp(op, a, b):
            return f"{op}({print_size(a)}, {print_size(b)})"
        case S.SizeRange(op, var, begin, end, body):
            return f"{op}({print_size(var)} in {print_size(begin)}..{print_size(end)}: {print_size(body)})"
    raise TypeError(f"not a SizeExpr: {e!r}")


_TOKEN = re.compile(
    r"""\s*(\.\.|//|@[\w.]+?(?=\.shape\[|[\[\s])|\.shape|(?<=arg\ )[^\W\d]\w*(?:\.\w+|\[\d+\])*
    |[A-Za-z_][\w.]*(?:\[[\d,]+\][\w.]*)*%\d+|%\d+|\$\d+|\w+|[-+*%(),:\[\]])""",
    re.VERBOSE,
)


def parse_size(text: str) -> S.SizeExpr:
    """Reads what `print_size` wrote; ValueError with the position otherwise."""
    tokens: list[str] = []
    pos = 0
    text = text.strip()
    while pos < len(text):
        m = _TOKEN.match(text, pos)
        if m is None:
            raise ValueError(f"cannot read a size expression at {text[pos:pos + 20]!r}")
        tokens.append(m.group(1))
        pos = m.end()
    reader = _Reader(tokens)
    e = reader.sum()
    if reader.at < len(tokens):
        raise ValueError(f"unexpected {tokens[reader.at]!r} in a size expression")
    return e


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, want: str = "") -> str:
        tok = self.peek()
        if not tok or (want and tok != want):
            raise ValueError(f"expected {want or 'more'!r}, found {tok!r} in a size expression")
        self.at += 1
        return tok

    def sum(self) -> S.SizeExpr:
        return self.infix(("add", "sub"), self.product)

    def product(self) -> S.SizeExpr:
        return self.infix(("mul", "floordiv", "mod"), self.atom)

    def infix(self, ops: tuple[str, ...], inner) -> S.SizeExpr:  # type: ignore[no-untyped-def]  # a bound method
        signs = {_INFIX[o]: o for o in ops}
        e: S.SizeExpr = inner()
        while self.peek() in signs:
            e = S.SizeOp(signs[self.take()], e, inner())
        return e

    def var(self) -> S.SizeVar:
        name, _, ident = self.take().rpartition("%")
        return S.SizeVar(int(ident), name)

    def atom(self) -> S.SizeExpr:
        tok = self.peek()
        if tok == "(":
            self.take()
            e = self.sum()
            self.take(")")
            return e
        if tok == "-":
            self.take()
            return S.SizeConst(-int(self.take()))
        if tok.isdigit():
            return S.SizeConst(int(self.take()))
        if "%" in tok:
            return self.var()
        if tok.startswith("@"):
            buffer = self.take()[1:]
            if self.peek() == ".shape":
                self.take()
                self.take("[")
                axis = int(self.take())
                self.take("]")
                return S.SizeShape(buffer, axis)
            self.take("[")
            index: list[S.SizeExpr] = []
            while self.peek() != "]":
                index.append(self.sum())
                if self.peek() == ",":
                    self.take()
            self.take("]")
            return S.SizeLoad(buffer, tuple(index))
        word = self.take()
        if word == "arg":
            return S.SizeArg(self.take())
        if word == "counted":
            return S.SizeCounted(int(self.take()[1:]))
        self.take("(")
        if word in ("sum", "max") and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] == "in":
            var = self.var()
            self.take("in")
            begin = self.sum()
            self.take("..")
            end = self.sum()
            self.take(":")
            body = self.sum()
            self.take(")")
            return S.SizeRange(word, var, begin, end, body)
        a = self.sum()
        self.take(",")
        b = self.sum()
        self.take(")")
        return S.SizeOp(word, a, b)
