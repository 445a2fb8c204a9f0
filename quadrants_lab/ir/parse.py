"""Reads the text form of the IR: the inverse of `text.print_kernel`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.sizeexpr import SizeExpr
from quadrants_lab.ir.sizetext import parse_size
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DTYPES, DType, u1
from quadrants_lab.ir.walk import walk


class ParseError(ValueError):
    """Text that is not IR; ``line`` is 1-based, ``col`` 0-based, and the message shows both with a caret."""

    def __init__(self, message: str, text: str, line: int, col: int) -> None:
        number = str(line)
        super().__init__(f"line {line}: {message}\n{number} | {text}\n{' ' * len(number)} | {' ' * col}^")
        self.message, self.line, self.col = message, line, col


def parse_kernel(text: str, file: str = "") -> N.Kernel:
    """The kernel that ``text`` shows; spans, where printed, get ``file``.

    Lines that are empty or begin with ``//`` are skipped. Statements whose id is not printed get the smallest
    unused ids; ``next %n`` in the header may be left out and is then the smallest that will do. The result is
    not verified. ParseError for anything that is not IR.
    """
    return _Parser(text, file).kernel()


_UNNAMED = -2  # id of a statement whose text carries none, until all ids are known

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<name>'[^']*')|(?P<id>%-?\d+)|(?P<stack>\$\d+)|(?P<stmt>\#\d+)
    |(?P<buffer>@[^\s\[\],:]+)|(?P<span>!\d+:\d+-\d+:\d+)|(?P<link>~%-?\d+)
    |(?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf)\b)|(?P<word>[^\W\d]\w*)
    |(?P<punct>->|\.\.|[{}()\[\],:=])|(?P<end>$))""",
    re.VERBOSE,
)
_DIMS = re.compile(r"\s*\[((?:\d+|\?)(?:x(?:\d+|\?))*)?\]")
_SCRATCH = re.compile(r"\s*((?:kept|work|marks)\b.*)$")
_FIRST = re.compile(r"\s*(-?\d+(?:,-?\d+)*)")
_KERNEL_NAME = re.compile(r"\s*([^\s(]+)")


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.lines = text.split("\n")
        self.file = file
        self.row = -1
        self.next_line()

    # --- tokens -------------------------------------------------------------------------------------------

    def next_line(self) -> None:
        """Goes to the next line that says something; past the last one `line` is empty."""
        self.row += 1
        while self.row < len(self.lines) and re.match(r"\s*(//|$)", self.lines[self.row]):
            self.row += 1
        self.line = self.lines[self.row] if self.row < len(self.lines) else ""
        self.pos = 0
        self.scan()

    def scan(self) -> None:
        m = _TOKEN.match(self.line, self.pos)
        if m is None:
            at = len(self.line) - len(self.line[self.pos :].lstrip())
            self.kind, self.tok, self.start = "", "", at
            raise self.error("cannot read this")
        self.kind = m.lastgroup or ""
        self.tok = m.group(self.kind)
        self.start, self.pos = m.start(self.kind), m.end()

    def error(self, message: str) -> ParseError:
        if self.row >= len(self.lines):
            return ParseError(f"{message}, found the end of the text", "", len(self.lines), 0)
        return ParseError(message, self.line, self.row + 1, self.start)

    def take(self, kind: str, what: str = "") -> str:
        """The current token, which must be of ``kind``; goes on to the next."""
        if self.kind != kind:
            raise self.error(f"expected {what or kind}")
        tok = self.tok
        self.scan()
        return tok

    def expect(self, *toks: str) -> None:
        for tok in toks:
            if self.tok != tok or self.kind == "text":
                raise self.error(f"expected '{tok}'")
            self.scan()

    def found(self, tok: str) -> bool:
        if self.tok != tok or self.kind not in ("punct", "word"):
            return False
        self.scan()
        return True

    def id(self) -> int:
        return int(self.take("id", "a value id")[1:])

    def stack(self) -> int:
        return int(self.take("stack", "an adstack id")[1:])

    def buffer(self) -> str:
        return self.take("buffer", "a buffer")[1:]

    def text(self) -> str:
        at = self.start
        tok = self.take("text", "a quoted text")
        try:
            return str(json.loads(tok))
        except ValueError as e:
            self.start = at
            raise self.error("not a well-formed text") from e

    def name(self) -> str:
        return self.take("name")[1:-1] if self.kind == "name" else ""

    def type(self) -> DType:
        if self.tok not in DTYPES:
            raise self.error("expected a dtype")
        return DTYPES[self.take("word")]

    def many(self, one: Callable[[], Any], close: str) -> tuple[Any, ...]:
        """Items separated by commas up to ``close``, which is taken too."""
        out: list[Any] = []
        while not self.found(close):
            if out:
                self.expect(",")
            out.append(one())
        return tuple(out)

    def ids(self) -> tuple[int, ...]:
        """Ids separated by commas, as far as they go."""
        out = [self.id()] if self.kind == "id" else []
        while out and self.found(","):
            out.append(self.id())
        return tuple(out)

    def at(self) -> tuple[str, tuple[int, ...]]:
        buffer = self.buffer()
        self.expect("[")
        return buffer, self.many(self.id, "]")

    def param(self) -> N.Param:
        ident = self.id()
        self.expect(":")
        return N.Param(ident, self.type(), self.name())

    def params(self) -> tuple[N.Param, ...]:
        self.expect("(")
        return self.many(self.param, ")")

    def carry(self) -> tuple[tuple[N.Param, ...], tuple[int, ...]]:
        def one() -> tuple[N.Param, int]:
            p = self.param()
            self.expect("=")
            return p, self.id()

        if not self.found("carry"):
            return (), ()
        self.expect("(")
        pairs = self.many(one, ")")
        return tuple(p for p, _ in pairs), tuple(i for _, i in pairs)

    def span(self) -> Span | None:
        if self.kind != "span":
            return None
        line, col, end_line, end_col = (int(n) for n in re.findall(r"\d+", self.take("span")))
        return Span(self.file, line, col, end_line, end_col)

    def tail(self, stmt: N.Stmt) -> N.Stmt:
        """What may follow a statement on its line: id, span, link."""
        if self.kind == "stmt":
            stmt.id = int(self.take("stmt")[1:])
        stmt.span = self.span()
        if self.kind == "link":
            stmt.adjoint_of = int(self.take("link")[2:])
        if self.kind != "end":
            raise self.error("unexpected text after the statement")
        return stmt

    # --- kernel -------------------------------------------------------------------------------------------

    def raw(self, pattern: re.Pattern[str], what: str) -> str:
        """The current token read again by ``pattern``."""
        m = pattern.match(self.line, self.start)
        if m is None:
            raise self.error(f"expected {what}")
        self.pos = m.end()
        self.scan()
        return m.group(1) or ""

    def kernel(self) -> N.Kernel:
        if self.tok != "kernel":
            raise self.error("expected 'kernel'")
        self.pos = self.start + len("kernel")
        m = _KERNEL_NAME.match(self.line, self.pos)
        if m is None:
            raise self.error("expected a kernel name")
        self.pos = m.end()
        self.scan()
        self.expect("(")
        args = self.many(self.arg, ")")
        mode = self.take("word", "a mode")
        next_id = self.id() if self.found("next") else -1
        self.expect("{")
        span = self.span()
        self.next_line()
        buffers: dict[str, N.Buffer] = {}
        while self.tok == "buffer" and self.kind == "word":
            b = self.buffer_line()
            buffers[b.name] = b
        body = self.block()
        self.expect("}")
        self.next_line()
        if self.row < len(self.lines):
            raise self.error("unexpected text after the kernel")
        next_id = _number(body, next_id)
        return N.Kernel(m.group(1), args, buffers, body, next_id, mode, span)

    def arg(self) -> N.Arg:
        name = self.arg_name()
        self.expect(":")
        return N.Arg(name, self.type())

    def arg_name(self) -> str:
        return self.name() or self.take("word", "an argument name")

    def buffer_line(self) -> N.Buffer:
        self.scan()
        name = self.buffer()
        self.expect(":")
        kind = self.take("word", "a buffer kind")
        dtype = self.type()
        dims = self.raw(_DIMS, "the shape in brackets")
        sizes = dims.split("x") if dims else []
        known = kind not in N.UNSHAPED and "?" not in sizes
        wide = self.found("wide")
        begins = self.raw(_FIRST, "the first index of each axis") if self.found("first") else ""
        first = tuple(int(n) for n in begins.split(",")) if begins else ()
        grad = self.buffer() if self.found("grad") else ""
        dual = self.buffer() if self.found("dual") else ""
        beside = self.buffer() if self.found("beside") else ""
        rest = self.raw(_SCRATCH, "what the scratch memory is for") if kind == "scratch" else ""
        role, _, extents = rest.partition(" ")
        if self.kind != "end":
            raise self.error("unexpected text after the buffer")
        self.next_line()
        shape = tuple(int(s) for s in sizes) if known else None
        return N.Buffer(
            name, kind, dtype, len(sizes), shape, grad, dual, first, wide, role, self.sizes(extents), beside
        )

    def sizes(self, text: str) -> tuple[SizeExpr, ...]:
        """Size expressions separated by semicolons."""
        try:
            return tuple(parse_size(part) for part in text.split(";") if part.strip())
        except ValueError as e:
            raise self.error(str(e)) from e

    # --- statements ---------------------------------------------------------------------------------------

    def block(self) -> N.Block:
        """Statements up to a line that begins with a closing brace."""
        out: list[N.Stmt] = []
        while self.tok != "}" or self.kind != "punct":
            out.append(self.stmt())
        return tuple(out)

    def stmt(self) -> N.Stmt:
        if self.kind == "id":
            ident = self.id()
            self.expect(":")
            type = self.type()
            name = self.name()
            self.expect("=")
            stmt = self.value(ident, type, name)
        elif self.tok in _OWNERS:
            return _OWNERS[self.take("word")](self)
        elif self.tok in _PLAIN:
            stmt = _PLAIN[self.take("word")](self)
        else:
            raise self.error("expected a statement" if self.kind != "end" else "expected '}'")
        stmt = self.tail(stmt)
        self.next_line()
        return stmt

    def value(self, ident: int, type: DType, name: str) -> N.Stmt:
        if self.tok in PRIMS:
            prim = self.take("word")
            return N.Op(ident, type, prim, self.ids(), name=name)
        if self.tok not in _VALUES or self.kind != "word":
            raise self.error("expected a primitive or another statement that defines a value")
        return _VALUES[self.take("word")](self, ident, type, name)

    def const(self, ident: int, type: DType, name: str) -> N.Stmt:
        tok = self.tok
        value: bool | int | float
        if type is u1 and tok in ("True", "False"):
            value = tok == "True"
        elif type.is_float and (self.kind == "number" or tok in ("nan", "inf")):
            value = float(type.numpy(tok))
        elif type.is_int and self.kind == "number" and re.fullmatch(r"-?\d+", tok):
            value = int(tok)
        else:
            raise self.error(f"expected a constant of {type}")
        self.scan()
        return N.Const(ident, type, value, name=name)

    def atomic(self, ident: int, type: DType, name: str) -> N.Stmt:
        op = self.take("word", "the atomic's operation")
        buffer, index = self.at()
        self.expect(",")
        value = self.id()
        expected = self.id() if self.found("expected") else N.NO_ID
        private = self.found("private")
        reach = int(self.take("number", "how far it reaches")) if self.found("reach") else -1
        sweep = int(self.take("number", "the number of its sweep")) if self.found("sweep") else 0
        return N.Atomic(
            ident, type, op, buffer, index, value, expected=expected, private=private, reach=reach, sweep=sweep,
            name=name,
        )  # fmt: skip

    def store(self) -> N.Stmt:
        buffer, index = self.at()
        self.expect(",")
        return N.Store(_UNNAMED, buffer, index, self.id())

    def assert_(self) -> N.Stmt:
        kind = self.take("word", "the assert's kind")
        cond = self.id()
        self.expect(",")
        message = self.text()
        self.expect("(")
        return N.Assert(_UNNAMED, cond, message, self.many(self.id, ")"), kind=kind)

    def print(self) -> N.Stmt:
        parts: list[str | int] = []
        specs: list[str] = []
        while self.kind in ("id", "text"):
            if self.kind == "id":
                parts.append(self.id())
                specs.append(self.text() if self.found(":") else "")
            else:
                parts.append(self.text())
            if not self.found(","):
                break
        return N.Print(_UNNAMED, tuple(parts), tuple(specs) if any(specs) else ())

    def alloca(self) -> N.Stmt:
        stmt = N.AdStackAlloca(self.stack(), u1)
        self.expect(":")
        stmt.type = self.type()
        stmt.name = self.name()
        self.expect("primal")
        stmt.primal = self.id()
        stmt.count_only = self.found("count_only")
        if self.tok == "size":
            # a size expression holds no quotes, so that the next ' reason "' ends it
            end = self.line.find(' reason "', self.pos)
            if end < 0:
                raise self.error("expected a reason after the size")
            (stmt.size,) = self.sizes(self.line[self.pos : end])
            self.pos = end
            self.scan()
        self.expect("reason")
        stmt.reason = self.text()
        return stmt

    def push(self) -> N.Stmt:
        return N.AdStackPush(_UNNAMED, *self.stack_and_value())

    def stack_and_value(self) -> tuple[int, int]:
        stack = self.stack()
        self.expect(",")
        return stack, self.id()

    # --- statements with blocks ---------------------------------------------------------------------------

    def open(self, stmt: N.Stmt) -> N.Block:
        """The rest of the head's line, ``{ #id``, and the first block."""
        self.expect("{")
        self.tail(stmt)
        self.next_line()
        return self.block()

    def next_block(self) -> N.Block:
        self.expect("{")
        if self.kind != "end":
            raise self.error("unexpected text after '{'")
        self.next_line()
        return self.block()

    def close(self) -> tuple[N.Param, ...]:
        """The line of the last closing brace, with the results if there are any."""
        self.expect("}")
        results = self.params() if self.found("->") else ()
        if self.kind != "end":
            raise self.error("unexpected text after '}'")
        self.next_line()
        return results

    def if_(self) -> N.Stmt:
        stmt = N.If(_UNNAMED, self.id(), (), (), ())
        stmt.then = self.open(stmt)
        self.expect("}", "else")
        stmt.orelse = self.next_block()
        stmt.results = self.close()
        return stmt

    def for_(self) -> N.Stmt:
        reverse, checkpoint = self.found("reversed"), self.found("checkpoint")
        index = self.param()
        self.expect("in")
        begin = self.id()
        self.expect("..")
        end = self.id()
        carried, inits = self.carry()
        stmt = N.For(_UNNAMED, index, begin, end, carried, inits, (), (), reverse=reverse, checkpoint=checkpoint)
        stmt.body = self.open(stmt)
        stmt.results = self.close()
        return stmt

    def while_(self) -> N.Stmt:
        checkpoint = self.found("checkpoint")
        carried, inits = self.carry()
        stmt = N.While(_UNNAMED, carried, inits, (), (), (), checkpoint=checkpoint)
        stmt.cond = self.open(stmt)
        self.expect("}", "do")
        stmt.body = self.next_block()
        stmt.results = self.close()
        return stmt

    def overflow(self) -> N.Stmt:
        stack = self.id()
        self.expect(",")
        return N.Overflow(_UNNAMED, stack, self.id())

    def guard(self) -> N.Stmt:
        stmt = N.AdStackGuard(_UNNAMED, ())
        stmt.body = self.open(stmt)
        if self.close():
            raise self.error("an adstack_guard has no results")
        return stmt

    def offload(self) -> N.Stmt:
        stmt = N.Offload(_UNNAMED, self.take("word", "the task's kind"), (), (), ())
        self.expect("bounds")
        stmt.bounds = self.open(stmt)
        self.expect("}", "do")
        stmt.indices = self.params()
        stmt.body = self.next_block()
        if self.close():
            raise self.error("an offload has no results")
        return stmt


