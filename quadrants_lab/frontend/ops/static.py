"""Evaluates operations at compile time, such as `qd.static`, and Python's own functions, such as `len`, on values
with entries."""

import ast
from collections.abc import Iterable

from quadrants_lab.frontend.diagnostics import name_of
from quadrants_lab.frontend.op_table import ALL, Builtin, Lower
from quadrants_lab.frontend.source import note_unknown
from quadrants_lab.frontend.syntax.unroll import static_truth
from quadrants_lab.frontend.values import Lit, Obj, Tuple, Value, arith, matrix
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.ir.importing import lazily


def _static(cx: Context, call: ast.Call, *args: Value) -> Value:
    for node, value in zip(call.args, args, strict=False):
        if node in cx.static_calls:
            raise cx.fail("QL1614", node)
        # takes entries that are run-time values, over which a static loop is unrolled
        if not value.is_object:
            static_truth(cx, value, node)
    cx.static_calls.add(call)
    return args[0] if len(args) == 1 else Tuple(args)


def _static_assert(cx: Context, call: ast.Call, cond: Value, message: Value | None) -> Value:
    if not cx.known(cond, "QL1610", call, op="qd.static_assert"):
        raise cx.fail("QL1609", call, message=f": {message.python(cx)}" if message is not None else "")
    return Obj(None)


def _static_print(cx: Context, call: ast.Call, *args: Value) -> Value:
    note_unknown()
    shown = [_shown(cx, a) for a in args]
    cx.messages.append(lambda: print(*shown))
    return Obj(None)


def _shown(cx: Context, value: Value) -> object:
    """What Python would print for the value; for a value that only a launch knows, a description."""
    try:
        return value.python(cx)
    except TypeError:
        return value.describe()


def _len(cx: Context, call: ast.Call, x: Value) -> Value:
    if (length := x.length) is None:
        raise cx.fail("QL1421", call, op="len", what=x.describe(), text=name_of(call.args[0]))
    return Lit(length, call)


def _quantifier(name: str) -> Lower:
    """Lowers Python's any or all of a vector, matrix or list as a call of the method of that name."""

    def lower(cx: Context, call: ast.Call, x: Value) -> Value:
        value = x if x.shape else matrix.as_matrix(cx, Tuple(_entries(cx, call, x)), call)
        if value is None:
            return Lit(name == "all", call)  # the result for an empty list
        return cx.operations[f"Matrix.{name}"].lower(cx, call, value)

    return lower


def _sum(cx: Context, call: ast.Call, x: Value, start: Value | None) -> Value:
    """Python's sum: of numbers, vectors or matrices in a list, of the elements of a vector, or the rows of a matrix."""
    total = start
    for part in _entries(cx, call, x):
        total = part if total is None else arith.operate(cx, ast.Add, total, part, call, call, call)
    return Lit(0, call) if total is None else total


def _entries(cx: Context, call: ast.Call, x: Value) -> tuple[Value, ...]:
    """The entries that Python would iterate over."""
    parts = x.entries(cx)
    if parts is None and isinstance(x.captured, Iterable):
        parts = tuple(cx.wrap(v, name_of(call.args[0])) for v in x.captured)
    if parts is None and x.fields:
        raise cx.fail("QL1421", call, op=name_of(call.func), what=x.describe(), text=name_of(call.args[0]))
    if parts is None:
        raise cx.fail("QL1419", call, what=x.describe())
    return parts


ROWS: tuple[Builtin, ...] = (
    Builtin("static", ("*args",), _static, "Evaluated at compile time: unrolls a loop, decides an if."),
    Builtin("static_assert", ("cond", "msg="), _static_assert, "An error at compile time if cond does not hold."),
    Builtin("static_print", ("*args",), _static_print, "Prints while the kernel is compiled."),
    *(Builtin(name, ("*args",), lambda cx, call, *args: Obj(None), "A hint about fields that changes nothing here.")
      for name in ("block_local", "cache_read_only", "no_activate")),
    # Python's own
    Builtin("print", ("*args",), lazily("frontend.syntax.printing", "lower_print"), "", ALL),
    Builtin("len", ("x",), _len, ""),
    Builtin("any", ("x",), _quantifier("any"), ""),
    Builtin("all", ("x",), _quantifier("all"), ""),
    Builtin("sum", ("x", "start="), _sum, ""),
)  # fmt: skip
