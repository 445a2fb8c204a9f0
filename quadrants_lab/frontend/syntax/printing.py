"""Lowers texts with values in them: the output of `print`, and the message of an assert."""

import ast
from collections.abc import Callable, Iterable
from typing import Any

from quadrants_lab.frontend.diagnostics import id_of, names_in, nodes_of
from quadrants_lab.frontend.syntax.unroll import unpacked
from quadrants_lab.frontend.values import Obj, Value
from quadrants_lab.frontend.values.arith import tested, truth
from quadrants_lab.frontend.values.containers import live
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import locate
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text: constant ``text``, or the ``id`` of a value with its format specification."""

    text: str
    id: int | None = None


def lower_print(cx: Context, call: ast.Call, *args: Value) -> Value:
    """Lowers ``print(...)`` with ``sep`` and ``end``. It evaluates the arguments itself, because a format string
    has no value."""
    ends = {"sep": " ", "end": "\n"}
    for k in call.keywords:
        value = cx.expr(k.value)
        text = ends.get(k.arg or "") if value.identity() is None else value.string  # None means the default
        if k.arg not in ends or text is None:
            raise cx.fail("QL1611", k.value, name=k.arg or "**")
        ends[k.arg] = text
    evaluated = [_argument(cx, node) for node in call.args]  # one may change a list in another
    pieces = [p for show in evaluated for p in show()]
    parts = _merged([*_separated(pieces, ends["sep"]), Part(ends["end"])])
    specs = tuple(p.text for p in parts if p.id is not None)
    cx.at(call)
    shown = tuple(p.text if p.id is None else p.id for p in parts)
    cx.b.add(N.Print(cx.b.fresh(), shown, specs if any(specs) else ()))
    return Obj(None)


def lower_assert(cx: Context, node: ast.Assert) -> None:
    """Lowers an assert. Its condition is always evaluated, because a func that it calls may have effects. The result is
    checked only in sessions that check asserts, and in modules whose asserts guard memory (``__qd_asserts__``)."""
    value, reads = evaluated_for_message(cx, node.test)
    cond = truth(cx, tested(cx, value, node.test), node.test)
    parts = [Part(ast.unparse(node.test))] if node.msg is None else text_parts(cx, node.msg)
    if not cx.options.asserting and "__qd_asserts__" not in cx.frame.source.fn.__globals__:
        return
    if all(p.id is None for p in parts):
        parts += reads()
    text, args = message(parts)
    cx.at(node)
    cx.b.add(N.Assert(cx.b.fresh(), cond, text, args))


def _separated(pieces: Iterable[list[Part]], separator: str) -> list[Part]:
    return [part for n, piece in enumerate(pieces) for part in ([Part(separator)] * (n > 0) + piece)]


def _argument(cx: Context, node: ast.expr) -> Callable[[], list[list[Part]]]:
    """Evaluates an argument of print. Returns a function that makes the parts of the argument's text, or, for ``*x``,
    of the text of each entry of x. The function shows lists as they are when it is called."""
    match node:
        case ast.Starred(value=shown):
            values = list(unpacked(cx, cx.expr(shown), shown))
        case ast.Name() | ast.Subscript() | ast.Attribute() | ast.List() | ast.Tuple() | ast.Dict():
            values, shown = [cx.expr(node)], node
        case _:
            parts = text_parts(cx, node)
            return lambda: [parts]
    if not any(v.holds for v in values):
        pieces = [_shown(cx, v, shown, "") for v in values]
        return lambda: pieces
    return lambda: [_shown(cx, live(cx, v), shown, "") for v in values]


def message(parts: Iterable[Part]) -> tuple[str, tuple[int, ...]]:
    """The parts as the message of an assert and the ids of the values that fill it."""
    text, ids = "", []
    for p in parts:
        if p.id is not None:
            text += f"{{:{p.text}}}" if p.text else "{}"
            ids.append(p.id)
        else:
            text += p.text.replace("{", "{{").replace("}", "}}")
    return text, tuple(ids)


def evaluated_for_message(cx: Context, test: ast.expr) -> tuple[Value, Callable[[], list[Part]]]:
    """Evaluates the condition of an assert. Returns its value, and a function that makes the text of the numbers that
    it has read, for the message: `` (with v = 3.0, x[i] = 2.0)``.

    The text shows only values that are computed in any case. Nothing is evaluated again for it, because a call may have
    changed what was read. So an element in an operand that may be skipped (of ``and``, for instance) is not shown, but
    a variable in such an operand is, if it still has the value that it had there."""
    rows, frame, block = cx.exprs, cx.frame, cx.b.stmts
    found: dict[str, Value | None] = {}
    variables: dict[str, tuple[Any, Value]] = {}
    targets = [part.target for part in nodes_of(ast.comprehension, test)]
    bound = {name.id for name in names_in(*targets)}

    def noting(cx: Context, node: ast.expr) -> Value:
        if cx.frame is not frame or cx.speculating is frame or any(name.id in bound for name in names_in(node)):
            return rows[type(node)](cx, node)
        text, always = ast.unparse(node), cx.b.stmts is block
        if always:
            found.setdefault(text, None)  # its place in the text is before the numbers in its subscripts
        elif (name := id_of(node)) in frame.env:
            variables.setdefault(text, (node, frame.env[name]))
        value = rows[type(node)](cx, node)
        if always and found[text] is None:
            found[text] = value
        return value

    with cx.setting(exprs={**rows, **dict.fromkeys((ast.Name, ast.Attribute, ast.Subscript), noting)}):
        value = cx.expr(test)

    def parts() -> list[Part]:
        for text, (node, was) in variables.items():
            if text not in found and frame.env.get(node.id) is was:
                found[text] = cx.name(node)
        numbers = ((text, v.id) for text, v in found.items() if v is not None and v.id is not None)
        shown = [[Part(f"{text} = "), Part("", id)] for text, id in numbers]
        return [Part(" (with "), *_separated(shown, ", "), Part(")")] if shown else []

    return value, parts


def text_parts(cx: Context, node: ast.expr) -> list[Part]:
    """The parts of an expression, of an f-string or of ``"...".format(...)``."""
    match node:
        case ast.JoinedStr():
            return [p for part in node.values for p in text_parts(cx, part)]
        case ast.FormattedValue():  # !s, !r and !a are ignored
            return _shown(cx, cx.expr(node.value), node.value, _specification(cx, node.format_spec))
        case ast.Call() if (text := _template(cx, node)) is not None:
            return _formatted(cx, node, text)
    return _shown(cx, cx.expr(node), node, "")


def _specification(cx: Context, node: ast.expr | None) -> str:
    """The format specification of a value in a format string, the text after the colon. Expressions in it must be known
    at compile time."""
    out = ""
    for part in getattr(node, "values", ()):
        match part:
            case ast.FormattedValue(value=inner) | inner:
                out += str(cx.known(cx.expr(inner), "QL1610", inner, op="a format specification"))
    return out


def _template(cx: Context, node: ast.Call) -> str | None:
    """The text of ``text.format(...)``; None if the call is not one with a text that is known at compile time."""
    match node.func:
        case ast.Attribute(value=ast.Constant(value=str(text)), attr="format"):
            return text
        case ast.Attribute(value=ast.Name() | ast.Attribute() as named, attr="format"):
            return locate(cx, named).string  # type: ignore[no-any-return]  # of a `Value`
    return None


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
        out.append(Part(plain))
        if name is None:
            continue
        node = named.get(name or str(count))
        if node is None:
            raise cx.fail("QL1206", call, spec=name or str(count), what="there is no such argument")
        count += 1
        out += _shown(cx, cx.expr(node), node, spec or "")
    return out


def _shown(cx: Context, value: Value, node: ast.expr, spec: str) -> list[Part]:
    """The parts of the text of a value: ``[a, b]`` for a vector, ``[[a, b], [c, d]]`` for a matrix, ``(a, b)`` for a
    tuple, ``{a: 1, b: 2}`` for a struct. The format specification applies to each number."""
    text = "None" if value.identity() is None else value.string
    if text is not None:
        try:
            return [Part(format(text, spec))]
        except ValueError as e:
            raise cx.fail("QL1206", node, spec=spec, what=str(e)) from None
    if value.brackets is not None:
        begin, end = value.brackets
        pieces = ([Part(before), *_shown(cx, part, node, spec)] for before, part in value.printed(cx))
        return [Part(begin), *_separated(pieces, ", "), Part(end)]
    number = value.number(cx, node)
    if cx.static and number.constant is not None:
        return [Part(format(number.constant, spec))]
    cx.at(node)
    shown = cx.num(number)
    try:
        format(1.5 if shown.type.is_float else 1, spec)
    except ValueError as e:
        raise cx.fail("QL1206", node, spec=spec, what=f"{e}; the value is {shown.type}") from None
    return [Part(spec, shown.id)]


def _merged(parts: list[Part]) -> list[Part]:
    """The parts with adjacent texts merged, and without empty ones."""
    out: list[Part] = []
    for p in parts:
        if p.id is None and out and out[-1].id is None:
            out[-1] = Part(out[-1].text + p.text)
        elif p.id is not None or p.text:
            out.append(p)
    return out
