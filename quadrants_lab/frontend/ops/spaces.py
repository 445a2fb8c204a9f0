"""Lowers the iteration spaces of loops (`range`, `qd.ndrange`, `qd.grouped`), and `qd.loop_config`, which sets
options of the next loop."""

import ast
from collections.abc import Container
from dataclasses import fields, replace
from typing import Any

from quadrants_lab.frontend.op_table import ALL, Builtin
from quadrants_lab.frontend.values import (
    Grouped,
    Lit,
    NdRange,
    Obj,
    Range,
    Value,
)
from quadrants_lab.frontend.values.context import Context, LoopConfig, argument_node


def _range(cx: Context, call: ast.Call, *args: Value) -> Value:
    if not 1 <= len(args) <= 3:
        raise cx.fail("QL1703", call)
    numbers = [cx.argument(call, k, a) for k, a in enumerate(args)]
    begin, end = (Lit(0, call), numbers[0]) if len(args) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(args) == 3 else None
    if step is not None and step.constant == 0:
        raise cx.fail("QL1703", call)
    step = None if step is not None and step.constant == 1 else step
    return Range(begin, end, step)


def _ndrange(cx: Context, call: ast.Call, *args: Value, axes: Value | None = None) -> Value:
    bounds: list[tuple[Value, Value]] = []
    for k, a in enumerate(args):
        pair = a.entries(cx) if a.has_items else None
        if pair is not None and len(pair) != 2:
            raise cx.fail("QL1707", argument_node(call, k), what=a.describe())
        begin, end = pair or (Lit(0, call), a)
        ends = cx.argument(call, k, begin), cx.argument(call, k, end)
        if any(cx.type_of(number).is_float for number in ends):
            raise cx.fail("QL1707", argument_node(call, k), what=a.describe())
        bounds.append(ends)
    order = None if axes is None else cx.known(axes, "QL1610", call.keywords[0].value, op="qd.ndrange")
    if fault := fault_of_order(order, len(args)):
        raise cx.fail(fault, call, axes=order, n=len(args))
    return NdRange(tuple(bounds), tuple(range(len(args)) if order is None else order))


def fault_of_order(axes: Any, n: int) -> str:
    """Checks an order of axes, which must be a permutation of ``n`` axes, or None for the order in which they are
    written. Returns the code of the error, or "" if the order is right."""
    if axes is None:
        return ""
    if not isinstance(axes, (tuple, list)) or not all(hasattr(k, "__index__") for k in axes):
        return "QL1719"
    return "" if sorted(axes) == list(range(n)) else "QL1708"


def _grouped(cx: Context, call: ast.Call, x: Value) -> Value:
    if not x.is_space:
        raise cx.fail("QL1701", call, what=f"{x.describe()} with a vector of indices")
    return Grouped(x)


MOST_THREADS = 1024  # threads of a block
LANES = (1, 2, 4, 8, 16, 32, 64)
# the options of qd.loop_config: the types of the value, the allowed numbers, and the allowed numbers in words
_CONFIG: dict[str, tuple[tuple[type, ...], Container[int], str]] = {
    "block_dim": ((int,), range(MOST_THREADS + 1), f"1 to {MOST_THREADS}"),
    "serialize": ((bool, int), range(2), "True or False"),
    "parallelize": ((int,), range(1 << 31), "a number of threads"),
    "checkpoint": ((bool,), range(2), "True or False"),
    "lanes": ((int,), (0, *LANES), f"{', '.join(map(str, LANES[:-1]))} or {LANES[-1]}"),
    "colours": ((int,), range(3), "1 or 2"),
    "bit_vectorize": ((bool,), range(2), "True or False"),
    "name": ((str,), (), ""),
}


def _loop_config(cx: Context, call: ast.Call, *args: Value) -> Value:
    """Remembers the options for the next loop. ``parallelize=1`` means ``serialize=True``; ``checkpoint`` asks for
    `autodiff.recursive_checkpointing`; ``block_dim`` has an effect if the loop uses qd.simt; ``lanes`` and ``colours``
    are requests to the schedule of the CPU (`ir.traits.Scheduled`). All other options are hints, which are ignored."""

    def wrong(node: ast.AST, what: str) -> Exception:
        return cx.fail("QL1602", node, text="qd.loop_config", what=what, params=", ".join(_CONFIG))

    if args:
        raise wrong(call, "takes keywords only")
    given: dict[str, Any] = {}
    for k in call.keywords:
        if k.arg is None:
            raise cx.fail("QL1608", k.value)
        if k.arg not in _CONFIG:
            raise wrong(k.value, f"there is no option '{k.arg}'")
        known = given[k.arg] = cx.known(cx.expr(k.value), "QL1610", k.value, op="qd.loop_config")
        types, values, words = _CONFIG[k.arg]
        if known is not None and not isinstance(known, types):
            raise wrong(k.value, f"{k.arg} is of type {types[0].__name__}")
        if isinstance(known, int) and known not in values:
            raise wrong(k.value, f"{k.arg} is {words}, not {known}")
    if given.get("bit_vectorize"):
        raise cx.fail("QL1201", call, what="bit_vectorize=True, of quantised arrays,", cure="leave it out")
    if given.get("parallelize") == 1:
        given["serialize"] = True
    known = {field.name for field in fields(LoopConfig)}
    cx.config = replace(cx.config, **{k: v for k, v in given.items() if k in known and v is not None})
    return Obj(None)


ROWS: tuple[Builtin, ...] = (
    Builtin("ndrange", ("*args", "axes="), _ndrange, "The box of its arguments: sizes, or (begin, end) pairs; axes: "
            "the order of its axes in a serial loop, the outermost first."),
    Builtin("grouped", ("x",), _grouped, "The indices of x, a field, an array or an ndrange, as one vector."),
    Builtin("loop_config", ("*",), _loop_config,
            "About the next loop: serialize=True (or parallelize=1) runs it in order; checkpoint=True, of a serial: "
            "its gradient keeps 2 sqrt(trips) values in place of one a trip, and runs it once more; block_dim, of a "
            "parallel one: threads of a block (128), where it uses qd.simt; lanes and colours, of a parallel one: what "
            "the CPU would decide otherwise; the others are hints.", ALL),
    Builtin("range", ("*args",), _range, ""),
)  # fmt: skip
