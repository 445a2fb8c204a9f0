"""Loops: parallel tasks at the statement level of the kernel, serial and unrolled loops everywhere else."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from itertools import count as count_from
from math import prod

from quadrants_lab.frontend.diagnostics import count
from quadrants_lab.frontend.syntax.branch import leave
from quadrants_lab.frontend.syntax.changed import changed, missed, settled
from quadrants_lab.frontend.syntax.returns import parameters, resume
from quadrants_lab.frontend.syntax.scan import breaks, returns
from quadrants_lab.frontend.syntax.space import Space, space_of
from quadrants_lab.frontend.syntax.stop_grad import without_derivatives
from quadrants_lab.frontend.syntax.unroll import unroll
from quadrants_lab.frontend.values.arith import truth
from quadrants_lab.frontend.values.context import Context, Env, Loop
from quadrants_lab.frontend.values.leaves import is_local, leaf_names, leaves, mapped
from quadrants_lab.frontend.values.sparse import known
from quadrants_lab.frontend.values.values import Lit, Matrix, Num, Temp
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused, with_adjoint
from quadrants_lab.ir.loop_carried import tested_inside
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import walk

DEFAULT_BLOCK = 128  # threads of a block, where qd.loop_config does not say


def _for(cx: Context, node: ast.For) -> None:
    if node.orelse:
        raise cx.fail("QL1202", node.orelse[0])
    serialize, cx.serialize = cx.serialize, False
    checkpoint, cx.checkpoint = cx.checkpoint, False
    block_dim, cx.block_dim = cx.block_dim or DEFAULT_BLOCK, 0
    with cx.b.block() as bounds:
        value = cx.expr(node.iter)
    static = node.iter in cx.statics
    if checkpoint and (static or (cx.top and not serialize)):
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
        cx.block, cx.blocks = block_dim, False
        _task(cx, node, space, names, list(bounds))
        cx.block = 0

    def serial() -> None:
        cx.checkpoint = checkpoint
        _serial(cx, node, space, names)

    if cx.top and not serialize and not _alone(cx, node, space):
        settled(cx, node, task)
    else:
        cx.b.stmts += bounds
        settled(cx, node, serial)


def _alone(cx: Context, node: ast.For, space: Space) -> bool:
    """Whether it changes locals of the kernel in one iteration at most, which no other one can race for: programs say
    ``for _ in range(1)`` to run in order what is inside."""
    sizes = [e.value - b.value for b, e in space.axes if isinstance(b, Lit) and isinstance(e, Lit)]
    if space.step is not None or len(sizes) < len(space.axes) or prod(max(0, n) for n in sizes) > 1:
        return False
    before = cx.frame.env
    return any(name in before and is_local(before[name]) for name in changed(cx, node, node.body))


def _targets(cx: Context, node: ast.For, space: Space) -> list[ast.Name]:
    """The loop variables, one an axis; none hides a variable that is in use."""
    nodes = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    names = [n for n in nodes if isinstance(n, ast.Name)]
    want = 1 if space.grouped else len(space.axes)
    if len(names) != len(nodes):
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
    """The body of the loop, of which the environment holds the indices."""
    if space.grouped:
        assert isinstance(node.target, ast.Name)
        indices = [cx.frame.env[f"{node.target.id}[{k}]"] for k in range(space.rank)]
        cx.frame.env[node.target.id] = Matrix((len(indices),), tuple(i for i in indices if isinstance(i, Num)))
    if space.active is None:
        cx.stmts(node.body)
        return
    cx.at(node.iter)
    values = [cx.frame.env[n.id] for n in names]
    cell = space.active.emit(cx, [v.id for v in values if isinstance(v, Num)], lambda: leave(cx, N.Continue))
    cx.exited = False
    with known(cx, cell):
        cx.stmts(node.body)


def _stepped(cx: Context, space: Space, begin: int, index: int, name: str, node: ast.For) -> Num:
    """``begin + index * step``; the bits above those of the loop variable change nothing."""
    assert space.step is not None
    cx.at(node.target)
    trip = cx.to(Num(index, space.count_dtype), space.dtype)
    moved = cx.b.op("mul", trip, space.id(cx, space.step))
    return Num(cx.b.op("add", begin, moved, name=name), space.dtype)


def _trips(cx: Context, space: Space, node: ast.For) -> int:
    """ceil((end - begin) / step) for either sign of the step, as -((begin - end) // step) in i64: the distance of two
    i32 need not be one."""
    (begin, end), step = space.axes[0], space.step
    assert step is not None
    cx.at(node.iter)
    if isinstance(begin, Lit) and isinstance(end, Lit) and isinstance(step, Lit):
        return cx.const(len(range(begin.value, end.value, step.value)), space.dtype)
    first, last, by = (cx.to(Num(space.id(cx, x), space.dtype), i64) for x in (begin, end, step))
    if cx.options.debug and not isinstance(step, Lit):
        runs = cx.b.op("ne", by, cx.const(0, i64))
        cx.b.add(N.Assert(cx.b.fresh(), runs, "the step of this range is 0", (), kind="division"))
    trips = cx.b.op("neg", cx.b.op("floordiv", cx.b.op("sub", first, last), by))
    return cx.to(Num(trips, i64), space.count_dtype)


# --- parallel tasks ---------------------------------------------------------------------------------------------


def _task(cx: Context, node: ast.For, space: Space, names: list[ast.Name], bounds: list[N.Stmt]) -> None:
    """An Offload. Locals of the kernel that it assigns become launch temporaries, which it may only accumulate into."""
    if space.step is not None:  # begin and step are needed in the body, which does not see the values of bounds
        cx.b.stmts += bounds
        bounds = []
    t = space.dtype
    before = cx.frame.env
    env = dict(before)
    shared = _share(cx, node, env)
    outer, cx.b.stmts = cx.b.stmts, bounds
    cx.at(node.iter)
    if space.step is not None:
        ids = [cx.const(0, space.count_dtype), _trips(cx, space, node)]
    else:
        ids = [space.id(cx, b) for b, _ in space.axes] + [space.id(cx, e) for _, e in space.axes]
    cx.at(node.iter)
    cx.b.yield_(*ids)
    cx.b.stmts = outer
    if space.step is not None:
        indices: tuple[N.Param, ...] = (cx.b.param(space.count_dtype, ""),)
    else:
        indices = tuple(cx.b.param(t, n.id) for n in names)
    cx.top, loop = False, cx.frame.loop
    cx.frame.env, cx.frame.loop = env, Loop("task", ())
    outside, cx.stopped = cx.stopped, set()
    touched, cx.touched = cx.touched, set()
    with cx.b.block() as body:
        for p, n in zip(indices, names, strict=True):
            env[n.id] = Num(p.id, t)
        if space.step is not None:
            begin = space.id(cx, space.axes[0][0])
            env[names[0].id] = _stepped(cx, space, begin, indices[0].id, names[0].id, node)
        _iteration(cx, node, space, names)
        cx.at(node)
        if not cx.exited:
            cx.b.yield_()
    missed(cx, node, before, (n for n, v in before.items() if n not in shared and n != "_" and is_local(v)))
    cx.exited, cx.top, cx.frame.loop = False, True, loop
    cx.end(cx.frame.env, before, node, "loop")
    cx.frame.env = before
    cx.at(node)
    code = without_derivatives(cx.b, tuple(body), cx.stopped)
    cx.stopped = outside
    if space.active is not None:
        cx.b.stmts += space.active.snapshots(cx, node)
    cx.touched |= touched
    cx.at(node)
    block_dim = cx.block if cx.blocks else 0
    cx.b.add(N.Offload(cx.b.fresh(), space.kind, tuple(bounds), indices, code, block_dim=block_dim))
    for name, value in shared.items():
        cx.at(node)
        cx.frame.env[name] = mapped(value, lambda temp: _read(cx, temp))


def _read(cx: Context, temp: Temp) -> Num:
    """A shared local after the loop."""
    load = N.Load(cx.b.fresh(), temp.buffer.dtype, temp.buffer.name, (), name=temp.name)
    return Num(cx.b.add(load), load.type)


def _share(cx: Context, node: ast.For, env: Env) -> Env:
    """Puts the locals that the body assigns into temporaries, with the values that they have now."""
    shared: Env = {}
    for name in changed(cx, node, node.body):
        value = env.get(name)
        if value is None or not is_local(value):
            continue
        names = leaf_names(value, name)

        def share(leaf: Num, names: Iterator[str] = names) -> Temp:
            called = next(names)
            buffer = _temporary(cx, called, leaf)
            cx.at(node)
            cx.b.store(buffer, (), leaf.id)
            return Temp(buffer, called)

        env[name] = shared[name] = mapped(value, share)
    return shared


def _temporary(cx: Context, name: str, value: Num) -> N.Buffer:
    """A launch temporary for a local, with its adjoint if it can have one."""
    called = unused((f"{N.buffer_name(name)}.tmp{n}" for n in count_from()), cx.buffers)
    return with_adjoint(cx.buffers, N.Buffer(called, "temp", value.type, 0, ()))


# --- serial loops -----------------------------------------------------------------------------------------------


def _serial(cx: Context, node: ast.For, space: Space, names: list[ast.Name]) -> None:
    top, cx.top = cx.top, False
    touched, cx.touched = cx.touched, set()
    before = len(cx.b.stmts)
    if space.step is not None:
        _strided(cx, node, space, names[0])
    elif len(names) > 1 and (breaks(node.body) or returns(node.body)):
        _flat(cx, node, space, names)
    else:
        _nest(cx, node, space, names, 0)
    cx.top = top
    if space.active is not None and (copying := space.active.snapshots(cx, node)):
        if not top:
            raise cx.fail("QL1710", node.iter, text=ast.unparse(node.iter))
        cx.b.stmts[before:before] = copying
    cx.touched |= touched
    resume(cx, node)


def _nest(cx: Context, node: ast.For, space: Space, names: list[ast.Name], axis: int) -> None:
    """One For an axis, the last innermost."""
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
    """A range with a step: downwards by one is a reversed loop, any other counts its trips."""
    (begin, end), step = space.axes[0], space.step
    cx.at(node.iter)
    if isinstance(step, Lit) and step.value == -1:
        one = cx.const(1, space.dtype)

        def plain(index: N.Param) -> None:  # of [end, begin), because begin + 1 need not fit
            cx.frame.env[name.id] = Num(cx.b.op("add", index.id, one, name=name.id), index.type)
            _iteration(cx, node, space, [name])

        _counted(cx, node, space.id(cx, end), space.id(cx, begin), "", plain, reverse=True)
        return
    first = space.id(cx, begin)
    trips = _trips(cx, space, node)

    def body(index: N.Param) -> None:
        cx.frame.env[name.id] = _stepped(cx, space, first, index.id, name.id, node)
        _iteration(cx, node, space, [name])

    _counted(cx, node, cx.const(0, space.count_dtype), trips, "", body)


def _flat(cx: Context, node: ast.For, space: Space, names: list[ast.Name]) -> None:
    """A loop over several axes that a break leaves as a whole: one For over the product of the extents, counted in i64
    where that may not fit."""
    cx.at(node.iter)
    t, known = space.dtype, [e.value - b.value for b, e in space.axes if isinstance(b, Lit) and isinstance(e, Lit)]
    small = len(known) == len(names) and i32.holds(prod(max(0, n) for n in known))
    count = t if small else i64
    begins = [cx.b.cast(space.id(cx, b), count) for b, _ in space.axes]
    zero = cx.const(0, count)
    extents = [
        cx.b.op("max", cx.b.op("sub", cx.b.cast(space.id(cx, e), count), b), zero)
        for b, (_, e) in zip(begins, space.axes, strict=True)
    ]
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
    cx: Context,
    node: ast.For,
    begin: int,
    end: int,
    name: str,
    run: Callable[[N.Param], None],
    reverse: bool = False,
) -> None:
    """A For whose body is lowered by ``run``; it carries the locals that the body assigns."""
    checkpoint, cx.checkpoint = cx.checkpoint, False
    before, names, carried, inits = _carry(cx, node, node.body)
    index = cx.b.param(cx.b.types[begin], name)
    with cx.b.block() as body:
        _body(cx, node, names, lambda: run(index))
    results = _results(cx, before, names, node)
    loop = N.For(cx.b.fresh(), index, begin, end, carried, inits, tuple(body), results, reverse=reverse)
    loop.checkpoint = checkpoint
    cx.b.add(loop)


def _while(cx: Context, node: ast.While) -> None:
    if node.orelse:
        raise cx.fail("QL1202", node.orelse[0])
    if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
        _assigning(node)
    checkpoint, cx.checkpoint = cx.checkpoint, False
    settled(cx, node, lambda: _repeated(cx, node, checkpoint))


def _assigning(node: ast.While) -> None:
    """Makes ``while`` with a ``:=`` in its test, which belongs to the iteration, an endless loop with a break."""
    leaving = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
    for n in (leaving, leaving.test, leaving.body[0]):
        ast.copy_location(n, node.test)
    node.body = [leaving, *node.body]
    node.test = ast.copy_location(ast.Constant(True), node.test)


def _repeated(cx: Context, node: ast.While, checkpoint: bool) -> None:
    top, cx.top = cx.top, False
    before, names, carried, inits = _carry(cx, node, [*node.body, node.test])
    with cx.b.block() as test:
        env = dict(cx.frame.env)
        cond = truth(cx, cx.scalar(node.test), node.test)
        for name, value in env.items():
            if cx.frame.env[name] is not value:
                raise cx.fail("QL1208", node.test, name=name)
        cx.b.yield_(cond)
    with cx.b.block() as body:
        _body(cx, node, names, lambda: cx.stmts(node.body))
    results = _results(cx, before, names, node)
    loop = N.While(cx.b.fresh(), carried, inits, tuple(test), tuple(body), results, checkpoint=checkpoint)
    cx.b.add(tested_inside(cx.b, loop) if any(isinstance(s, N.Effect) for s in walk(loop.cond)) else loop)
    cx.top = top
    resume(cx, node)


def _carry(
    cx: Context, node: ast.For | ast.While, body: Iterable[ast.AST]
) -> tuple[Env, tuple[str, ...], tuple[N.Param, ...], tuple[int, ...]]:
    """The locals that the body assigns, and a parameter for each number in them; the environment now holds these."""
    before = cx.frame.env
    env = dict(before)
    names: list[str] = []
    params: list[N.Param] = []
    inits: list[int] = []
    for name in changed(cx, node, list(body)):
        value = before.get(name)
        if value is None or not is_local(value) or any(isinstance(leaf, Temp) for leaf in leaves(value)):
            continue
        names.append(name)
        inits += [leaf.id for leaf in leaves(value)]
        env[name] = parameters(cx, value, params, name)
    cx.frame.env = env
    return before, tuple(names), tuple(params), tuple(inits)


def _body(cx: Context, node: ast.For | ast.While, names: tuple[str, ...], run: Callable[[], None]) -> None:
    outer, cx.frame.loop = cx.frame.loop, Loop("serial", names)
    cx.depth += 1
    before = {n: v for n, v in cx.frame.env.items() if n not in names and n != "_"}
    with known(cx):
        run()
    missed(cx, node, before, before)
    cx.depth -= 1
    cx.at(node)
    if not cx.exited:
        cx.b.yield_(*(leaf.id for name in names for leaf in leaves(cx.frame.env[name])))
    cx.exited, cx.frame.loop = False, outer


def _results(cx: Context, before: Env, names: tuple[str, ...], node: ast.For | ast.While) -> tuple[N.Param, ...]:
    """Restores the environment, with the carried locals as the loop leaves them."""
    cx.end(cx.frame.env, before, node, "loop")
    cx.frame.env = dict(before)
    results: list[N.Param] = []
    for name in names:
        cx.frame.env[name] = parameters(cx, before[name], results, name)
    cx.at(node)
    return tuple(results)


# --- break and continue -----------------------------------------------------------------------------------------


def _exit(kind: type[N.Break] | type[N.Continue], word: str) -> Callable[..., None]:
    def lower(cx: Context, node: ast.Break | ast.Continue) -> None:
        loop = cx.frame.loop
        assert loop is not None
        if loop.kind == "static":
            if cx.depth > loop.depth:
                raise cx.fail("QL1204", node, what=word)
            loop.left = word
            cx.exited = True
            return
        if loop.kind == "task" and kind is N.Break:
            raise cx.fail("QL1203", node)
        cx.at(node)
        leave(cx, kind)

    return lower


STATEMENTS: dict[type, Callable[..., None]] = {
    ast.For: _for,
    ast.While: _while,
    ast.Break: _exit(N.Break, "break"),
    ast.Continue: _exit(N.Continue, "continue"),
}
