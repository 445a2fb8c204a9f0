"""Derivative paths that end on the way: never silent."""

from __future__ import annotations

from collections import deque

from quadrants_lab.autodiff.access import Doubt
from quadrants_lab.autodiff.activity import active_values, flows, links
from quadrants_lab.errors import Label, render
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import types_of, walk


def broken_paths(forward: N.Kernel) -> list[Doubt]:
    """A doubt for each buffer with a gradient whose values reach another one only through operations without
    a derivative (a cast to integer, floor, ...), and for each buffer without a gradient that passes values of one
    on to a later read in the same kernel."""
    types = types_of(forward.body)
    active = active_values(forward)
    succ: dict[int, list[tuple[int, N.Stmt | None]]] = {}  # value -> (value, the statement that ends the derivative)
    loads: dict[str, list[N.Load]] = {}
    targets: set[int] = set()
    stored: dict[int, list[N.Store | N.Atomic]] = {}
    for s in walk(forward.body):
        if isinstance(s, N.Op):
            open_ = flows(s)
            for a in s.args:
                cut = None if a in open_ and s.type.is_float and types[a].is_float else s
                if s.prim not in _COMPARISONS:
                    succ.setdefault(a, []).append((s.id, cut))
        elif isinstance(s, N.Load):
            loads.setdefault(s.buffer, []).append(s)
        elif isinstance(s, (N.Store, N.Atomic)):
            stored.setdefault(s.value, []).append(s)
            if forward.buffers[s.buffer].grad:
                targets.add(s.value)
        for a, b in links(s):
            succ.setdefault(a, []).append((b, None))

    doubts: list[Doubt] = []
    for name, reads in loads.items():
        buffer = forward.buffers[name]
        if buffer.grad and buffer.kind != "temp" and not any(r.id in active for r in reads):
            end = _first_cut([r.id for r in reads], succ, targets)
            if end is not None:
                doubts.append(_cut(name, reads[0], end))
        if not buffer.grad and buffer.dtype.is_float and buffer.kind in ("field", "ndarray"):
            through = _written_with(name, stored, succ, forward, loads)
            if through is not None and _first_cut([r.id for r in reads], succ, targets, need_cut=False):
                doubts.append(_missing(name, reads[0], through))
    return doubts


_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf"})


def _first_cut(
    start: list[int], succ: dict[int, list[tuple[int, N.Stmt | None]]], targets: set[int], need_cut: bool = True
) -> N.Stmt | bool | None:
    """The statement that cuts a path from ``start`` to a target (True where a path has no cut and none is needed)."""
    todo: deque[tuple[int, N.Stmt | None]] = deque((v, None) for v in start)
    seen: set[int] = set()
    while todo:
        v, cut = todo.popleft()
        if v in seen:
            continue
        seen.add(v)
        if v in targets and (cut is not None or not need_cut):
            return cut if cut is not None else True
        todo.extend((w, cut or c) for w, c in succ.get(v, ()))
    return None


def _written_with(
    name: str,
    stored: dict[int, list[N.Store | N.Atomic]],
    succ: dict[int, list[tuple[int, N.Stmt | None]]],
    forward: N.Kernel,
    loads: dict[str, list[N.Load]],
) -> N.Stmt | None:
    """The statement that stores into ``name`` a value which depends on a buffer with a gradient."""
    todo = [r.id for b, reads in loads.items() if forward.buffers[b].grad for r in reads]
    seen: set[int] = set()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        for s in stored.get(v, ()):
            if s.buffer == name:
                return s
        todo += [w for w, c in succ.get(v, ()) if c is None]
    return None


def _cut(name: str, read: N.Load, cut: N.Stmt | bool) -> Doubt:
    assert isinstance(cut, N.Op)
    what = f"{cut.prim} to {cut.type}" if cut.prim == "cast" else cut.prim
    labels = (Label(cut.span, f"{what} has no derivative"), Label(read.span, f"{name} is read here"))
    text = render(
        "QL0406", f"the gradient of {name} is zero: every path to the result ends in an operation without derivative",
        labels, "keep the value in floating point on its way to the result", kind="warning",
    )
    return Doubt(text, cut.span)


def _missing(name: str, read: N.Load, write: N.Stmt) -> Doubt:
    labels = (Label(write.span, f"{name} takes a value that has a gradient"), Label(read.span, "and is read here"))
    text = render(
        "QL0407", f"the gradient stops at {name}, which has none", labels,
        f"make {name} with needs_grad=True", kind="warning",
    )
    return Doubt(text, write.span)
