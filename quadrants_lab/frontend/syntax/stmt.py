"""Lowers statements other than assignments and loops."""

import ast
from collections.abc import Callable

from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.syntax.branch import branch
from quadrants_lab.frontend.syntax.funcs import return_values
from quadrants_lab.frontend.syntax.returns import early_return
from quadrants_lab.frontend.syntax.unroll import static_truth
from quadrants_lab.frontend.values import Num
from quadrants_lab.frontend.values.arith import truth
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily

_END_VALUE = "set a variable here and return it in the last line"
_END = "write continue to end an iteration; otherwise put the statements that follow under a condition"


def _if(cx: Context, node: ast.If) -> None:
    test = cx.expr(node.test)
    if node.test in cx.static_calls or test.token is not None:
        with cx.scope(node, "if"):
            cx.stmts(node.body if static_truth(cx, test, node.test) else node.orelse)
        return
    cond = truth(cx, test.number(cx, node.test), node.test)
    branch(cx, cond, lambda: cx.stmts(node.body), lambda: cx.stmts(node.orelse), node)


def _expression(cx: Context, node: ast.Expr) -> None:
    match node.value:
        case ast.Constant():  # an expression without effect, such as a docstring
            return
        case ast.Call():
            cx.as_statement = cx.top
    cx.expr(node.value)


def _return(cx: Context, node: ast.Return) -> None:
    """A kernel's return, whose numbers are stored to the buffers ret0, ret1, ...; or an early return of a func."""
    frame = cx.frame
    if frame.returning is not None:
        early_return(cx, node, return_values(cx, node))
        return
    if not cx.top:
        cure = _END_VALUE if node.value is not None else _END
        raise cx.fail("QL1802", node, where="a loop or condition", cure=cure)
    values = return_values(cx, node)
    if values and frame.returns is None:
        raise cx.fail("QL1801", node, name=frame.source.name)
    want = frame.returns or ()
    if len(values) != len(want):
        raise cx.fail("QL1804", node, got=count(len(values), "value"), want=len(want))
    numbers: list[Num] = [number for value in values for number in value.leaves()]
    for k, number in enumerate(numbers):
        buffer = N.Buffer(f"ret{k}", "ret", number.type, 0, ())
        cx.buffers[buffer.name] = buffer
        cx.at(node)
        cx.b.store(buffer, (), number.id)
    cx.returned = tuple(number.type for number in numbers)
    cx.exited = True


def _with(cx: Context, node: ast.With) -> None:
    """Lowers a ``with`` statement that marks a section. The language lets consecutive sections run at the same time;
    here they run in order."""
    section = ""
    match node.items:
        case [ast.withitem(context_expr=ast.Call(func=func), optional_vars=None)]:
            section = getattr(cx.expr(func).captured, "__qd_section__", "")
    if not section:
        raise cx.unsupported(node)
    if not cx.top:
        raise cx.fail("QL1210", node, name=section)
    body = cx.frame.source.node.body
    if section == "stream_parallel" and node in body:
        for other in body:
            match other:
                case ast.With() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
            raise cx.fail("QL1214", other)
    cx.stmts(node.body)


STATEMENTS: dict[type, Callable[..., None]] = {
    ast.If: _if, ast.Expr: _expression, ast.Return: _return, ast.With: _with, ast.Pass: lambda cx, node: None,
    ast.Assert: lazily("frontend.syntax.printing", "lower_assert"),
}  # fmt: skip
