"""The data-access rule: what the reverse reads again from memory must still be there.

The reverse starts from the memory that the forward left. Each load that its forward slice repeats is compared with
every write of the forward to the same buffer that may come later: provably another element (or provably earlier),
silent; provably the same, an error that names both lines; otherwise one warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from itertools import combinations

from quadrants_lab.errors import Label, QuadrantsCompilationError, QuadrantsWarning, render
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import types_of, walk

SAFE, OVERLAP, UNKNOWN = "safe", "overlap", "unknown"
Affine = tuple[dict[str, int], int]  # coefficient of each symbol, constant
Ranges = dict[str, tuple[int, int]]


@dataclass(slots=True)
class Access:
    """One load or write of the forward kernel: its statement, task number, place in program order and loops;
    ``certain``: it happens once in every launch. ``ranges``: least and greatest value of indices, where constant."""

    stmt: N.Load | N.Store | N.Atomic
    task: N.Offload
    number: int
    order: int
    loops: tuple[N.Stmt, ...]
    at: tuple[Affine | None, ...] = field(default=())
    certain: bool = False
    ranges: Ranges = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something about a gradient that is probably not meant: a whole diagnostic and the line that it is about.

    ``read`` and ``writes``: where the data-access rule cannot be decided, the forward load that the gradient repeats
    and the writes that may come later.
    """

    text: str
    span: Span | None
    read: int = N.NO_ID
    writes: tuple[int, ...] = ()


def check_data_access(forward: N.Kernel, reverse: N.Kernel, ignore: set[str] | None = None) -> list[Doubt]:
    """Raises QuadrantsCompilationError where a value that the (simplified) reverse reads again is provably
    overwritten; returns one doubt for each load where that cannot be decided. ``ignore``: buffers of derivatives
    (None: the adjoints)."""
    accesses = _accesses(forward)
    derivatives = {b.grad for b in forward.buffers.values()} if ignore is None else ignore
    loads = [s for s in walk(reverse.body) if isinstance(s, N.Load) and s.buffer not in derivatives]
    repeated = {s.id if s.adjoint_of == N.NO_ID else s.adjoint_of for s in loads}
    compared = {s.adjoint_of for s in loads}  # an atomic min or max, with the final memory
    writes: dict[str, list[Access]] = {}
    for a in accesses.values():
        if not isinstance(a.stmt, N.Load):
            writes.setdefault(a.stmt.buffer, []).append(a)
    doubts: list[Doubt] = []
    for v in sorted(repeated & set(accesses)):
        read = accesses[v]
        if isinstance(read.stmt, N.Atomic) and v in compared:
            for write in writes[read.stmt.buffer]:
                if write.number > read.number:
                    raise _overwritten(read, write)
            continue
        if isinstance(read.stmt, N.Atomic):
            raise QuadrantsCompilationError(
                f"the gradient needs the old value that this atomic returned from {read.stmt.buffer}",
                code="QL0403",
                labels=(Label(read.stmt.span, "depends on the order of the threads"),),
                help="compute the value without an atomic; or write it to a field, and read that in another loop",
            )
        if not isinstance(read.stmt, N.Load) or forward.buffers[read.stmt.buffer].kind == "temp":
            continue
        unknown: list[Access] = []
        for write in writes.get(read.stmt.buffer, ()):
            verdict = relation(read, write)
            if verdict == OVERLAP:
                raise _overwritten(read, write)
            if verdict == UNKNOWN:
                unknown.append(write)
        if unknown:
            text = render("QL0405", f"the gradient may need a value of {read.stmt.buffer} that is gone",
                          _labels(read, unknown[0]), f"{_HELP}; qd.ad.Tape(..., validation=True) checks each element",
                          kind="warning")
            doubts.append(Doubt(text, read.stmt.span, v, tuple(w.stmt.id for w in unknown)))
    return doubts


def warn(doubts: list[Doubt]) -> None:
    """Issues each doubt as a warning that is located where the user's line is; one that several copies of a statement
    raise is one."""
    for d in {(d.text, d.span): d for d in doubts}.values():
        file, line = (d.span.file, d.span.line) if d.span else ("<kernel>", 0)
        warnings.warn_explicit(d.text, QuadrantsWarning, file, line)


_HELP = "keep every value in an element of its own, for instance along an axis of time: u[t + 1, i] from u[t, i]"


def _overwritten(read: Access, write: Access) -> QuadrantsCompilationError:
    return QuadrantsCompilationError(
        f"the gradient needs the value of {read.stmt.buffer} that the kernel overwrites",
        code="QL0404",
        labels=_labels(read, write),
        help=_HELP,
    )


