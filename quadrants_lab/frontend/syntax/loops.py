"""Lowers loops: at the statement level of a kernel a loop becomes a parallel task, elsewhere a serial loop. The module
`unroll` lowers static loops."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, reduce
from itertools import count as count_from
from math import prod
from typing import Any

from quadrants_lab.frontend.diagnostics import count, entries_of, id_of, nodes_of
from quadrants_lab.frontend.syntax.branch import emit_exit
from quadrants_lab.frontend.syntax.changed import changed_locals, lower_until_stable, record_changes
from quadrants_lab.frontend.syntax.returns import parameters, propagate_return
from quadrants_lab.frontend.syntax.scan import (
    assigned_names,
    first_return,
    has_break,
    has_read_element,
    is_private,
)
from quadrants_lab.frontend.syntax.space import Space, space_of
from quadrants_lab.frontend.syntax.unroll import unroll
from quadrants_lab.frontend.values import Matrix, Num, Temp, Value
from quadrants_lab.frontend.values.active_cells import known_active
from quadrants_lab.frontend.values.arith import truth
from quadrants_lab.frontend.values.containers import merge_into_head, merge_locals
from quadrants_lab.frontend.values.context import Context, Env, Loop, LoopConfig
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused, with_adjoint
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import tested_inside
from quadrants_lab.ir.types import i32, i64, u64
from quadrants_lab.ir.walk import rewrite, walk

DEFAULT_BLOCK = 128  # threads of a block, without qd.loop_config(block_dim=...)


def _for(cx: Context, node: ast.For) -> None:
    if node.orelse:
        raise cx.fail("QL1202", node.orelse[0])
    config, cx.config = cx.config, LoopConfig()
    with cx.b.block() as bounds:
        value = cx.expr(node.iter)
    static = node.iter in cx.static_calls
    if config.checkpoint and (static or (cx.top and not config.serialize)):
        raise cx.fail("QL1209", node.iter, what="unrolled" if static else "parallel")
    if static:
        cx.b.stmts += bounds
        unroll(cx, node, value)
        return
    with cx.b.block() as more:
        space = space_of(cx, node, value)
        names = _targets(cx, node, space)
    bounds += more

    def task() -> None:
        with cx.setting(block_threads=config.block_dim or DEFAULT_BLOCK, uses_blocks=False):
            _task(cx, node, space, names, list(bounds), config)

    def serial() -> None:
        cx.config = LoopConfig(checkpoint=config.checkpoint)
        _serial(cx, node, space, names)

    if cx.top and not config.serialize and not _runs_once(cx, node, space):
        lower_until_stable(cx, node, task)
    else:
        cx.b.stmts += bounds
        lower_until_stable(cx, node, serial)


def _runs_once(cx: Context, node: ast.For, space: Space) -> bool:
    """Whether the loop has at most one iteration and changes locals of the kernel. Such a loop is lowered as a serial
    one: programs write ``for _ in range(1)`` so that the loops in it run in order."""
    if space.step is not None or space.sizes is None or prod(space.sizes) > 1:
        return False
    before = cx.frame.env
    return any(name in before and before[name].is_local for name in changed_locals(cx, node, node.body))


def _targets(cx: Context, node: ast.For, space: Space) -> list[ast.Name]:
    """The names of the loop variables, one for each axis. A name that would hide a variable is an error."""
    names: list[Any] = entries_of(node.target)
    want = 1 if space.grouped else len(space.axes)
    if not all(map(id_of, names)):
        raise cx.fail("QL1201", node.target, what="a loop variable that is no plain name", cure="use a name")
    if len(names) != want:
        raise cx.fail(
            "QL1702", node.target, text=ast.unparse(node.iter), want=want, axes="axis" if want == 1 else "axes",
            got=count(len(names), "variable"),
        )  # fmt: skip
    for n in names:
        if n.id in cx.frame.env and n.id != "_":
            raise cx.fail("QL1304", n, name=n.id)
    if space.grouped:
        axes = range(len(space.axes))
        names = [ast.copy_location(ast.Name(f"{names[0].id}[{k}]", ast.Store()), names[0]) for k in axes]
    return [names[k] for k in space.order] if space.order else names


def _iteration(cx: Context, node: ast.For, space: Space, names: list[ast.Name]) -> None:
    """Lowers the body of the loop for one iteration, whose indices are in the environment."""
    if space.grouped:
        name = id_of(node.target)
        indices = [cx.frame.env[f"{name}[{k}]"] for k in range(space.rank)]
        cx.frame.env[name] = Matrix((len(indices),), tuple(indices))
    if space.active is None:
        cx.stmts(node.body)
        return
    cx.at(node.iter)
    values: list[Any] = [cx.frame.env[n.id] for n in names]
    cell = space.active.emit(cx, [v.id for v in values], lambda: emit_exit(cx, N.Continue))
    cx.exited = False
    with known_active(cx, cell):
        cx.stmts(node.body)


def _stepped(cx: Context, space: Space, begin: int, index: int, name: str, node: ast.For) -> Num:
    """Emits the loop variable of a range with a step, ``begin + index * step``. It is computed in the variable's own
    dtype: the product may wrap, but the sum is right, because the result fits."""
    assert space.step is not None
    cx.at(node.target)
    trip = cx.to(Num(index, space.count_dtype), space.dtype)
    moved = cx.b.op("mul", trip, space.id(cx, space.step))
    return Num(cx.b.op("add", begin, moved, name=name), space.dtype)


def _trip_count(cx: Context, space: Space, node: ast.For) -> int:
    """The number of iterations, ceil((end - begin) / step); 0 where the step is 0."""
    (begin, end), step = space.axes[0], space.step
    assert step is not None
    cx.at(node.iter)
    if space.trips is not None:
        return cx.const(len(space.trips), space.dtype)
    op = cx.b.op
    first, last, by = (cx.to(Num(space.id(cx, x), space.dtype), i64) for x in (begin, end, step))
    if cx.options.asserting and step.constant is None:
        runs = op("ne", by, cx.const(0, i64))
        cx.b.add(N.Assert(cx.b.fresh(), runs, "the step of this range is 0", (), kind="division"))
    if space.dtype is i32 or space.above_zero:  # the distance fits i64
        if space.dtype is i64:
            zero = cx.const(0, i64)
            first, last = op("max", first, zero), op("max", last, zero)
        trips = op("neg", op("floordiv", op("sub", first, last), by))  # rounds up for either sign of the step
    else:
        trips = _far_trips(cx, first, last, by)
    return cx.to(Num(trips, i64), space.count_dtype)


def _far_trips(cx: Context, first: int, last: int, by: int) -> int:
    """The number of iterations of a range for which end - begin may not fit i64. With distance = |end - begin| it is
    (distance - 1) // |step| + 1, computed in u64, and 0 for an empty range."""
    op, cast, zero = cx.b.op, cx.b.cast, cx.const(0, i64)
    up = op("gt", by, zero)
    low, high = op("select", up, first, last), op("select", up, last, first)
    one, distance, size = cx.const(1, u64), cast(op("sub", high, low), u64), cast(op("abs", by), u64)
    trips = op("add", op("floordiv", op("sub", distance, one), size), one)
    trips = cast(op("min", trips, cx.const(i64.limits[1], u64)), i64)  # more trips would take centuries
    return op("select", op("and", op("lt", low, high), op("ne", by, zero)), trips, zero)


