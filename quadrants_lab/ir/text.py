"""Prints the text form of the IR. `parse.parse_kernel` reads it back to the same IR.

With spans and links, parsing restores everything but the call chains of spans. Without links the ids of statements that
define no value (stores, yields, ...) are left out, and the parser gives these statements unused ids.

Printer and parser both read the form of each class of statements. In a form, ``{field}`` stands for a field. The
field's annotation, or a kind after a colon, says how the field is shown. ``{a+b:Kind}`` stands for two fields that are
shown together. ``{field?}`` is empty if the field has its default; otherwise it is a space, the field's name, and its
value (a true `bool` has no value). ``{field?word}`` shows another word instead of the name."""

import re
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import print_size

_PIECE = re.compile(r"\{([\w+]+)(?:(\?)(\w*))?(?::(\w+))?\}")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a statement's text: the fields that the part shows, and their kind (how a value is printed). If the
    text may leave the part out, ``word`` stands in front of it, and ``default`` is the value when it is left out."""

    fields: tuple[str, ...]
    kind: str
    word: str = ""
    default: Any = None


def _pieces(cls: type[N.Stmt]) -> tuple[str | Piece, ...]:
    """The form as a sequence of literal texts and pieces."""
    known = {f.name: f for f in fields(cls)}
    parts = _PIECE.split(cls.form)
    out: list[str | Piece] = [parts[0]]
    for name, optional, word, kind, text in zip(*(parts[n::5] for n in range(1, 6)), strict=True):
        kind = kind or str(known[name].type)
        default = known[name].default if optional else None
        out += [Piece(tuple(name.split("+")), kind, (word or name) if optional else "", default), text]
    return tuple(p for p in out if p != "")


_forms: dict[type[N.Stmt], tuple[str | Piece, ...]] = {}  # a cache, which `form_of` fills


def form_of(cls: type[N.Stmt]) -> tuple[str | Piece, ...]:
    """The form of a class of statements as a sequence of literal texts and pieces."""
    if cls not in _forms:
        _forms[cls] = _pieces(cls)
    return _forms[cls]


Line = tuple[str, N.Stmt | None]  # the text and its statement, None for braces, header and functions


def print_kernel(kernel: N.Kernel, spans: bool = False, links: bool = False) -> str:
    """The kernel as text. With ``spans`` each statement ends in ``!line:col-line:col``. With ``links`` a statement that
    defines no value ends in its id ``#id``, and the adjoint of a statement ends in a link ``~%id`` to it."""
    return "\n".join([text for text, _ in statement_lines(kernel, spans, links)]) + "\n"


def print_stmt(stmt: N.Stmt) -> str:
    """Prints one statement with its blocks, as in the kernel's text."""
    out: list[Line] = []
    _stmt(stmt, "", out, False, False)
    return "\n".join([text for text, _ in out])


def statement_lines(kernel: N.Kernel, spans: bool = False, links: bool = False) -> list[Line]:
    """The kernel's text line by line."""
    args = ", ".join(f"{arg_name(a.name)}: {a.type}" for a in kernel.args)
    span = f"  !{kernel.span}" if spans and kernel.span is not None else ""
    header = f"kernel {kernel.name}({args}) {kernel.mode}{' aliased' * kernel.aliased} next %{kernel.next_id} {{{span}"
    out: list[Line] = [(header, None), *((f"  {_buffer(b)}", None) for b in kernel.buffers.values())]
    for f in kernel.functions.values():
        inner: list[Line] = [(f"  function @{f.name} ({', '.join(map(_param, f.params))}) -> {f.type} {{", None)]
        for stmt in f.body:
            _stmt(stmt, "    ", inner, spans, links)
        out += [(text, None) for text, _ in (*inner, ("  }", None))]
    for stmt in kernel.body:
        _stmt(stmt, "  ", out, spans, links)
    return [*out, ("}", None)]


def _buffer(b: N.Buffer) -> str:
    extents = map(b.known_extent, range(b.ndim))
    dims = "x".join("?" if n is None else str(n) for n in extents)
    grad = f" grad @{b.grad}" if b.grad else ""
    dual = f" dual @{b.dual}" if b.dual else ""
    first = f" first {','.join(map(str, b.first))}" if b.first else ""
    role = f" {b.role} {'; '.join(print_size(e) for e in b.extents)}".rstrip() if b.role else ""
    wide = " wide" if b.wide else ""
    beside = f" beside @{b.beside}" if b.beside else ""
    of = f" of @{b.of}" if b.of else ""
    order = f" order {','.join(f'{axis}:{n}' for axis, n in b.order)}" if b.order else ""
    return f"buffer @{b.name}: {b.kind} {b.dtype}[{dims}]{wide}{first}{order}{grad}{dual}{beside}{of}{role}"


