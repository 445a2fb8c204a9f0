"""Reads the text form of the IR: the inverse of `text.print_kernel`."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.text import Piece, form_of
from quadrants_lab.ir.types import DTYPES, DType, u1
from quadrants_lab.ir.walk import walk


class ParseError(ValueError):
    """Text that is not IR. ``line`` is 1-based, ``col`` 0-based; the message shows the place with a caret."""

    def __init__(self, message: str, text: str, line: int, col: int) -> None:
        number = str(line)
        super().__init__(f"line {line}: {message}\n{number} | {text}\n{' ' * len(number)} | {' ' * col}^")
        self.message, self.line, self.col = message, line, col


def parse_kernel(text: str, file: str = "", locate: bool = False) -> N.Kernel:
    """Reads a kernel. ``file`` is the file of the spans in the text; with ``locate`` spans are the places of the
    statements in the text itself.

    Lines that are empty or begin with ``//`` are skipped. Statements without an id get the smallest unused ids. ``next
    %n`` in the header may be left out, and is then as small as possible. The result is not verified. Raises ParseError.
    """
    return _Parser(text, file, locate).kernel()


def parse_size(text: str) -> S.SizeExpr:
    """Reads a text of `sizeexpr.print_size`; ValueError with the place if the text is wrong."""
    try:
        p = _Parser(text, "", False)
        e = p.size()
        p.end("it")
    except ValueError as error:
        raise ValueError(f"this is no size expression: {error}") from error
    return e


_UNNAMED = -2  # the id of a statement that has none in the text, until all ids are known

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<name>'[^']*')|(?P<id>%-?\d+)|(?P<stack>\$\d+)|(?P<stmt>\#\d+)
    |(?P<buffer>@[^\s\[\],:]+)|(?P<span>!\d+:\d+-\d+:\d+)|(?P<link>~%-?\d+)
    |(?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf)\b)|(?P<word>[^\W\d]\w*)
    |(?P<punct>->|\.\.|//|[{}()\[\],:;=+*%-])|(?P<end>$))""",
    re.VERBOSE,
)
_DIMS = re.compile(r"\s*\[((?:\d+|\?)(?:x(?:\d+|\?))*)?\]")
_ARG = re.compile(r"\s*([^\W\d]\w*(?:\.\w+|\[\d+\])*)")  # an argument, or a part of one: s.a, m[0]
_ORDER = re.compile(r"\s*(\d+:\d+(?:,-?\d+:\d+)*)")
_FIRST = re.compile(r"\s*(-?\d+(?:,-?\d+)*)")
_KERNEL_NAME = re.compile(r"\s*([^\s(]+)")