_OWNERS: dict[str, Callable[[_Parser], N.Stmt]] = {
    "if": _Parser.if_,
    "for": _Parser.for_,
    "while": _Parser.while_,
    "adstack_guard": _Parser.guard,
    "offload": _Parser.offload,
}

_PLAIN: dict[str, Callable[[_Parser], N.Stmt]] = {
    "store": _Parser.store,
    "assert": _Parser.assert_,
    "print": _Parser.print,
    "adstack_alloca": _Parser.alloca,
    "adstack_push": _Parser.push,
    "adstack_pop": lambda p: N.AdStackPop(_UNNAMED, p.stack()),
    "adstack_acc_adjoint": lambda p: N.AdStackAccAdjoint(_UNNAMED, *p.stack_and_value()),
    "overflow": _Parser.overflow,
    "yield": lambda p: N.Yield(_UNNAMED, p.ids()),
    "break": lambda p: N.Break(_UNNAMED, p.ids()),
    "continue": lambda p: N.Continue(_UNNAMED, p.ids()),
}

_VALUES: dict[str, Callable[[_Parser, int, DType, str], N.Stmt]] = {
    "const": _Parser.const,
    "arg": lambda p, i, t, n: N.ArgLoad(i, t, p.arg_name(), name=n),
    "shape": lambda p, i, t, n: N.ShapeOf(i, t, p.buffer(), int(p.take("number", "an axis")), name=n),
    "random": lambda p, i, t, n: N.Random(i, t, int(p.take("number", "a call site")), name=n),
    "load": lambda p, i, t, n: N.Load(i, t, *p.at(), name=n),
    "atomic": _Parser.atomic,
    "adstack_load_top": lambda p, i, t, n: N.AdStackLoadTop(i, t, p.stack(), name=n),
    "adstack_load_top_adj": lambda p, i, t, n: N.AdStackLoadTopAdj(i, t, p.stack(), name=n),
    "lane": lambda p, i, t, n: N.Lane(i, t, name=n),
    "adstack_depth": lambda p, i, t, n: N.AdStackDepth(i, t, p.stack(), name=n),
}


def _number(body: N.Block, next_id: int) -> int:
    """Gives the statements without an id the smallest unused ones; the next_id that was read, or the least that is
    larger than all ids where none was read or it leaves no room for these."""
    used: set[int] = set()
    unnamed: list[N.Stmt] = []
    for s in walk(body):
        if s.id == _UNNAMED:
            unnamed.append(s)
        else:
            used.add(s.id)
        used.update(i for i, _ in s.defs())
        used.update(p.id for p in s.params())
    fresh = -1
    for s in unnamed:
        fresh += 1
        while fresh in used:
            fresh += 1
        s.id = fresh
    return max(next_id, fresh + 1) if next_id >= 0 else max(*used, fresh, -1, -1) + 1
