"""The pane of stack sizes shows the formula (SizeExpr) of each stack's depth as a tree, with the values at this
launch and sliders that change the leaves."""

import json
from collections.abc import Iterator, Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets.model import KernelView, SizeView, StackView, StepTrace
from quadrants_lab.widgets.tree import (
    Block,
    Control,
    SizeTree,
    Tree,
    Word,
    bars,
    button,
    code,
    empty,
    muted,
    size,
)

NO_STACK = "this gradient keeps nothing on a stack, so there is no depth to compute; the pane Stacks says why"
MOST_FOLLOWED = 16  # iterations per task that are traced for the depths they reach
_WIDTHS = {"u1": 0, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "i64": 8, "u64": 8, "f64": 8}


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The part of the pane that a request asks for: ``""`` everything; ``seen`` also the depths that traced
    iterations of the launch reach."""
    shown = [s for s in view.stacks if s.size is not None]
    if not shown:
        launched = bool(view.traces.keys() - {"forward"})
        return empty(NO_STACK if launched else view.no_gradient)
    seen, note = observed(view) if rest == ["seen"] else ({}, "")
    data = {
        "arrays": {name: {"data": values, "shape": shape} for name, (values, shape) in view.arrays.items()},
        "stacks": [
            {"name": s.name, "tree": node(s.size), "width": _WIDTHS.get(s.dtype, 4), "bits": s.dtype == "u1",
             "depth": s.depth, "seen": seen.get((s.name, s.line))}
            for s in shown if s.size is not None
        ],
    }  # fmt: skip
    ask = () if note or isinstance(view.steps, str) else button("watch iterations", f"{prefix}/seen")
    total = Control("b", {"class": "total", "role": "status"})
    one = {"class": "heap", "role": "img", "aria-label": "The stacks of one thread, one after the other"}
    body: Tree = [
        Control("div", {"class": "bar"}, _sliders(view, shown)),
        Block([total, " ", ask, " ", muted(note)], "ms"),
        _heap(view),
        Control("div", one) if len(shown) > 1 else (),
        [_stack(s, n, (s.name, s.line) in seen) for n, s in enumerate(shown)],
    ]
    return Control("div", {"class": "sizes", "data-sizes": json.dumps(data, separators=(",", ":"))}, body)


def answer(view: KernelView) -> str:
    """The pane in a sentence: how deep the deepest stack is, and why."""
    deep = [s for s in view.stacks if s.size is not None]
    if not deep:
        return ""
    most = max(deep, key=lambda s: s.depth or 0)
    of = f"Of {len(deep)} stacks the deepest is that of {most.name}" if len(deep) > 1 else f"The stack of {most.name}"
    value = "" if most.depth is None or most.size is None or most.size.op == "const" else f" = {most.depth:,}"
    return f"{of}{', ' if len(deep) > 1 else ' is '}{most.size.text if most.size else ''}{value} deep."


def _heap(view: KernelView) -> Tree:
    """The memory that all stacks took in the launch; nothing if it is unknown."""
    held, lanes = view.heap
    if not held:
        return ()
    each = f"for {lanes:,} threads at a time, {size(held // lanes)} each" if lanes > 1 else "for one thread"
    return Block(f"In the launch: {size(held)} {each}; the device rounds the size of each stack up.", "hint")


def _stack(s: StackView, n: int, seen: bool) -> Tree:
    assert s.size is not None
    shown = [("predicted", "now"), ("in the launch", "launch"), *([("seen", "seen")] if seen else [])]
    body = [
        Block([s.name, " ", muted(f"line {s.line}, {s.dtype}"), " ", Word("", "depth ms")], "h4", s.line),
        Block(f"needed as {s.reason}" + (f"; {s.choice}" if s.choice else "")),
        Block(muted(f"To save it: {s.cure}")) if s.cure else (),
        bars([(name, 0.0, "", kind) for name, kind in shown]),
        SizeTree(s.size),
    ]
    return Control("div", {"data-stack": str(n)}, body)


def leaves(e: SizeView) -> Iterator[SizeView]:
    """The leaves that differ between launches: arguments, extents, elements, counts."""
    if e.op in ("arg", "shape", "counted", "load"):
        yield e
    for child in e.children:
        yield from leaves(child)


def _sliders(view: KernelView, shown: Sequence[StackView]) -> Tree:
    """A slider for each leaf: for the value of a number, or for the scale of an array's elements."""
    found = {x.key: (x, s.name) for s in shown if s.size is not None for x in leaves(s.size)}
    out: list[Tree] = []
    for key, (x, stack) in found.items():
        scaled = bool(x.children) and key in view.arrays
        if x.value is None and not scaled:
            continue
        value = 100 if scaled else x.value or 0
        name = f"{key}: all elements" if scaled else f"{x.text} to {stack}" if x.op == "counted" else x.text
        top, scale, now = (400, {"data-scale": "1"}, "× 1") if scaled else (max(4 * value, 16), {}, f"{value:,}")
        slider = {"type": "range", "min": "0", "max": str(top), "value": str(value)}
        slider |= {"data-leaf": key, "data-start": str(value), **scale}
        parts: Tree = [code(name), " ", Control("input", slider), " ", Control("output", {"data-of": key}, now)]
        out.append(Control("label", {"class": "tg leafs"}, parts))
    reset = Control("button", {"type": "button", "class": "ch", "data-reset": ""}, "as in the launch")
    return [Word("What if:", "b"), *out, reset] if out else ()


def node(e: SizeView) -> list[object]:
    """The node for the browser: [op, text, children, value, role, note, key]."""
    value = int(e.text.strip("()")) if e.op == "const" else e.value
    return [e.op, e.text, [node(c) for c in e.children], value, e.role, e.note, e.key]


def observed(view: KernelView) -> tuple[dict[tuple[str, int], int], str]:
    """The greatest heights of the stacks, by name and line, in the first iterations of the recorded launch, and a text
    with the number of these iterations."""
    if isinstance(view.steps, str):
        return {}, view.steps or "no launch was recorded"
    heights: dict[tuple[str, int], int] = {}
    followed = 0
    launch = view.steps.shown
    for task in range(len(launch.tasks)):
        for lane in map(str, range(MOST_FOLLOWED)):
            try:
                trace = launch.make(task, lane, "")
            except QuadrantsError:
                break
            followed += 1
            for stack, height in enumerate(_heights(trace)):
                name, line, _ = trace.stacks[stack]
                heights[name, line] = max(heights.get((name, line), 0), height)
    return heights, f"seen: the greatest of {followed} iterations, followed step by step"


def _heights(trace: StepTrace) -> list[int]:
    now, most = [0] * len(trace.stacks), [0] * len(trace.stacks)
    for at, _, _ in trace.events:
        statement = trace.statements[at]
        if statement.kind in ("push", "pop"):
            now[statement.stack] += 1 if statement.kind == "push" else -1
            most[statement.stack] = max(most[statement.stack], now[statement.stack])
    return most
