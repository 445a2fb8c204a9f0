"""The Beside pane: two kernels, edits, backends or launches side by side, with what differs marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from quadrants_lab.widgets import code
from quadrants_lab.widgets.diff import ranges
from quadrants_lab.widgets.history import ratio
from quadrants_lab.widgets.model import BackendRun, KernelView, LaunchView, Line, view_lines
from quadrants_lab.widgets.run import took_of
from quadrants_lab.widgets.source import last_unlowered
from quadrants_lab.widgets.tree import (
    Block,
    Difference,
    Fold,
    Lines,
    Slot,
    Table,
    Tree,
    Word,
    choices,
    empty,
    foot,
    menu,
    seconds,
    size,
)

MOST_EXPORTED = 4  # other kernels whose comparison an exported page has
NOTHING = "nothing stands beside this kernel: no other kernel, edit, launch or backend is known"


@dataclass(frozen=True, slots=True)
class Side:
    """One of two things: a kernel, on a ``backend`` ("": where it ran), with all its launches or with one."""

    name: str
    view: KernelView
    backend: str = ""
    launch: LaunchView | None = None

    @property
    def home(self) -> str:
        return next((s[0].backend for s in self.view.code.values() if s), "")

    @property
    def launches(self) -> list[LaunchView]:
        return self.view.launches if self.launch is None else [self.launch]

    def run(self, launch: LaunchView) -> BackendRun | None:
        """The launch on the backend of this side, if the cell repeated it there."""
        wanted = self.backend or self.home
        return next((r for r in launch.compared if r.name.split(",")[0] == wanted and not r.problem), None)


def others(view: KernelView) -> dict[str, dict[str, tuple[Side, Side]]]:
    """Group -> key of a request -> the two sides, the older one first."""
    own = Side(view.name, view)
    kernels = {f"kernel{n}": (own, Side(k.name, k)) for n, k in enumerate(view.cell) if k is not view}
    edit = {"edit": (Side("the last edit", view.before), Side("this edit", view))} if view.before else {}
    last = {x.mode: x for x in view.launches}
    launches = {
        f"launch{n}": (Side(name, view, launch=x), Side(f"the last launch, {x.mode}", view, launch=last[x.mode]))
        for n, (name, x) in enumerate(view.past)
        if x.mode in last
    }
    names = dict.fromkeys(s.backend for stages in view.code.values() for s in stages)
    home = Side(own.home, view, own.home)
    backends = {name: (home, Side(name, view, name)) for name in names if name != own.home}
    groups = {"kernels": kernels, "edits": edit, "launches": launches, "backends": backends}
    return {group: items for group, items in groups.items() if items}


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """``""``: everything; ``key``: that comparison; ``key/what``: the difference of two listings; ``key/what/0`` and
    ``.../1``: one of the two."""
    groups = others(view)
    pairs = {key: pair for items in groups.values() for key, pair in items.items()}
    if not pairs:
        return empty(NOTHING)
    if not rest:
        first = next(iter(pairs))
        items = [(g, [(_other(view, *pair), f"{prefix}/{key}") for key, pair in of.items()]) for g, of in groups.items()]
        many = {request for group, of in items if group == "kernels" for _, request in of[MOST_EXPORTED:]}
        pick = menu("beside", items, "beside", f"{prefix}/{first}", many)
        bar = Block([f"{view.name} beside ", pick], "bar")
        return [bar, Slot("beside", beside(*pairs[first], f"{prefix}/{first}"))]
    if (pair := pairs.get(rest[0])) is None:
        return empty("there is no other side of this name")
    if len(rest) == 1:
        return beside(*pair, "/".join((prefix, *rest)))
    made = [listings(side).get(rest[1]) for side in pair]
    if None in made or rest[2:] not in ([], ["0"], ["1"]):
        return empty("there is no such listing on both sides")
    before, after = (make() for make in made if make is not None)
    request = "/".join((prefix, *rest[:2]))
    return [before, after][int(rest[2])] if rest[2:] else Difference(before, after, (f"{request}/0", f"{request}/1"))


def beside(a: Side, b: Side, prefix: str = "") -> Tree:
    """Two sides: first the figures, then listings, of which a row of buttons chooses one; without a ``prefix`` for
    requests all that differ, folded."""
    left, right = (dict(figures(side)) for side in (a, b))
    rows: list[list[Tree]] = []
    for name in dict.fromkeys((*left, *right)):
        (one, x), (two, y) = left.get(name, ("–", None)), right.get(name, ("–", None))
        kind = "" if one == two else "val"
        apart = "" if not kind else f"only {a.name}" if name not in right else f"only {b.name}" if name not in left else "differs"
        if x and y and kind:
            apart = ratio(y / x) if name.startswith("launch") else f"{y / x:.3g} times"
        rows.append([name, *(Word(text, kind) if kind else text for text in (one, two)), apart])
    differing = sum(bool(row[-1]) for row in rows)
    texts = {what: make for what, make in listings(a).items() if what in listings(b)}
    if a.view is b.view and (a.backend == b.backend or a.home == b.backend):
        texts = {}  # two launches of one kernel
    elif a.view is b.view:
        texts.pop("source", None)
    said = f"{a.name} beside {b.name}: {differing} of {len(rows)} figures differ"
    if "source" in texts:
        alike = [x.text for x in own_source(a.view)] == [x.text for x in own_source(b.view)]
        said += f", and the source is {'the same' if alike else 'another'}"
    table = Table(("", a.name, b.name, ""), rows, right=(3,))
    if not prefix:
        both = {what: (make(), listings(b)[what]()) for what, make in texts.items()}
        same = [title(what) for what, (x, y) in both.items() if all(h[0] == "equal" for h in ranges(x.lines, y.lines))]
        folds = [Fold(title(what), Difference(x, y, ("", ""))) for what, (x, y) in both.items() if title(what) not in same]
        return [Block(f"{said}.", "answer"), table, folds, foot(f"the same: {', '.join(same)}") if same else ()]
    items = [(title(what), f"{prefix}/{what}") for what in texts]
    shown = Slot("listing", load=items[0][1] if "source" in texts else "")
    listed: Tree = [Block(choices("Listing", items, "listing"), "bar"), shown] if items else ()
    return [Block(f"{said}.", "answer"), table, listed]


def _other(view: KernelView, a: Side, b: Side) -> str:
    """The name of the side that is not the kernel as it was launched last."""
    return a.name if a.launch or a.view is not view else b.name


def title(what: str) -> str:
    return what.replace("-", " of ")


def figures(side: Side) -> Iterator[tuple[str, tuple[str, float | None]]]:
    """(what, (as text, as a number if it has a ratio))."""
    view = side.view
    for mode, steps in view.traces.items() if not side.backend else ():
        if mode in ("forward", "gradient") and steps:
            n = sum(line.stmt >= 0 for line in view_lines(view, steps[last_unlowered(view, mode)].after))
            yield f"statements, {mode}", (f"{n:,}", n)
    backend = side.backend or side.home
    if n := code.bytes_of(view, backend):
        yield "code", (size(n), n)
    elif n := code.bytes_of(view, backend, "bytes of text"):
        yield "code", (f"{size(n)} of text", None)
    for stack in view.stacks if not side.backend and side.launch is None else ():
        text = "?" if stack.depth is None else f"{stack.depth:,} deep, {size(stack.bytes)} per thread"
        yield f"stack of {stack.name}", (text, stack.bytes)
    for launch in side.launches:
        run = side.run(launch)
        if side.backend and run is None:
            continue
        took = (run.seconds or run.first) if run else took_of(launch)
        yield f"launch, {launch.mode}", (seconds(took), took)
        if run and run.lane_bytes:
            yield "stacks per thread", (size(run.lane_bytes), run.lane_bytes)
            yield "stack heap", (size(run.heap_bytes), run.heap_bytes)
        for name, value in launch.arguments if not side.backend else ():
            yield f"{name}, {launch.mode}", (value, None)
        for array in run.arrays if run else launch.arrays:
            what = array.difference if side.backend else ""
            text = f"{array.low} to {array.high}" if array.low != array.high else array.preview
            off = f"; off by {what}" if what not in ("", "equal") else ""
            yield f"{array.name}, {launch.mode}", (text + off, None)


def listings(side: Side) -> dict[str, Callable[[], Lines]]:
    """What a side has as a listing: source, IR before it is lowered (on a backend: lowered), and code, by mode."""
    view, made = side.view, dict[str, Callable[[], Lines]]()
    if view.source:
        made["source"] = lambda: Lines(own_source(view), "python", f"Source of {side.name}")
    for mode in ("forward", "gradient"):
        if not side.backend and view.traces.get(mode):
            made[f"IR-{mode}"] = partial(_ir, side, mode)
        stages = [s for s in view.code.get(mode, ()) if s.backend == (side.backend or side.home)]
        if stages:
            made[f"code-{mode}"] = partial(_code, side, mode)
    return made


def _ir(side: Side, mode: str) -> Lines:
    step = side.view.traces[mode][last_unlowered(side.view, mode)]
    return Lines(view_lines(side.view, step.after), "ir", f"IR of {side.name}, {mode}")


def _code(side: Side, mode: str) -> Lines:
    """The last stage that has text."""
    stages = [s for s in side.view.code[mode] if s.backend == (side.backend or side.home) and s.name != "hsaco"]
    made = stages[-1].make()
    lines = made.lines or [Line(text) for text in made.problem.splitlines()]
    return Lines(lines, stages[-1].language, f"{stages[-1].name} of {side.name}, {mode}", "count")


def own_source(view: KernelView) -> list[Line]:
    """The lines of the kernel alone: of a cell, those from its decorator to its end."""
    head = re.compile(rf"\s*(async )?def {re.escape(view.name)}\(")
    at = next((n for n, line in enumerate(view.source) if head.match(line.text)), None)
    if at is None:
        return view.source
    deep = len(view.source[at].text) - len(view.source[at].text.lstrip())
    begin = at
    while begin and view.source[begin - 1].text[deep:].startswith("@"):
        begin -= 1
    end = next((n for n in range(at + 1, len(view.source)) if view.source[n].text.strip()
                and not view.source[n].text[deep:].startswith((" ", ")"))), len(view.source))  # fmt: skip
    while not view.source[end - 1].text.strip():
        end -= 1
    return view.source[begin:end]