def arg_name(name: str) -> str:
    """The name of an argument, in quotes if it is a part of one (``m[0]``, ``s.a``)."""
    return name if name.isidentifier() else f"'{name}'"


def _param(p: N.Param) -> str:
    return f"%{p.id}: {p.type}" + (f" '{p.name}'" if p.name else "")


def _quote(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _piece(part: str | int, spec: str) -> str:
    if isinstance(part, str):
        return _quote(part)
    return f"%{part}: {_quote(spec)}" if spec else f"%{part}"


def _number(s: N.Const, value: Any) -> str:
    # the shortest text that the float's own dtype reads back
    return str(s.type.numpy(value)) if s.type.is_float else repr(value)


def _carry(_: N.Stmt, carried: tuple[N.Param, ...], inits: tuple[int, ...]) -> str:
    pairs = ", ".join(f"{_param(p)} = %{i}" for p, i in zip(carried, inits, strict=True))
    return f" carry ({pairs})" if pairs else ""


# kind of a field -> what prints it, given the statement and the value
SHOW: dict[str, Callable[..., str]] = {
    "Id": lambda s, v: f"%{v}",
    "MaybeId": lambda s, v: f"%{v}",
    "PrimalId": lambda s, v: f"%{v}",
    "Ids": lambda s, v: ", ".join([f"%{i}" for i in v]),
    "StackId": lambda s, v: f"${v}",
    "BufferName": lambda s, v: f"@{v}",
    "BufferNames": lambda s, v: ", ".join([f"@{b}" for b in v]),
    "Reduced": lambda s, v: ", ".join([f"@{b} {op}" for b, op in v]),
    "ArgName": lambda s, v: arg_name(v),
    "Word": lambda s, v: v,
    "Text": lambda s, v: _quote(v),
    "Number": _number,
    "Pieces": lambda s, parts, specs: ", ".join(_piece(p, spec) for p, spec in s.pieces()),
    "DType": lambda s, v: str(v),
    "bool": lambda s, v: "",
    "int": lambda s, v: str(v),
    "str": lambda s, v: f" '{v}'" if v else "",
    "SizeExpr | None": lambda s, v: print_size(v),
    "Shape": lambda s, v: ", ".join(map(str, v)),
    "Range | None": lambda s, v: f"{v[0]}..{v[1]}",
    "Param": lambda s, v: _param(v),
    "Params": lambda s, v: ", ".join(map(_param, v)),
    "Results": lambda s, v: f" -> ({', '.join(map(_param, v))})" if v else "",
    "Carry": _carry,
}


def _printer(piece: Piece) -> Callable[[N.Stmt], str]:
    """The function that prints this piece of a statement."""
    show, get = SHOW[piece.kind], attrgetter(*piece.fields)
    if piece.word:
        return lambda s: "" if get(s) == piece.default else f" {piece.word} {show(s, get(s))}".rstrip()
    if len(piece.fields) > 1:
        return lambda s: show(s, *get(s))
    return lambda s: show(s, get(s))


# a cache, by class of statement: the parts of its form, each a text, the function that prints a piece, or None for a
# block
_printers: dict[type[N.Stmt], tuple[str | Callable[[N.Stmt], str] | None, ...]] = {}


def _parts(cls: type[N.Stmt]) -> tuple[str | Callable[[N.Stmt], str] | None, ...]:
    if cls not in _printers:
        parts = (p if isinstance(p, str) else None if p.kind == "Block" else _printer(p) for p in form_of(cls))
        _printers[cls] = tuple(parts)
    return _printers[cls]


def _stmt(s: N.Stmt, pad: str, out: list[Line], spans: bool, links: bool) -> None:
    tail = f"  !{s.span}" if spans and s.span is not None else ""
    if links and s.adjoint_of != N.NO_ID:
        tail += f"  ~%{s.adjoint_of}"
    blocks = iter(s.blocks())
    text, first = "", True
    if isinstance(s, N.Value):
        text = f"%{s.id}: {s.type}" + (f" '{s.name}'" if s.name else "") + " = "
    for part in _parts(type(s)):
        if part is not None:
            text += part if isinstance(part, str) else part(s)
            continue
        out.append((pad + text + "{" + (f" #{s.id}{tail}" if first else ""), s if first else None))
        for inner in next(blocks):
            _stmt(inner, pad + "  ", out, spans, links)
        text, first = "}", False
    if not first:
        out.append((pad + text, s if text != "}" else None))
        return
    ident = f" #{s.id}" if links and not isinstance(s, (N.Value, N.AdStackAlloca)) else ""
    out.append((f"{pad}{text.rstrip()}{ident}{tail}", s))