# --- parallel tasks ---------------------------------------------------------------------------------------------


def _task(
    cx: Context, node: ast.For, space: Space, names: list[ast.Name], bounds: list[N.Stmt], config: LoopConfig
) -> None:
    """Emits an Offload for a parallel loop. Locals of the kernel that the loop assigns become buffers, into which the
    loop may only accumulate."""
    if space.step is not None:  # the body reads begin and step, but not from the block ``bounds``
        cx.b.stmts += bounds
        bounds = []
    t = space.dtype
    before = cx.frame.env
    env = dict(before)
    shared = _share(cx, node, env)
    with cx.b.block(bounds):
        cx.at(node.iter)
        if space.step is not None:
            ids = [cx.const(0, space.count_dtype), _trip_count(cx, space, node)]
        else:
            ids = [space.id(cx, b) for b, _ in space.axes] + [space.id(cx, e) for _, e in space.axes]
        cx.at(node.iter)
        cx.b.yield_(*ids)
    if space.step is not None:
        indices: tuple[N.Param, ...] = (cx.b.param(space.count_dtype, ""),)
    else:
        indices = tuple(cx.b.param(t, n.id) for n in names)
    loop, cx.frame.loop, cx.frame.env = cx.frame.loop, Loop("task", ()), env
    inside = {"top": False, "depth": cx.depth + 1, "exited": False}
    with cx.setting(stop_grads=set(), changed_activity=set(), **inside):
        with cx.b.block() as body:
            for p, n in zip(indices, names, strict=True):
                env[n.id] = Num(p.id, t)
            if space.step is not None:
                begin = space.id(cx, space.axes[0][0])
                env[names[0].id] = _stepped(cx, space, begin, indices[0].id, names[0].id, node)
            for temp in (t for value in shared.values() for t in value.leaves()):
                temp.iteration = frozenset(leaf.id for n in names for leaf in env[n.id].leaves())
            _iteration(cx, node, space, names)
            cx.at(node)
            if not cx.exited:
                cx.b.yield_()
        assigned = {"_", *assigned_names(cx.frame.source, node, node.body)}  # the body may change other locals, too
        others = (n for n, v in before.items() if n not in shared and n not in assigned and v.is_local)
        record_changes(cx, node, before, others)
        cx.end(cx.frame.env, before, node, "loop")
        cx.frame.env, cx.frame.loop = before, loop
        cx.at(node)
        code = without_derivatives(cx.b, tuple(body), cx.stop_grads)
        if space.active is not None:
            cx.b.stmts += space.active.snapshots(cx, node)
        changed = cx.changed_activity
    cx.changed_activity |= changed
    cx.at(node)
    block_dim = cx.block_threads if cx.uses_blocks else 0
    made = N.Offload(cx.b.fresh(), space.kind, tuple(bounds), indices, code, block_dim=block_dim)
    made.lanes, made.colours = config.lanes, config.colours
    cx.b.add(made)
    for name, value in shared.items():
        cx.at(node)
        cx.frame.env[name] = value.map(lambda temp: _read(cx, temp))