def _labels(read: Access, write: Access) -> tuple[Label, ...]:
    return (Label(read.stmt.span, "read here, and again for the gradient"), Label(write.stmt.span, "written here"))


def relation(read: Access, write: Access) -> str:
    """Whether ``write`` can change what ``read`` saw, after it was read: safe (it cannot), overlap, unknown."""
    if write.number < read.number:
        return SAFE
    pairs = list(zip(read.at, write.at, strict=True))
    if any(_differ_always(a, b) for a, b in (*pairs, *_diagonals(pairs))):
        return SAFE
    if any(_apart(_box(a, read.ranges), _box(b, write.ranges)) for a, b in pairs):
        return SAFE
    if write.number > read.number:
        return OVERLAP if _same_box(read, write) or (write.certain and _one_element(pairs)) else UNKNOWN
    indices = _moving_indices(read.task)
    common = [a for a, b in zip(read.loops, write.loops, strict=False) if a is b]
    # the part of the index that distinguishes iterations of the task must be the same in both
    own = {s for a, b in pairs if a is not None and a == b for s in a[0]}
    if not indices <= own:
        return UNKNOWN
    moving = [(a, b) for a, b in pairs if a != b]
    if not common and write.order < read.order:
        return SAFE  # no loop brings the write back
    if not moving and not common:
        return OVERLAP
    if not moving and (_repeats(read, common) or write.order > read.order):
        return OVERLAP
    fixed = {f"%{p.id}" for p in read.task.indices}  # of one iteration: what others do at the same time is not defined
    return SAFE if _is_earlier(pairs, common, fixed, write.order < read.order) else UNKNOWN


def _moving_indices(task: N.Offload) -> set[str]:
    """The task's indices, without those of axes that are one iteration long."""
    consts = {s.id: s.value for s in task.bounds if isinstance(s, N.Const)}
    end = task.bounds[-1]
    assert isinstance(end, N.Yield)
    k = len(task.indices)
    bounds = zip(task.indices, end.values[:k], end.values[k:], strict=True)
    return {f"%{p.id}" for p, b, e in bounds if not (b in consts and e in consts and consts[e] - consts[b] <= 1)}


def _is_earlier(
    pairs: list[tuple[Affine | None, Affine | None]], loops: list[N.Stmt], fixed: set[str], before: bool
) -> bool:
    """Whether the element is written, if at all, earlier than it is read. Along one of the loops around both, what is
    written is ahead of what is read: read at j + a and written at j + b, with b > a, it is written in an earlier
    iteration. The loops outside of that one stand still: an axis that is the same for both tells them apart. Where all
    do, the write comes ``before`` the read. ``fixed``: symbols that are the same for both."""
    def known(form: Affine, index: str) -> bool:
        return all(s == index or s in fixed or s.startswith("!") for s in form[0])

    for loop in loops:
        if not isinstance(loop, N.For):
            return False
        index, still = f"%{loop.index.id}", False
        for a, b in pairs:
            if a is None or b is None or a[0] != b[0] or index not in a[0] or not known(a, index):
                continue
            onwards = -a[0][index] if loop.reverse else a[0][index]
            if (b[1] - a[1]) * onwards > 0:
                return True
            still = still or a[1] == b[1]
        if not still:
            return False
        fixed = fixed | {index}
    return before


def _diagonals(pairs: list[tuple[Affine | None, Affine | None]]) -> list[tuple[Affine | None, Affine | None]]:
    """Sums and differences of two axes: the anti-diagonals along which tables are filled."""
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return [
        (_sum(a, c, sign), _sum(b, d, sign)) for (a, b), (c, d) in combinations(known, 2) for sign in (1, -1)
    ]


def _sum(a: Affine, b: Affine, sign: int) -> Affine:
    terms = {k: a[0].get(k, 0) + sign * b[0].get(k, 0) for k in {**a[0], **b[0]}}
    return {k: c for k, c in terms.items() if c}, a[1] + sign * b[1]


def _repeats(read: Access, common: list[N.Stmt]) -> bool:
    """Whether the element read is the same in every iteration of the common loops."""
    inner = {f"%{v}" for v in types_of(tuple(common))}
    return all(a is not None and not inner & set(a[0]) for a in read.at)


def _differ_always(a: Affine | None, b: Affine | None) -> bool:
    """Both are the same up to a constant, and made of launch-uniform symbols only."""
    if a is None or b is None or a[0] != b[0] or a[1] == b[1]:
        return False
    return all(s.startswith("!") for s in a[0])


