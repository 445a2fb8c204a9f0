"""Lowers branches: emits an `If` with a result for each local variable that an arm assigns, and for each value that
the arms evaluate to."""

import ast
from collections.abc import Callable
from math import prod
from typing import Any

from quadrants_lab.frontend.values import Matrix, Num, Value
from quadrants_lab.frontend.values.containers import merge_locals, merged, outside
from quadrants_lab.frontend.values.context import Context, Env
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True)
class Arm:
    """An arm after its lowering: its statements, the values of local variables at its end, whether its end is
    unreachable (``exited``), and the values that it evaluates to."""

    stmts: list[N.Stmt]
    env: Env
    exited: bool
    values: tuple[Value, ...]


def choose(cx: Context, cond: int, then: Callable[[], Value], orelse: Callable[[], Value], node: ast.AST) -> Value:
    """The value of an expression ``then if cond else orelse``, in the common dtype of both arms."""
    return branch(cx, cond, lambda: (then(),), lambda: (orelse(),), node)[0]


Run = Callable[[], "tuple[Value, ...] | None"]  # lowers an arm and returns its values; None: it has none


def branch(cx: Context, cond: int, then: Run, orelse: Run, node: Any, merge: bool = True) -> tuple[Value, ...]:
    """Emits an If whose arms are lowered by ``then`` and ``orelse``, which return equally many values. Returns the
    results of the If: each is the value of the arm that runs.

    Locals that existed before the If and are assigned in an arm get a result of the If as their value. With ``merge``
    false they do not: the If is then the last statement of its function. If both arms end early (in a break, continue
    or return), the code after the If is unreachable.
    """
    before = cx.frame.env
    with cx.setting(top=False, depth=cx.depth + 1):
        arms = [_arm(cx, before, run) for run in (then, orelse)]
    cx.frame.env = dict(before)
    live = [a for a in arms if not a.exited]
    match node:
        case ast.If():
            ended = "if"
        case ast.stmt():
            ended = "loop"
        case _:
            ended = ""  # an expression: its arms end no names
    for arm in arms if ended else ():
        cx.end(arm.env, before, node, ended)
    cx.at(node)
    results: list[N.Param] = []
    yields: list[list[int]] = [[] for _ in live]

    def joined(numbers: tuple[Any, ...], old: Any = None, name: str = "") -> Any:
        """The number after the If, given the number at the end of each arm: ``old`` itself if no arm has changed it,
        else a new result of the If."""
        first = numbers[0] if old is None else old
        if (old is not None or first.constant is not None) and all(_is_one(n, first) for n in numbers):
            return first
        t = cx.common_dtype(*numbers)
        results.append(cx.b.param(t, name))
        for arm, number, out in zip(live, numbers, yields, strict=True):
            with cx.b.block(arm.stmts):
                out.append(cx.to(number, t))
        return Num(results[-1].id, t)

    for name in [n for n, v in before.items() if merge and any(a.env[n] is not v for a in live)]:
        old = before[name]
        incoming = zip(*(arm.env[name].leaves() for arm in live), strict=True)
        numbers = [joined(*way) for way in zip(incoming, old.leaves(), old.leaf_names(name), strict=True)]
        cx.frame.env[name] = old.with_leaves(numbers)
    if merge:
        merge_locals(cx, [arm.env for arm in live])
    values: list[Value] = []
    for k in range(len(live[0].values) if live else 0):
        ends = (arm.values[k] for arm in live)  # a run-time choice is between numbers, matrices, structs or lists
        given: list[Value] = [v.numbers(cx, node) if v.token is None else v for v in ends]
        if not ended:
            given = _broadcast(given)
        _check_same_shape(cx, given, node)
        chosen = given[0].with_leaves([joined(way) for way in zip(*(v.leaves() for v in given), strict=True)])
        values.append(outside(cx, merged(cx, chosen, given)))
    for arm, out in zip(live, yields, strict=True):
        with cx.b.block(arm.stmts):
            cx.b.yield_(*out)
    cx.b.add(N.If(cx.b.fresh(), cond, tuple(arms[0].stmts), tuple(arms[1].stmts), tuple(results)))
    if not live:
        emit_exit(cx, N.Continue)
    return tuple(values)


def _is_one(a: Any, b: Any) -> bool:
    """Whether two numbers are the same object or the same SSA value."""
    return a is b or (a.id is not None and a.id == b.id)


def _broadcast(values: list[Value]) -> list[Value]:
    """The values, with numbers beside a matrix broadcast to its shape."""
    shapes = [v.shape for v in values if v.shape]
    return [Matrix(shapes[0], (v,) * prod(shapes[0])) if shapes and v.is_number else v for v in values]


def _check_same_shape(cx: Context, values: list[Value], node: Any) -> None:
    """Raises QL1416 unless all values are numbers, matrices of one shape or structs of the same members; QL1434 for
    views of different arrays."""
    first = values[0]
    for v in values[1:]:
        if v.structure() != first.structure():
            code = "QL1416" if v.view is None or first.view is None else "QL1434"
            raise cx.fail(code, node, left=first.describe(), right=v.describe())


def _arm(cx: Context, before: Env, run: Run) -> Arm:
    cx.frame.env = dict(before)
    with cx.b.block() as stmts:
        values = run() or ()
    exited, cx.exited = cx.exited, False
    return Arm(stmts, cx.frame.env, exited, values)


def emit_exit(cx: Context, kind: type[N.Break] | type[N.Continue]) -> None:
    """Ends the block with a Break or Continue of the innermost run-time loop, which carries the current values."""
    loop = cx.frame.loop and cx.frame.loop.run_time
    assert loop is not None
    env = {**cx.frame.env, **cx.frame.hiding}
    cx.b.add(kind(cx.b.fresh(), tuple(leaf.id for name in loop.names for leaf in env[name].leaves())))
    loop.exits.append((kind is N.Break, env))
    cx.exited = True