def _read(cx: Context, temp: Temp) -> Num:
    """Emits the load of a shared local's number after the loop."""
    load = N.Load(cx.b.fresh(), temp.buffer.dtype, temp.buffer.name, (), name=temp.name)
    return Num(cx.b.add(load), load.type)


def _share(cx: Context, node: ast.For, env: Env) -> Env:
    """Makes the locals that the body of a parallel loop assigns shared: each of their numbers gets a buffer of kind
    "temp", to which the current value is stored. Locals of which each iteration can have its own copy are left out.
    Returns the shared locals by name, and puts them into ``env``."""
    shared: Env = {}
    for name in changed_locals(cx, node, node.body):
        value = env.get(name)
        if value is None or not value.is_local or _is_private(cx, node, name, value):
            continue
        temps = []
        value = value if value.token is None else value.map(cx.num)
        for leaf, called in zip(value.leaves(), value.leaf_names(name), strict=True):
            free = unused((f"{N.buffer_name(called)}.tmp{n}" for n in count_from()), cx.buffers)
            buffer = with_adjoint(cx.buffers, N.Buffer(free, "temp", leaf.type, 0, ()))
            cx.at(node)
            cx.b.store(buffer, (), leaf.id)
            temps.append(Temp(buffer, called))
        if value.shape and has_read_element(node.body, name):
            for temp in temps:
                temp.private_copy = f"{name} of an iteration"  # a name that no program can use
            env[temps[0].private_copy] = value
        env[name] = shared[name] = value.with_leaves(temps)
    return shared


def _is_private(cx: Context, node: ast.For, name: str, value: Value) -> bool:
    """Whether each iteration of the loop may have a private copy of the local variable."""
    return value.token is None and name not in cx.frame.references and is_private(cx.frame.source.node, node, name)


def without_derivatives(b: Builder, block: N.Block, stopped: set[str]) -> N.Block:
    """The block, changed so that values which it loads from the ``stopped`` buffers have the derivative 0
    (`qd.stop_grad`)."""
    if not stopped:
        return block

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if not isinstance(s, N.Load) or s.buffer not in stopped or not s.type.is_float:
            return s
        b.span = s.span
        with b.block() as made:
            value = b.add(replace(s, id=b.fresh()))
            zero = b.const(0, s.type)
            b.add(N.Op(s.id, s.type, "custom_jvp", (value, zero), name=s.name))
        return made

    return rewrite(block, one)


# --- serial loops -----------------------------------------------------------------------------------------------


def _serial(cx: Context, node: ast.For, space: Space, names: list[ast.Name]) -> None:
    before = len(cx.b.stmts)
    with cx.setting(top=False, changed_activity=set()):
        if space.step is not None:
            _strided(cx, node, space, names[0])
        elif len(names) > 1 and (has_break(node.body) or first_return(node.body)):
            _flattened(cx, node, space, names)
        else:
            _nest(cx, node, space, names, 0)
        copying = space.active.snapshots(cx, node) if space.active is not None else []
        changed = cx.changed_activity
    if copying and not cx.top:
        raise cx.fail("QL1710", node.iter, text=ast.unparse(node.iter))
    cx.b.stmts[before:before] = copying
    cx.changed_activity |= changed
    propagate_return(cx, node)