def _box(form: Affine | None, ranges: Ranges) -> tuple[int, int] | None:
    """Least and greatest value of the index, where they are constants."""
    if form is None or not form[0].keys() <= ranges.keys():
        return None
    ends = [sorted(k * end for end in ranges[s]) for s, k in form[0].items()]
    return form[1] + sum(low for low, _ in ends), form[1] + sum(high for _, high in ends)


def _apart(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and (a[1] < b[0] or b[1] < a[0])


def _one_element(pairs: list[tuple[Affine | None, Affine | None]]) -> bool:
    """Whether both are the same element, which does not depend on iterations."""
    return all(a is not None and a == b and all(s.startswith("!") for s in a[0]) for a, b in pairs)


def _same_box(read: Access, write: Access) -> bool:
    """Two tasks that each visit every element by their indices (of a vector or matrix one component), over the same
    constant bounds."""
    def plain(a: Access) -> list[int] | None:
        want = [({f"%{p.id}": 1}, 0) for p in a.task.indices]
        component = a.at[len(want) :]
        if a.loops or list(a.at[: len(want)]) != want or any(c is None or c[0] for c in component):
            return None
        consts = {s.id: s.value for s in a.task.bounds if isinstance(s, N.Const)}
        end = a.task.bounds[-1]
        assert isinstance(end, N.Yield)
        return [consts[v] for v in end.values] if all(v in consts for v in end.values) else None

    box = plain(read)
    return box is not None and box == plain(write)


def _accesses(kernel: N.Kernel) -> dict[int, Access]:
    out: dict[int, Access] = {}

    def visit(
        block: N.Block, task: N.Offload, number: int, loops: tuple[N.Stmt, ...], defs: dict[int, N.Stmt], certain: bool,
        ranges: Ranges,
    ) -> None:  # fmt: skip
        for s in block:
            if isinstance(s, N.Value):
                defs[s.id] = s
            if isinstance(s, (N.Load, N.Store, N.Atomic)):
                at = tuple(_affine(i, defs) for i in s.index)
                out[s.id] = Access(s, task, number, len(out), loops, at, certain, ranges)
            inner = (*loops, s) if isinstance(s, (N.For, N.While)) else loops
            known = ranges
            if isinstance(s, N.For):
                known = ranges | _range(s.index, defs.get(s.begin), defs.get(s.end))
            for b in s.blocks():
                visit(b, task, number, inner, defs, False, known)

    for number, task in enumerate(kernel.body):
        assert isinstance(task, N.Offload)
        bounds: dict[int, N.Stmt] = {}
        visit(task.bounds, task, number, (), bounds, True, {})
        end, k, ranges = task.bounds[-1], len(task.indices), Ranges()
        assert isinstance(end, N.Yield)
        for p, low, high in zip(task.indices, end.values[:k], end.values[k:], strict=True):
            ranges |= _range(p, bounds.get(low), bounds.get(high))
        visit(task.body, task, number, (), {}, task.kind == "serial", ranges)
    return out


def _range(index: N.Param, begin: N.Stmt | None, end: N.Stmt | None) -> Ranges:
    if not isinstance(begin, N.Const) or not isinstance(end, N.Const) or end.value <= begin.value:
        return {}
    return {f"%{index.id}": (int(begin.value), int(end.value) - 1)}


def _affine(v: int, defs: dict[int, N.Stmt]) -> Affine | None:
    """The index as an affine form. Symbols: ``!...`` for what is uniform over a launch, ``%id`` for the rest: also for
    what rounds or wraps around on the way, which is floats and narrow integers."""
    s = defs.get(v)
    if isinstance(s, N.Value) and not _exact(s):
        return {f"%{v}": 1}, 0
    match s:
        case N.Const(value=value):
            return {}, int(value)
        case N.ArgLoad(arg=arg):
            return {f"!arg {arg}": 1}, 0
        case N.ShapeOf(buffer=buffer, axis=axis):
            return {f"!shape {buffer} {axis}": 1}, 0
        case N.Op(prim="add" | "sub" as prim, args=(x, y)):
            a, b = _affine(x, defs), _affine(y, defs)
            if a is None or b is None:
                return None
            return _sum(a, b, 1 if prim == "add" else -1)
        case N.Op(prim="mul", args=(x, y)):
            a, b = _affine(x, defs), _affine(y, defs)
            if a is None or b is None or (a[0] and b[0]):
                return None
            (terms, c), k = (a, b[1]) if a[0] else (b, a[1])
            return {n: t * k for n, t in terms.items() if t * k}, c * k
        case N.Op(prim="cast", args=(x,)):
            return _affine(x, defs)
    return {f"%{v}": 1}, 0


def _exact(s: N.Value) -> bool:
    return s.type.is_int and s.type.bits >= 32
