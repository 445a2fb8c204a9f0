"""Texts with values in them: what `print` shows, and the message of an assert."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from quadrants_lab.frontend.syntax.unroll import unpacked
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import locate
from quadrants_lab.frontend.values.values import Lit, Matrix, Num, Obj, Struct, Value
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """A value in a text, and its format specification."""

    id: int
    spec: str = ""


Part = str | Slot


def lower_print(cx: Context, call: ast.Call, *args: Value) -> Value:
    """``print(...)`` with ``sep`` and ``end``; it takes its arguments apart itself."""
    ends = {"sep": " ", "end": "\n"}
    for k in call.keywords:
        value = cx.expr(k.value)
        if k.arg not in ends or not isinstance(value, Obj) or not isinstance(value.value, (str, type(None))):
            raise cx.fail("QL1611", k.value, name=k.arg or "**")
        if value.value is not None:
            ends[k.arg] = value.value
    parts: list[Part] = []
    pieces = [p for node in call.args for p in _arguments(cx, node)]
    for n, piece in enumerate(pieces):
        parts += [ends["sep"]] * (n > 0) + piece
    parts = _joined([*parts, ends["end"]])
    slots = [p.spec for p in parts if isinstance(p, Slot)]
    cx.at(call)
    shown = tuple(p.id if isinstance(p, Slot) else p for p in parts)
    cx.b.add(N.Print(cx.b.fresh(), shown, tuple(slots) if any(slots) else ()))
    return Obj(None)


def _arguments(cx: Context, node: ast.expr) -> list[list[Part]]:
    """What an argument prints; for ``*x`` one list for each entry of x."""
    if not isinstance(node, ast.Starred):
        return [text_parts(cx, node)]
    return [_shown(cx, v, node.value, "") for v in unpacked(cx, cx.expr(node.value), node.value)]


def message(parts: Iterable[Part]) -> tuple[str, tuple[int, ...]]:
    """The parts as the message of an assert and the values that fill it."""
    text, ids = "", []
    for p in parts:
        if isinstance(p, Slot):
            text += f"{{:{p.spec}}}" if p.spec else "{}"
            ids.append(p.id)
        else:
            text += p.replace("{", "{{").replace("}", "}}")
    return text, tuple(ids)


def text_parts(cx: Context, node: ast.expr) -> list[Part]:
    """What an expression prints; an f-string and ``"...".format(...)`` are taken apart."""
    if isinstance(node, ast.JoinedStr):
        return [p for part in node.values for p in _field(cx, part)]
    if isinstance(node, ast.Call) and (text := _template(cx, node)) is not None:
        return _formatted(cx, node, text)
    return _shown(cx, cx.expr(node), node, "")


def _field(cx: Context, node: ast.expr) -> list[Part]:
    """A piece of an f-string: text, or a value with a specification; !s, !r and !a show the same."""
    if not isinstance(node, ast.FormattedValue):
        return text_parts(cx, node)
    return _shown(cx, cx.expr(node.value), node.value, _specification(cx, node.format_spec))


def _specification(cx: Context, node: ast.expr | None) -> str:
    """The text after the colon; what is computed in it must be known at compile time."""
    out = ""
    for part in node.values if isinstance(node, ast.JoinedStr) else []:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        out += str(cx.known(cx.expr(inner), "QL1610", inner, op="a format specification"))
    return out


def _template(cx: Context, node: ast.Call) -> str | None:
    """The text of ``text.format(...)``, where that is known at compile time."""
    fn = node.func
    if not isinstance(fn, ast.Attribute) or fn.attr != "format":
        return None
    if isinstance(fn.value, (ast.Name, ast.Attribute)):
        text = locate(cx, fn.value)
        return text.value if isinstance(text, Obj) and isinstance(text.value, str) else None
    return fn.value.value if isinstance(fn.value, ast.Constant) and isinstance(fn.value.value, str) else None


def _formatted(cx: Context, call: ast.Call, text: str) -> list[Part]:
    from string import Formatter

    named: dict[str, ast.expr] = {str(k): a for k, a in enumerate(call.args)}
    named.update({k.arg: k.value for k in call.keywords if k.arg is not None})
    try:
        fields = list(Formatter().parse(text))
    except ValueError as e:
        raise cx.fail("QL1206", call, spec=text, what=str(e)) from None
    out: list[Part] = []
    count = 0
    for plain, name, spec, _ in fields:
        out.append(plain)
        if name is None:
            continue
        node = named.get(name or str(count))
        if node is None:
            raise cx.fail("QL1206", call, spec=name or str(count), what="there is no such argument")
        count += 1
        out += _shown(cx, cx.expr(node), node, spec or "")
    return out


def _shown(cx: Context, value: Value, node: ast.expr, spec: str) -> list[Part]:
    """A value as text and slots: a vector ``[a, b]``, a matrix ``[[a, b], [c, d]]``, a tuple ``(a, b)``, a struct
    ``{a: 1, b: 2}``; the specification is that of each number."""
    if isinstance(value, Obj) and (value.value is None or isinstance(value.value, str)):
        try:
            return [format(str(value.value), spec)]
        except ValueError as e:
            raise cx.fail("QL1206", node, spec=spec, what=str(e)) from None
    if isinstance(value, tuple):
        return _row(cx, value, node, spec, "()")
    if isinstance(value, Matrix):
        if len(value.shape) == 1:
            return _row(cx, value.elements, node, spec, "[]")
        width = value.shape[1]
        rows = [Matrix((width,), value.elements[k : k + width]) for k in range(0, len(value.elements), width)]
        return _row(cx, rows, node, spec, "[]")
    if isinstance(value, Struct):
        inner: list[Part] = []
        for k, (name, member) in enumerate(value.members.items()):
            inner += [", " * (k > 0) + f"{name}: ", *_shown(cx, member, node, spec)]
        return ["{", *inner, "}"]
    number = cx.number(value, node)
    if cx.static and isinstance(number, Lit):
        return [format(number.value, spec)]
    cx.at(node)
    shown = cx.num(number)
    _check(cx, shown, spec, node)
    return [Slot(shown.id, spec)]


def _row(cx: Context, values: Iterable[Value], node: ast.expr, spec: str, brackets: str) -> list[Part]:
    out: list[Part] = []
    for k, v in enumerate(values):
        out += [", " * (k > 0), *_shown(cx, v, node, spec)]
    return [brackets[0], *out, brackets[1]]


def _check(cx: Context, value: Num, spec: str, node: ast.expr) -> None:
    """An error unless Python can format such a number so."""
    try:
        format(1.5 if value.type.is_float else 1, spec)
    except ValueError as e:
        raise cx.fail("QL1206", node, spec=spec, what=f"{e}; the value is {value.type}") from None


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbouring texts as one, empty ones left out."""
    out: list[Part] = []
    for p in parts:
        if isinstance(p, str) and out and isinstance(out[-1], str):
            out[-1] += p
        elif p != "":
            out.append(p)
    return out