def _nest(cx: Context, node: ast.For, space: Space, names: list[ast.Name], axis: int) -> None:
    """Emits nested Fors, one for each axis from ``axis`` on, with the last axis innermost."""
    begin, end = space.axes[axis]
    cx.at(node.iter)

    def body(index: N.Param) -> None:
        cx.frame.env[names[axis].id] = Num(index.id, index.type)
        if axis + 1 < len(names):
            _nest(cx, node, space, names, axis + 1)
        else:
            _iteration(cx, node, space, names)

    _counted(cx, node, space.id(cx, begin), space.id(cx, end), names[axis].id, body)


def _strided(cx: Context, node: ast.For, space: Space, name: ast.Name) -> None:
    """Emits the loop over a range with a step: a reversed For if the step is -1, else a For that counts the iterations
    from 0."""
    (begin, end), step = space.axes[0], space.step
    cx.at(node.iter)
    if step is not None and step.constant == -1:
        one = cx.const(1, space.dtype)

        def reversed_body(index: N.Param) -> None:  # over [end, begin), because begin + 1 may not fit the dtype
            cx.frame.env[name.id] = Num(cx.b.op("add", index.id, one, name=name.id), index.type)
            _iteration(cx, node, space, [name])

        _counted(cx, node, space.id(cx, end), space.id(cx, begin), "", reversed_body, reverse=True)
        return
    first = space.id(cx, begin)
    trips = _trip_count(cx, space, node)

    def body(index: N.Param) -> None:
        cx.frame.env[name.id] = _stepped(cx, space, first, index.id, name.id, node)
        _iteration(cx, node, space, [name])

    _counted(cx, node, cx.const(0, space.count_dtype), trips, "", body)


def _flattened(cx: Context, node: ast.For, space: Space, names: list[ast.Name]) -> None:
    """Emits a loop over several axes as one For over the product of the extents, so that a break leaves all axes at
    once. The index is an i64 if the product may not fit i32."""
    cx.at(node.iter)
    t, known_total = space.dtype, None if space.sizes is None else prod(space.sizes)
    count = t if known_total is not None and i32.holds(known_total) else i64
    begins = [cx.b.cast(space.id(cx, b), count) for b, _ in space.axes]
    zero = cx.const(0, count)
    extents = [
        cx.b.op("max", cx.b.op("sub", cx.b.cast(space.id(cx, e), count), b), zero)
        for b, (_, e) in zip(begins, space.axes, strict=True)
    ]
    if known_total is None or not i64.holds(known_total):
        extents = cx.b.limited(extents, "floordiv")
    total = reduce(partial(cx.b.op, "mul"), extents)

    def body(index: N.Param) -> None:
        cx.at(node.target)
        rest = index.id
        for k in range(len(names) - 1, -1, -1):
            part = rest if k == 0 else cx.b.op("mod", rest, extents[k])
            if k:
                rest = cx.b.op("floordiv", rest, extents[k])
            value = cx.b.op("add", begins[k], part, name=names[k].id)
            cx.frame.env[names[k].id] = Num(cx.b.cast(value, t), t)
        _iteration(cx, node, space, names)

    _counted(cx, node, zero, total, "", body)


def _counted(
    cx: Context, node: ast.For, begin: int, end: int, name: str, run: Callable[[N.Param], None], reverse: bool = False
) -> None:
    """Emits a For from ``begin`` to ``end``, whose body is lowered by ``run`` and which carries the locals that the
    body assigns."""
    config, cx.config = cx.config, LoopConfig()
    before, names, carried, inits = _carry(cx, node, node.body)
    index = cx.b.param(cx.b.types[begin], name)
    with cx.b.block() as body:
        ends = _body(cx, node, names, lambda: run(index))
    results = _results(cx, before, names, node, ends)
    loop = N.For(cx.b.fresh(), index, begin, end, carried, inits, tuple(body), results, reverse=reverse)
    loop.checkpoint = config.checkpoint
    cx.b.add(loop)


def _while(cx: Context, node: ast.While) -> None:
    if node.orelse:
        raise cx.fail("QL1202", node.orelse[0])
    if any(nodes_of(ast.NamedExpr, node.test)):
        _move_test_into_body(node)
    config, cx.config = cx.config, LoopConfig()
    lower_until_stable(cx, node, lambda: _repeated(cx, node, config.checkpoint))


def _move_test_into_body(node: ast.While) -> None:
    """Makes a ``while`` whose test assigns by ``:=`` an endless loop that begins with the test and a break."""
    leaving = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
    for n in (leaving, leaving.test, leaving.body[0]):
        ast.copy_location(n, node.test)
    node.body = [leaving, *node.body]
    node.test = ast.copy_location(ast.Constant(True), node.test)