class _Parser:
    def __init__(self, text: str, file: str, locate: bool) -> None:
        self.lines = text.split("\n")
        self.file, self.locate = file, locate
        self.row = -1
        self.next_line()

    # --- tokens -------------------------------------------------------------------------------------------

    def next_line(self) -> None:
        """Goes to the next line that is no comment and not empty. Behind the last one ``line`` is empty."""
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
        """Returns the current token, which must be of ``kind``, and advances."""
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
        """Reads items with commas between, and the token ``close``."""
        out: list[Any] = []
        while not self.found(close):
            if out:
                self.expect(",")
            out.append(one())
        return tuple(out)

    def several(self, one: Callable[[], Any], begin: str = "id") -> tuple[Any, ...]:
        """Reads items that begin with an id or another kind of token, with commas between."""
        out = [one()] if self.kind == begin else []
        while out and self.found(","):
            out.append(one())
        return tuple(out)

    def param(self) -> N.Param:
        ident = self.id()
        self.expect(":")
        return N.Param(ident, self.type(), self.name())

    def results(self) -> tuple[N.Param, ...]:
        if not self.found("->"):
            return ()
        self.expect("(")
        return self.many(self.param, ")")

    def carry(self) -> tuple[tuple[N.Param, ...], tuple[int, ...]]:
        if not self.found("carry"):
            return (), ()
        self.expect("(")
        pairs = self.many(lambda: (self.param(), self.init()), ")")
        return tuple(p for p, _ in pairs), tuple(i for _, i in pairs)

    def init(self) -> int:
        self.expect("=")
        return self.id()

    def span(self) -> Span | None:
        if self.kind != "span":
            return None
        line, col, end_line, end_col = (int(n) for n in re.findall(r"\d+", self.take("span")))
        return Span(self.file, line, col, end_line, end_col)

    def tail(self) -> dict[str, Any]:
        """Reads what may follow a statement on its line: id, span, link."""
        found: dict[str, Any] = {}
        if self.kind == "stmt":
            found["id"] = int(self.take("stmt")[1:])
        found["span"] = self.span()
        if self.locate:
            col = len(self.line) - len(self.line.lstrip())
            found["span"] = Span(self.file, self.row + 1, col, self.row + 1, len(self.line))
        if self.kind == "link":
            found["adjoint_of"] = int(self.take("link")[2:])
        self.end("the statement")
        return found

    def end(self, what: str) -> None:
        if self.kind != "end":
            raise self.error(f"unexpected text after {what}")

    # --- kernel -------------------------------------------------------------------------------------------

    def raw(self, pattern: re.Pattern[str], what: str) -> str:
        """Reads the current token again, by ``pattern``."""
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
        aliased = self.found("aliased")
        next_id = self.id() if self.found("next") else -1
        self.expect("{")
        span = self.span()
        self.next_line()
        buffers: dict[str, N.Buffer] = {}
        while self.tok == "buffer" and self.kind == "word":
            b = self.buffer_line()
            buffers[b.name] = b
        functions: dict[str, N.Function] = {}
        while self.tok == "function" and self.kind == "word":
            f = self.function()
            functions[f.name] = f
        body = self.block()
        self.expect("}")
        self.next_line()
        if self.row < len(self.lines):
            raise self.error("unexpected text after the kernel")
        next_id = _number(body, next_id)
        return N.Kernel(m.group(1), args, buffers, body, next_id, mode, span, functions, aliased)

    def function(self) -> N.Function:
        self.scan()
        name = self.buffer()
        self.expect("(")
        params = self.many(self.param, ")")
        self.expect("->")
        type = self.type()
        self.expect("{")
        self.next_line()
        body = self.block()
        self.expect("}")
        self.next_line()
        _number(body, -1)
        return N.Function(name, params, type, body)

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
        known = kind not in (*N.UNSHAPED, "ndarray") and "?" not in sizes
        element = tuple(int(n) for n in sizes if n != "?") if kind == "ndarray" else ()
        wide = self.found("wide")
        begins = self.raw(_FIRST, "the first index of each axis") if self.found("first") else ""
        first = tuple(int(n) for n in begins.split(",")) if begins else ()
        levels = self.raw(_ORDER, "the order of the cells") if self.found("order") else ""
        order = tuple((int(axis), int(n)) for axis, _, n in (level.partition(":") for level in levels.split(",")) if n)
        grad = self.buffer() if self.found("grad") else ""
        dual = self.buffer() if self.found("dual") else ""
        beside = self.buffer() if self.found("beside") else ""
        of = self.buffer() if self.found("of") else ""
        role = self.take("word") if self.tok in _ROLES else ""
        extents = [self.size()] if role and self.kind != "end" else []
        while extents and self.found(";"):
            extents.append(self.size())
        self.end("the buffer")
        self.next_line()
        shape = tuple(int(s) for s in sizes) if known else None
        return N.Buffer(
            name, kind, dtype, len(sizes), shape, grad, dual, first, wide, role, tuple(extents), beside, of, element,
            order,
        )  # fmt: skip

    # --- statements ---------------------------------------------------------------------------------------

    def block(self) -> N.Block:
        """Reads statements up to a line that begins with a closing brace."""
        out: list[N.Stmt] = []
        while self.tok != "}" or self.kind != "punct":
            out.append(self.stmt())
        return tuple(out)

    def stmt(self) -> N.Stmt:
        given: dict[str, Any] = {"id": _UNNAMED}
        if self.kind == "id":
            given["id"] = self.id()
            self.expect(":")
            given["type"], given["name"] = self.type(), self.name()
            self.expect("=")
            if self.tok in PRIMS:
                return self.filled(N.Op, form_of(N.Op), given)
        forms = _VALUES if "type" in given else _PLAIN
        if self.tok not in forms or self.kind != "word":
            what = "a primitive or another statement that defines a value" if "type" in given else "a statement"
            raise self.error("expected '}'" if self.kind == "end" else f"expected {what}")
        cls = forms[self.take("word")]
        word, *rest = form_of(cls)
        assert isinstance(word, str)
        return self.filled(cls, (word.partition(" ")[2], *rest), given)

    def filled(self, cls: Callable[..., N.Stmt], form: Iterable[str | Piece], given: dict[str, Any]) -> N.Stmt:
        """Reads the rest of the text of a statement of the class ``cls``, which is written as ``form`` says."""
        tail: dict[str, Any] = {}
        for piece in form:
            if isinstance(piece, str):
                self.expect(*_WORDS.findall(piece))
            elif piece.kind == "Block":
                self.expect("{")
                if tail:
                    self.end("'{'")
                tail = tail or self.tail()
                self.next_line()
                given[piece.fields[0]] = self.block()
                self.expect("}")
            elif len(piece.fields) > 1:
                given |= zip(piece.fields, _READ[piece.kind](self), strict=True)
            elif piece.kind == "Number":
                given["value"] = self.number(given["type"])
            elif not piece.word or self.found(piece.word):
                given[piece.fields[0]] = _READ[piece.kind](self)
            else:
                given[piece.fields[0]] = piece.default
        if tail:
            self.end("'}'")
        stmt = cls(**(given | (tail or self.tail())))
        self.next_line()
        return stmt

    def number(self, type: DType) -> bool | int | float:
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
        return value

    def pieces(self) -> tuple[tuple[str | int, ...], tuple[str, ...]]:
        """Reads the parts of a print; returns them and the format specifications of its values."""
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
        return tuple(parts), tuple(specs) if any(specs) else ()

    def range(self) -> tuple[int, int]:
        low = int(self.take("number", "a bound"))
        self.expect("..")
        return low, int(self.take("number", "a bound"))

    # --- sizes of adstacks --------------------------------------------------------------------------------

    def size(self, level: int = 0) -> S.SizeExpr:
        """Reads a sum (level 0), a product (level 1), or an operand of these."""
        if level == len(_INFIX):
            return self.part()
        e = self.size(level + 1)
        while self.kind == "punct" and self.tok in _INFIX[level]:
            e = S.SizeOp(_INFIX[level][self.take("punct")], e, self.size(level + 1))
        return e

    def part(self) -> S.SizeExpr:
        if self.kind == "number":
            return S.SizeConst(int(self.take("number")))
        if self.kind == "buffer":
            name = self.buffer()
            self.expect("[")
            if not name.endswith(".shape"):
                return S.SizeLoad(name, self.many(self.size, "]"))
            (axis,) = self.many(lambda: int(self.take("number", "an axis")), "]")
            return S.SizeShape(name.removesuffix(".shape"), axis)
        word = self.take("word") if self.kind == "word" else ""
        if self.kind == "id":
            return S.SizeVar(self.id(), word)
        if word == "arg":
            return S.SizeArg(self.raw(_ARG, "an argument name"))
        if word == "counted":
            return S.SizeCounted(self.stack())
        self.expect("(")
        a = self.size()
        if isinstance(a, S.SizeVar) and self.found("in"):
            begin = self.size()
            self.expect("..")
            end = self.size()
            self.expect(":")
            a = S.SizeRange(word, a, begin, end, self.size())
        elif word:
            self.expect(",")
            a = S.SizeOp(word, a, self.size())
        self.expect(")")
        return a


