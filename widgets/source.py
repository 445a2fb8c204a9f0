"""The Linked pane shows source, IR after any pass, and code of any backend side by side, with matching lines
marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quadrants_lab.widgets import code, run, stacks
from quadrants_lab.widgets.model import KernelView, StackView
from quadrants_lab.widgets.passes import changed, irs
from quadrants_lab.widgets.tree import Control, Lines, Slot, Tree, Word, bold, empty, menu

if TYPE_CHECKING:
    from quadrants_lab.autodiff.explain import Note

NOT_KNOWN = "the source of this kernel is not known"


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    if not view.source:
        return empty(NOT_KNOWN)
    kernel = prefix.partition("/")[0]
    mode = next((name for name in reversed(view.code) if name in view.traces), next(iter(view.traces), ""))
    codes = [
        (name, [*((title, f"{kernel}/code/{name}/{n}") for n, title in enumerate(code.titles(stages))),
                ("all sizes", f"{kernel}/code/{name}/sizes")])
        for name, stages in view.code.items()
    ]  # fmt: skip
    columns: list[tuple[str, Tree, Tree]] = [("Source", Slot("source", listing(view)), view.name)]
    if view.traces:
        last = f"{kernel}/passes/{mode}/{last_unlowered(view, mode)}/ir"
        columns.append(("IR after", Slot("ir", load=last), menu("Pass", irs(view, f"{kernel}/passes/"), "ir", last)))
    if codes:
        first = next((items[0][1] for name, items in codes if name == mode), codes[0][1][0][1])
        columns.append(("Code", Slot("code", load=first), menu("Stage", codes, "code", first)))
    toggles = [
        Control("button", {"type": "button", "class": "ch", "aria-pressed": "true", "data-hide": str(n)},
                name.removesuffix(" after"))
        for n, (name, _, _) in enumerate(columns)
    ]
    shown: list[Tree] = []
    for n, (name, content, choice) in enumerate(columns):
        grip = {"class": "grip", "role": "separator", "tabindex": "0", "aria-orientation": "vertical"}
        grip |= {"aria-valuenow": "50", "aria-label": f"Width of {columns[n - 1][0]}"}
        shown += [Control("div", grip)] if n else []
        heading = Control("header", {}, [bold(name), " ", choice])
        shown.append(Control("section", {"class": "col", "aria-label": name}, [heading, content]))
    group = Control("span", {"class": "chs", "role": "group", "aria-label": "Columns"}, toggles)
    marks: list[Tree] = [Word("forward", "mark"), " ", Word("its adjoint", "twin"), " ", Word("same line", "near")]
    if view.stacks:
        marks += [" ", Word("v 9", "badge push"), " v is kept, 9 deep"]
    legend = Word(marks, "legend")
    bar = Control("div", {"class": "bar"}, [group, legend])
    return [bar, Control("div", {"class": "linked"}, shown)]


def answer(view: KernelView) -> str:
    """The pane in a sentence: what the gradient keeps, or how long launches took."""
    return stacks.answer(view) or run.answer(view)


def last_unlowered(view: KernelView, mode: str) -> int:
    """The number of the last pass that changed something before the IR was lowered for the device."""
    steps = view.traces[mode]
    return max((n for n, s in enumerate(steps) if not s.lowering and (not n or changed(view, s))), default=0)


def listing(view: KernelView) -> Lines:
    """The source, which begins at the kernel, with what is known of its values in the gutter."""
    return Lines(view.source, "python", f"Source of {view.name}", notes=margin(view), top=beginning(view) or 0)


def beginning(view: KernelView) -> int | None:
    """The place of the kernel's `def` in its source, None if it is not there."""
    head = re.compile(rf"\s*(async )?def {re.escape(view.name)}\(")
    return next((n for n, line in enumerate(view.source) if head.match(line.text)), None)


def margin(view: KernelView) -> dict[int, list[Word]]:
    """Source line -> one badge, because the gutter has no room for more: for the line's stacks, or else for its values
    without a stack. The tip of the badge tells of all of them."""
    stacks: dict[int, list[StackView]] = {}
    for stack in view.stacks:
        stacks.setdefault(stack.line, []).append(stack)
    free: dict[int, list[Note]] = {}
    for note in view.free:
        free.setdefault(note.line, []).append(note)
    return {line: [_badge(stacks.get(line, []), free.get(line, []))] for line in stacks.keys() | free.keys()}


def _badge(stacks: Sequence[StackView], free: Sequence[Note]) -> Word:
    """The badge of a line: the name and depth of its only stack, or the number of its stacks. A narrow column shows
    only the number. Names that the compiler made are left out."""
    depths = ["?" if s.depth is None else f"{s.depth:,}" for s in stacks]
    rows = [f"{s.name}: depth {depth}, {s.reason}; {s.how}" for s, depth in zip(stacks, depths, strict=True)]
    rows += [f"{note.name}: no stack, {note.why}" for note in free]
    if not stacks:
        told: Tree = free[0].name if len(free) == 1 else [str(len(free)), Word(" values", "wide")]
        return Word(told, "badge", "\n".join(rows))
    name = stacks[0].name if stacks[0].name.isidentifier() else "stack"
    one: Tree = [Word(f"{name} ", "wide"), depths[0]]
    several: Tree = [str(len(stacks)), Word(" stacks", "wide")]
    return Word(one if len(stacks) == 1 else several, "badge push", "\n".join(rows))