def _repeated(cx: Context, node: ast.While, checkpoint: bool) -> None:
    """Emits a While."""
    with cx.setting(top=False):
        before, names, carried, inits = _carry(cx, node, [*node.body, node.test])
        with cx.b.block() as test:
            env = dict(cx.frame.env)
            cond = truth(cx, cx.scalar(node.test), node.test)
            for name, value in env.items():
                if cx.frame.env[name] is not value:
                    raise cx.fail("QL1208", node.test, name=name)
            cx.b.yield_(cond)
        with cx.b.block() as body:
            ends = _body(cx, node, names, lambda: cx.stmts(node.body))
        results = _results(cx, before, names, node, ends)
        loop = N.While(cx.b.fresh(), carried, inits, tuple(test), tuple(body), results, checkpoint=checkpoint)
        cx.b.add(tested_inside(cx.b, loop) if any(isinstance(s, N.Effect) for s in walk(loop.cond)) else loop)
    propagate_return(cx, node)


def _carry(
    cx: Context, node: ast.For | ast.While, body: Iterable[ast.AST]
) -> tuple[Env, tuple[str, ...], tuple[N.Param, ...], tuple[int, ...]]:
    """Makes the locals that the body of a serial loop assigns loop-carried: in the environment, parameters replace
    their numbers. Returns the environment as it was before, the names of the locals, the parameters, and the ids of the
    initial values."""
    before = cx.frame.env
    env = dict(before)
    names: list[str] = []
    params: list[N.Param] = []
    inits: list[int] = []
    for name in changed_locals(cx, node, list(body)):
        value = before.get(name)
        if value is None or not value.is_local or value.is_shared:
            continue
        names.append(name)
        inits += [cx.num(leaf).id for leaf in value.leaves()]
        env[name] = parameters(cx, value, params, name)
    cx.frame.env = env
    return before, tuple(names), tuple(params), tuple(inits)


def _body(cx: Context, node: ast.For | ast.While, names: tuple[str, ...], run: Callable[[], None]) -> list[Env]:
    """Lowers the body of a serial loop by calling ``run``. ``names`` are the locals that the loop carries. Returns the
    environments at the ends of the body: at its last statement, and at each break and continue."""
    head, loop = dict(cx.frame.env), Loop("serial", names)
    outer, cx.frame.loop = cx.frame.loop, loop
    before = {n: v for n, v in cx.frame.env.items() if n not in names and n != "_"}
    with cx.setting(depth=cx.depth + 1, exited=False):
        with known_active(cx):
            run()
        record_changes(cx, node, before, before)
        cx.at(node)
        if not cx.exited:
            cx.b.yield_(*(leaf.id for name in names for leaf in cx.frame.env[name].leaves()))
            loop.exits.append((False, dict(cx.frame.env)))
    merge_into_head(cx, head, [env for is_break, env in loop.exits if not is_break])
    cx.frame.loop = outer
    return [env for _, env in loop.exits]


def _results(
    cx: Context, before: Env, names: tuple[str, ...], node: ast.For | ast.While, ends: list[Env]
) -> tuple[N.Param, ...]:
    """Restores the environment ``before`` the loop, in which results of the loop replace the numbers of the carried
    locals ``names``. Returns the results."""
    cx.end(cx.frame.env, before, node, "loop")
    cx.frame.env = dict(before)
    results: list[N.Param] = []
    for name in names:
        cx.frame.env[name] = parameters(cx, before[name], results, name)
    merge_locals(cx, [before, *ends])
    cx.at(node)
    return tuple(results)


def _exit(cx: Context, node: ast.Break | ast.Continue, word: str) -> None:
    """Lowers a break or continue. In an unrolled loop it raises QL1204 if it depends on a run-time condition."""
    loop, is_break = cx.frame.loop, word == "break"
    assert loop is not None
    if loop.kind == "static":
        if cx.depth > loop.depth:
            raise cx.fail("QL1204", node, what=word)
        loop.left, cx.exited = word, True
        return
    if loop.kind == "task" and is_break:
        raise cx.fail("QL1203", node)
    cx.at(node)
    emit_exit(cx, N.Break if is_break else N.Continue)


STATEMENTS: dict[type, Callable[..., None]] = {
    ast.For: _for, ast.While: _while, ast.Break: partial(_exit, word="break"),
    ast.Continue: partial(_exit, word="continue"),
}  # fmt: skip