_INFIX = ({"+": "add", "-": "sub"}, {"*": "mul", "//": "floordiv", "%": "mod"})
_ROLES = ("kept", "work", "marks", "block", "flags", "share", "far", "activity", "prints")  # roles of buffers
_WORDS = re.compile(r"->|\.\.|\w+|[^\w\s]")
_PLAIN: dict[str, type[N.Stmt]] = {}
_VALUES: dict[str, type[N.Stmt]] = {}
for _cls in N.STATEMENTS:
    _word, *_ = form_of(_cls)
    if isinstance(_word, str):
        (_VALUES if issubclass(_cls, N.Value) else _PLAIN)[_word.split(" ")[0].split("{")[0]] = _cls

# kind of a field -> what reads it
_READ: dict[str, Callable[[_Parser], Any]] = {
    "Id": _Parser.id,
    "MaybeId": _Parser.id,
    "PrimalId": _Parser.id,
    "Ids": lambda p: p.several(p.id),
    "StackId": _Parser.stack,
    "BufferName": _Parser.buffer,
    "BufferNames": lambda p: p.several(p.buffer, "buffer"),
    "Reduced": lambda p: p.several(lambda: (p.buffer(), p.take("word", "an operation")), "buffer"),
    "ArgName": _Parser.arg_name,
    "Word": lambda p: p.take("word"),
    "Text": _Parser.text,
    "Pieces": _Parser.pieces,
    "DType": _Parser.type,
    "bool": lambda p: True,
    "int": lambda p: int(p.take("number")),
    "str": _Parser.name,
    "SizeExpr | None": _Parser.size,
    "Shape": lambda p: p.several(lambda: int(p.take("number", "an extent")), "number"),
    "Range | None": _Parser.range,
    "Param": _Parser.param,
    "Params": lambda p: p.several(p.param),
    "Results": _Parser.results,
    "Carry": _Parser.carry,
}


def _number(body: N.Block, next_id: int) -> int:
    """Gives the statements without an id the smallest unused ones. Returns ``next_id``, or a larger one where that is
    needed or ``next_id`` is -1."""
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
