"""Gives loops of sines and cosines a second version for arguments near zero, for GPUs whose own functions are
accurate there.

for j in a..b carry v = x { sin(v) + c } becomes

    if |x| <= 3 {
      for j in a..b carry v = x {
        unit_sin(v) * (|v| < 0.0113 ? 0 : 1) + (|v| < 0.0113 ? v + c : c)
      }
    } else { for j in a..b carry v = x { sin(v) + c } }

An ordinary sine first reduces its argument to -pi .. pi, in steps that wait for each other, although most arguments are
in that range already. The first of the two loops leaves out this reduction. It runs if the values on entry are near
zero; intervals have proved that the arguments then stay near zero in all trips. The sine of a small argument is the
argument itself; the code computes it beside the device's sine, not after it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from quadrants_lab.analysis.ranges import FLOATS, Interval
from quadrants_lab.backends.lower.functions import SMALL
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import f32
from quadrants_lab.ir.walk import (
    end_of,
    find,
    map_blocks,
    of_kind,
    reached,
    renamed,
    rewrite_in,
    rules,
    types_of,
    uses,
    walk,
)

BOUND = 3.0  # below pi by more than the rounding error of the intervals' bounds
LONGEST = 400  # a loop with more statements is not emitted twice
_HUGE = 1e18  # sums and products of smaller numbers are finite
# threads that take different loops would not meet at a barrier
_UNSPLIT = (N.Loop, N.Exit, N.Barrier, N.GroupReduce, N.ThreadExit)
_UNITS = {"sin": "unit_sin", "cos": "unit_cos"}


def lower_near_sines(kernel: N.Kernel) -> N.Kernel:
    """In tasks whose ``near_sines`` is set, guarantees that innermost loops do not reduce arguments of sines that are
    proved to stay near zero."""
    if not any(task.near_sines for task in kernel.tasks):
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))

    def lowered(task: N.Offload) -> N.Offload:
        constants = _constants(task)

        def versions(loop: N.For) -> N.Stmt | list[N.Stmt]:
            near = _near(loop, constants)
            return loop if near is None else b.made(_versions, b, loop, near)

        return rewrite_in(task, rules({N.For: versions}))

    body = tuple(lowered(task) if task.near_sines else task for task in kernel.tasks)
    return replace(kernel, body=body, next_id=b.next_id)


def has_near_sines(task: N.Offload) -> bool:
    """Whether some innermost loop of the task has sines whose arguments are proved to stay near zero."""
    if not any(map(_is_sine, walk(task.body))):
        return False
    constants = _constants(task)
    return any(_near(s, constants) is not None for s in find(task.body, N.For))


def _constants(task: N.Offload) -> dict[int, Interval]:
    return {s.id: (s.value, s.value) for s in find((task,), N.Const) if s.type is f32 and abs(s.value) < _HUGE}


def _is_sine(s: N.Stmt) -> bool:
    return isinstance(s, N.Op) and s.prim in _UNITS and s.type is f32


# --- which sines ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Near:
    """The ids of sines and cosines of a loop whose arguments stay near zero, if the values on entry, ``inits``, are
    near zero."""

    sines: frozenset[int]
    inits: tuple[int, ...]


def _near(loop: N.For, constants: Mapping[int, Interval]) -> _Near | None:
    inside = list(walk(loop.body))
    if not any(map(_is_sine, inside)) or len(inside) > LONGEST:
        return None
    if any(of_kind(inside, _UNSPLIT)):
        return None
    last = dict(zip((p.id for p in loop.carried), end_of(loop.body).values, strict=True))
    assumed = {p.id for p in loop.carried if p.type is f32}
    # in each round, an assumption is dropped if the value after a trip is not near zero; with fewer assumptions, less
    # can be proved
    while True:
        known = _intervals(loop.body, {**constants, **dict.fromkeys(assumed, (-BOUND, BOUND))})
        kept = {i for i in assumed if _is_near(known.get(last[i]))}
        if kept == assumed:
            break
        assumed = kept
    sines = [s for s in inside if _is_sine(s) and _is_near(known.get(s.operands()[0]))]
    sources: dict[int, list[int]] = {i: [last[i]] for i in assumed}
    for s in inside:
        for value, result in merges(s):
            sources.setdefault(result, []).append(value)
        sources.setdefault(s.id, []).extend(s.operands())
    needed = reached((s.operands()[0] for s in sines), lambda i: sources.get(i, ()))
    inits = tuple(i for p, i in zip(loop.carried, loop.inits, strict=True) if p.id in assumed and p.id in needed)
    return _Near(frozenset(s.id for s in sines), inits) if sines else None


def _is_near(interval: Interval | None) -> bool:
    return interval is not None and interval[0] >= -BOUND and interval[1] <= BOUND


def _intervals(block: N.Block, known: dict[int, Interval]) -> dict[int, Interval]:
    """Maps the id of each f32 value of the block to its least and greatest value. ``known`` has the intervals of values
    from outside the block, and also gets the new ones. A value that may be NaN has no interval."""
    for s in block:
        if isinstance(s, N.If):
            ends = [end_of(inner).values for inner in s.blocks() if _intervals(inner, known) is known]
            for p, a, c in zip(s.results, *ends, strict=True):
                if a in known and c in known:
                    known[p.id] = FLOATS["select"](known[a], known[c])
        elif isinstance(s, N.Op) and s.type is f32 and s.prim in FLOATS:
            args = s.args[1:] if s.prim == "select" else s.args
            if all(a in known for a in args):
                low, high = FLOATS[s.prim](*(known[a] for a in args))
                if max(-low, high) < _HUGE:
                    known[s.id] = low, high
    return known


# --- the new loop -----------------------------------------------------------------------------------------------


def _versions(b: Builder, loop: N.For, near: _Near) -> None:
    b.span = loop.span
    if not near.inits:
        b.add(_by_unit(b, loop, near.sines))
        return
    test = b.reduced("and", (b.op("le", b.op("abs", init), b.const(BOUND, f32)) for init in near.inits))
    ids: dict[int, int] = {}
    copy = renamed(loop, b.fresh, ids)
    b.types |= {new: b.types[old] for old, new in ids.items()}
    then = b.made(_arm, b, _by_unit(b, copy, {ids[i] for i in near.sines}))
    orelse = b.made(_arm, b, loop)
    b.span = loop.span
    b.add(N.If(b.fresh(), test, tuple(then), tuple(orelse), loop.results))


def _arm(b: Builder, loop: N.For) -> None:
    results = tuple(b.param(p.type, p.name) for p in loop.results)
    b.add(replace(loop, results=results))
    b.yield_(*(p.id for p in results))


def _by_unit(b: Builder, loop: N.For, sines: Collection[int]) -> N.For:
    used = uses(loop.body)

    def block(stmts: N.Block) -> N.Block:
        with b.block() as made:
            _emit(b, [map_blocks(s, block) for s in stmts], sines, used)
        return tuple(made)

    return replace(loop, body=block(loop.body))


@dataclass(frozen=True, slots=True)
class _Sine:
    """A sine together with the product and the sum that read it. Its value is ``small`` if the flag ``is_small`` is
    set, and ``unit * factor + rest`` otherwise, where ``unit`` is the device's sine. NO_ID stands for 1 as a factor and
    for -0 as a rest."""

    unit: int
    is_small: int
    small: int
    factor: int = N.NO_ID
    rest: int = N.NO_ID


def _emit(b: Builder, stmts: Sequence[N.Stmt], sines: Collection[int], used: Mapping[int, int]) -> None:
    """Emits the statements of a block. If only a product or a sum reads a sine, the sine is computed where that
    statement stands; likewise a product of a sine that only a sum reads."""
    into = _read_once(stmts, sines, used)
    waiting: dict[int, _Sine] = {}
    for s in stmts:
        b.span = s.span
        source = next((i for i in s.operands() if into.get(i) == s.id), N.NO_ID)
        if isinstance(s, N.Op) and source != N.NO_ID:
            sine = _joined(b, s, source, waiting.pop(source))
        elif isinstance(s, N.Op) and s.id in sines and s.prim == "sin":
            (x,) = s.args
            is_small = b.op("lt", b.op("abs", x), b.const(SMALL, f32))
            sine = _Sine(b.op("unit_sin", x), is_small, x)
        else:
            b.add(replace(s, prim="unit_cos") if isinstance(s, N.Op) and s.id in sines else s)
            continue
        if s.id in into:
            waiting[s.id] = sine
        else:
            factor = b.const(1.0, f32) if sine.factor == N.NO_ID else sine.factor
            factor = b.op("select", sine.is_small, b.const(0.0, f32), factor)
            rest = b.const(-0.0, f32) if sine.rest == N.NO_ID else sine.rest
            terms = b.op("mul", sine.unit, factor), b.op("select", sine.is_small, sine.small, rest)
            b.add(replace(s, prim="add", args=terms))


def _joined(b: Builder, s: N.Op, source: int, sine: _Sine) -> _Sine:
    """The sine ``sine`` after the product or sum ``s``, whose operand ``source`` it is."""
    (other,) = (i for i in s.args if i != source)
    small = b.op(s.prim, sine.small, other)
    if s.prim == "mul":
        return replace(sine, small=small, factor=other)
    return replace(sine, small=small, rest=other if s.prim == "add" else b.op("neg", other))


def _read_once(stmts: Sequence[N.Stmt], sines: Collection[int], used: Mapping[int, int]) -> dict[int, int]:
    """Maps the id of a sine, or of a product with a sine, to the id of the product or sum that alone reads it."""
    into: dict[int, int] = {}
    made = {s.id: s.prim for s in of_kind(stmts, N.Op) if s.id in sines and s.prim == "sin"}
    for s in stmts:
        if isinstance(s, N.Op) and s.type is f32 and s.prim in ("add", "sub", "mul"):
            wanted = ("sin",) if s.prim == "mul" else ("sin", "mul")
            operands = s.args[:1] if s.prim == "sub" else s.args
            if found := [i for i in operands if made.get(i) in wanted and used[i] == 1]:
                into[found[0]] = s.id
                made[s.id] = s.prim
    return into
