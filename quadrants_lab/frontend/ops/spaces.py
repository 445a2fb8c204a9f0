"""Iteration spaces of loops: `range`, `qd.ndrange`, `qd.grouped`; and `qd.loop_config`, about the next loop."""

import ast
from typing import Any

from quadrants_lab.frontend.op_table import ALL, Builtin
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.values import (
    Grouped,
    Lit,
    NdRange,
    Obj,
    Range,
    Tuple,
    Value,
)


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
        pair = a.entries(cx) if isinstance(a, (Tuple, Obj)) else None
        if pair is not None and len(pair) != 2:
            raise cx.fail("QL1707", argument_node(call, k), what=a.describe())
        begin, end = pair or (Lit(0, call), a)
        ends = cx.argument(call, k, begin), cx.argument(call, k, end)
        if any(cx.type_of(number).is_float for number in ends):
            raise cx.fail("QL1707", argument_node(call, k), what=a.describe())
        bounds.append(ends)
    order = None if axes is None else cx.known(axes, "QL1610", call.keywords[0].value, op="qd.ndrange")
    if not is_order(order, len(args)):
        raise cx.fail("QL1708", call, axes=order, n=len(args))
    return NdRange(tuple(bounds), tuple(range(len(args)) if order is None else order))


def is_order(axes: Any, n: int) -> bool:
    """Whether ``axes`` is a permutation of ``n`` axes, or None for the order in which they are written."""
    if axes is None:
        return True
    known = isinstance(axes, (tuple, list)) and all(hasattr(k, "__index__") for k in axes)
    return known and sorted(axes) == list(range(n))


def _grouped(cx: Context, call: ast.Call, x: Value) -> Value:
    if x.snode is None and not x.fields and not isinstance(x, (NdRange, Range)):
        raise cx.fail("QL1701", call, what=f"{x.describe()} with a vector of indices")
    return Grouped(x)


MOST_THREADS = 1024  # of a block
# the options of qd.loop_config, with the types of their values
_CONFIG: dict[str, tuple[type, ...]] = {
    "block_dim": (int,), "serialize": (bool, int), "parallelize": (int,), "checkpoint": (bool,),
    "bit_vectorize": (bool,), "name": (str,),
}  # fmt: skip


def _loop_config(cx: Context, call: ast.Call, *args: Value) -> Value:
    """Remembers the options for the next loop. ``parallelize=1`` means ``serialize=True``; ``checkpoint`` is for
    `autodiff.recursive_checkpointing`; ``block_dim`` matters if the loop uses qd.simt; the others are ignored hints."""

    def wrong(node: ast.AST, what: str) -> Exception:
        return cx.fail("QL1602", node, text="qd.loop_config", what=what, params=", ".join(_CONFIG))

    if args:
        raise wrong(call, "takes keywords only")
    given: dict[str, Any] = {}
    for k in call.keywords:
        if k.arg not in _CONFIG:
            raise wrong(k.value, f"there is no option '{k.arg}'")
        value = cx.expr(k.value)
        if not isinstance(value, (Lit, Obj)):
            raise cx.fail("QL1610", k.value, op="qd.loop_config")
        known = given[k.arg] = value.value
        if known is not None and not isinstance(known, _CONFIG[k.arg]):
            raise wrong(k.value, f"{k.arg} is of type {_CONFIG[k.arg][0].__name__}")
    if given.get("bit_vectorize"):
        raise cx.fail("QL1201", call, what="bit_vectorize=True, of quantised arrays,", cure="leave it out")
    if given.get("checkpoint"):
        cx.checkpoint = True
    cx.block_dim = given.get("block_dim") or 0
    if not 0 <= cx.block_dim <= MOST_THREADS:
        raise wrong(call, f"block_dim is 1 to {MOST_THREADS}")
    if given.get("serialize") or given.get("parallelize") == 1:
        cx.serialize = True
    return Obj(None)


ROWS: tuple[Builtin, ...] = (
    Builtin("ndrange", ("*args", "axes="), _ndrange, "The box of its arguments: sizes, or (begin, end) pairs; axes: "
            "the order of its axes in a serial loop, the outermost first."),
    Builtin("grouped", ("x",), _grouped, "The indices of x, a field, an array or an ndrange, as one vector."),
    Builtin("loop_config", ("*",), _loop_config,
            "About the next loop: serialize=True (or parallelize=1) runs it in order; checkpoint=True, of a serial: "
            "its gradient keeps 2 sqrt(trips) values in place of one a trip, and runs it once more; block_dim, of a "
            "parallel one: threads of a block (128), where it uses qd.simt; the others are hints.", ALL),
    Builtin("range", ("*args",), _range, ""),
)  # fmt: skip
