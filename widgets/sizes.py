"""The SizeExpr pane: the expression of each stack's depth as a tree, with the values at this launch and sliders that
change the leaves."""

import json
from collections.abc import Iterator, Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets.html import empty, esc, size
from quadrants_lab.widgets.model import KernelView, SizeView, StackView, StepTrace

NO_STACK = "this gradient keeps nothing on a stack, so there is no depth to compute; the pane Stacks says why"
MOST_FOLLOWED = 16  # iterations per task that are traced for the depths they reach
_WIDTHS = {"u1": 0, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "i64": 8, "u64": 8, "f64": 8}


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``seen``: also the depths that traced iterations of the launch reach."""
    shown = [s for s in view.stacks if s.size is not None]
    if not shown:
        launched = bool(view.traces.keys() - {"forward"})
        return empty(NO_STACK if launched else "there is no gradient yet: call .grad() or give --grad LOSS")
    seen, note = observed(view) if rest == ["seen"] else ({}, "")
    data = {
        "arrays": {name: {"data": values, "shape": shape} for name, (values, shape) in view.arrays.items()},
        "stacks": [
            {"name": s.name, "tree": node(s.size), "width": _WIDTHS.get(s.dtype, 4), "bits": s.dtype == "u1",
             "depth": s.depth, "seen": seen.get((s.name, s.line))}
            for s in shown if s.size is not None
        ],
    }  # fmt: skip
    ask = f'<button type="button" class="ch" data-get="{prefix}/seen">watch iterations</button>'
    ask = "" if note or isinstance(view.steps, str) else ask
    bar = (
        f'<div class="bar">{_sliders(view, shown)}</div><p class="ms"><b class="total" role="status"></b> {ask} '
        f'<span class="muted">{esc(note)}</span></p>{_heap(view)}<div class="heap" role="img" '
        'aria-label="The stacks of one iteration, one after the other"></div>'
    )
    parts = "".join(_stack(s, n, (s.name, s.line) in seen) for n, s in enumerate(shown))
    text = esc(json.dumps(data, separators=(",", ":")))
    return f'<div class="sizes" data-sizes="{text}">{bar}{parts}</div>'


def _heap(view: KernelView) -> str:
    """What the launch took; "" if that is not known."""
    held, lanes = view.heap
    if not held:
        return ""
    each = f"for {lanes:,} iterations at a time, {size(held // lanes)} each" if lanes > 1 else "for an iteration"
    return f'<p class="hint">In the launch: {size(held)} {each}; the device rounds the size of each stack up.</p>'


def _stack(s: StackView, n: int, seen: bool) -> str:
    assert s.size is not None
    at = f' data-span-line="{s.line}"' if s.line else ""
    bars = [("now", "worked out"), ("launch", "in the launch"), *([("seen", "seen")] if seen else [])]
    rows = "".join(f'<div data-bar="{k}"><span>{text}</span><u><i></i></u><b></b></div>' for k, text in bars)
    head = f'{esc(s.name)} <span class="muted">line {s.line}, {esc(s.dtype)}</span> <span class="depth ms"></span>'
    why = f"<p>needed as {esc(s.reason)}{f'; {esc(s.choice)}' if s.choice else ''}</p>"
    why += f'<p class="muted">{esc(s.cure)}</p>' if s.cure else ""
    return f'<div data-stack="{n}"><h4{at}>{head}</h4>{why}<div class="bars">{rows}</div>{tree(s.size)}</div>'


def leaves(e: SizeView) -> Iterator[SizeView]:
    """The leaves that differ between launches: arguments, extents, elements, counts."""
    if e.op in ("arg", "shape", "counted", "load"):
        yield e
    for child in e.children:
        yield from leaves(child)


def _sliders(view: KernelView, shown: Sequence[StackView]) -> str:
    """A slider for each leaf: for the value of a number, or for the scale of an array's elements."""
    found = {x.key: (x, s.name) for s in shown if s.size is not None for x in leaves(s.size)}
    out = []
    for key, (x, stack) in found.items():
        scaled = bool(x.children) and key in view.arrays
        if x.value is None and not scaled:
            continue
        value = 100 if scaled else x.value or 0
        name = f"{key}: all elements" if scaled else f"{x.text} to {stack}" if x.op == "counted" else x.text
        top, scale, now = (400, ' data-scale="1"', "× 1") if scaled else (max(4 * value, 16), "", f"{value:,}")
        out.append(
            f'<label class="tg leafs"><code>{esc(name)}</code> <input type="range" min="0" max="{top}" value="{value}" '
            f'data-leaf="{esc(key)}" data-start="{value}"{scale}> <output data-of="{esc(key)}">{now}</output></label>'
        )
    return "".join(out) + ('<button type="button" class="ch" data-reset>as in the launch</button>' if out else "")


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


def tree(e: SizeView) -> str:
    """The tree as nested lists; a node with operands folds."""
    return f'<div class="tree">{_node(e, "0")}</div>'


def _node(e: SizeView, path: str) -> str:
    value = "" if e.value is None else f"= {e.value:,}"
    note = f' <span class="muted">{esc(e.note)}</span>' if e.note else ""
    role = f'<span class="muted">{esc(e.role)}</span> ' if e.role else ""
    head = f'{role}<code>{esc(e.text)}</code> <span class="val">{value}</span>{note}'
    if not e.children:
        return f'<div class="leaf" data-path="{path}">{head}</div>'
    kids = "".join(_node(child, f"{path}.{n}") for n, child in enumerate(e.children))
    return f'<details open><summary data-path="{path}">{head}</summary><div class="kids">{kids}</div></details>'
