"""The Beside pane shows two kernels, edits, backends or launches side by side, and marks what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from quadrants_lab.widgets import code
from quadrants_lab.widgets.diff import ranges
from quadrants_lab.widgets.history import ratio
from quadrants_lab.widgets.model import BackendRun, KernelView, LaunchView, Line, StageView, view_lines
from quadrants_lab.widgets.source import beginning, last_unlowered
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


def times(value: float) -> str:
    return f"{value:.3g} times"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as text. ``apart`` puts the ratio of two figures' values into words. ``what``: the headline's name
    for this ratio, "" if the ratio stands only in the table."""

    text: str
    value: float | None = None
    apart: Callable[[float], str] = times
    what: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two kernels that are compared, on a ``backend`` ("": where it ran), with all its launches or with
    one."""

    name: str
    view: KernelView
    backend: str = ""
    launch: LaunchView | None = None

    @property
    def ran_on(self) -> str:
        return self.backend or next(iter(code.backends(self.view)), "")

    def run(self, launch: LaunchView) -> BackendRun | None:
        """The launch on the backend of this side, if the cell repeated it there."""
        return next((r for r in launch.compared if r.backend == self.ran_on and not r.problem), None)

    def figures(self) -> dict[str, Figure]:
        """Sizes, times, arguments and results, by name."""
        found = dict(_code_size(self.view, self.ran_on))
        if not self.backend:
            found = dict(_statements(self.view)) | found
            found |= dict(_stacks(self.view)) if self.launch is None else {}
        for launch in self.view.launches if self.launch is None else [self.launch]:
            found |= dict(_launched(launch, self.run(launch), bool(self.backend)))
        return found

    def listings(self) -> dict[str, Callable[[], Lines]]:
        """Functions that make the source, the IR before it is lowered and the code, by the last part of their
        requests. A side that is a backend has only code; a side that is one launch of several has none."""
        view, made = self.view, dict[str, Callable[[], Lines]]()
        if self.launch is not None:
            return made
        if view.source and not self.backend:
            made["source"] = lambda: Lines(own_source(view), "python", f"Source of {self.name}")
        for mode in ("forward", "gradient"):
            if view.traces.get(mode) and not self.backend:
                made[f"IR-{mode}"] = partial(_ir, view, mode, self.name)
            stages = [s for s in view.code.get(mode, ()) if s.backend == self.ran_on and s.name != "hsaco"]
            if stages:
                made[f"code-{mode}"] = partial(_code, stages[-1], f"{self.name}, {mode}")
        return made


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides, the older one first. ``group`` and ``name`` are their places in the menu. ``called``: the text by
    which `Kernel.beside` finds the pair; "" for another kernel, which is passed as an object."""

    group: str
    name: str
    first: Side
    second: Side
    called: str = ""


def others(view: KernelView) -> dict[str, Pair]:
    """All pairs, by their part of a request, the likeliest one first."""
    found: dict[str, Pair] = {}
    own = Side(view.name, view)
    if view.before:
        name = "the last edit"
        found["edit"] = Pair("edits", name, Side(name, view.before), Side("this edit", view), "edit")
    last = {x.mode: x for x in view.launches}
    for n, (name, x) in enumerate(view.past):
        if x.mode in last:
            now = Side(f"the last launch, {x.mode}", view, launch=last[x.mode])
            found[f"launch{n}"] = Pair("launches", name, Side(name, view, launch=x), now, name)
    here = Side(own.ran_on, view, own.ran_on)
    there = [Side(name, view, name) for name in code.backends(view) if name != own.ran_on]
    ran = [side for side in there if any(map(side.run, view.launches))]
    found |= {side.name: Pair("backends", side.name, here, side, side.name) for side in ran}
    kernels = [(n, k) for n, k in enumerate(view.cell) if k is not view]
    found |= {f"kernel{n}": Pair("kernels", k.name, own, Side(k.name, k)) for n, k in kernels}
    code_alone = (side for side in there if side not in ran)
    return found | {s.name: Pair("backends, code alone", s.name, here, s, s.name) for s in code_alone}


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The part of the pane that a request asks for: ``""`` everything; ``key`` one comparison; ``key/what`` the
    difference of two listings; ``key/what/0`` and ``.../1`` one of the two listings."""
    pairs = others(view)
    if not pairs:
        return empty(NOTHING)
    if not rest:
        first = next(iter(pairs))
        groups: dict[str, list[tuple[str, str]]] = {}
        for key, pair in pairs.items():
            groups.setdefault(pair.group, []).append((pair.name, f"{prefix}/{key}"))
        many = {request for _, request in groups.get("kernels", [])[MOST_EXPORTED:]}
        pick = menu("beside", list(groups.items()), "beside", f"{prefix}/{first}", many)
        bar = Block([f"{view.name} beside ", pick], "bar")
        return [bar, Slot("beside", beside(pairs[first].first, pairs[first].second, f"{prefix}/{first}"))]
    if (asked := pairs.get(rest[0])) is None:
        return empty("there is no other side of this name")
    if len(rest) == 1:
        return beside(asked.first, asked.second, "/".join((prefix, *rest)))
    made = [side.listings().get(rest[1]) for side in (asked.first, asked.second)]
    if None in made or rest[2:] not in ([], ["0"], ["1"]):
        return empty("there is no such listing on both sides")
    before, after = (make() for make in made if make is not None)
    request = "/".join((prefix, *rest[:2]))
    return [before, after][int(rest[2])] if rest[2:] else Difference(before, after, (f"{request}/0", f"{request}/1"))


def beside(a: Side, b: Side, prefix: str = "") -> Tree:
    """Shows two sides: first the figures, then one listing, which a row of buttons chooses. Without a ``prefix``
    for requests it shows all listings that differ, folded."""
    left, right = a.figures(), b.figures()
    if "code" not in left.keys() & right.keys():  # the code of one side is not made before it is shown
        for figures in (left, right):
            figures.pop("code", None)
    rows: list[list[Tree]] = []
    for name in dict.fromkeys((*left, *right)):
        one, two = left.get(name), right.get(name)
        kind = "" if one and two and one.text == two.text else "val"
        texts = ("–" if x is None else x.text for x in (one, two))
        rows.append([name, *(Word(text, kind) if kind else text for text in texts), _apart(a, one, b, two)])
    listings = {what: (x, b.listings()[what]) for what, x in a.listings().items() if what in b.listings()}
    name = a.name.replace("the last", "The last", 1) if a.name.startswith("the last") else a.name
    found = _said(a, left, b, right, "source" in listings)
    said = Block(f"{name} beside {b.name}{': ' if found else ''}{found}.", "answer")
    table: Tree = Table(("", a.name, b.name, ""), rows, right=(3,)) if rows else ()
    if not prefix:
        both = [(_title(what), x(), y()) for what, (x, y) in listings.items()]
        same = [title for title, x, y in both if all(h[0] == "equal" for h in ranges(x.lines, y.lines))]
        folds = [Fold(title, Difference(x, y, ("", ""))) for title, x, y in both if title not in same]
        return [said, table, folds, foot(f"the same: {', '.join(same)}") if same else ()]
    items = [(_title(what), f"{prefix}/{what}") for what in listings]
    shown = Slot("listing", load=items[0][1] if items else "")
    return [said, table, [Block(choices("Listing", items, "listing"), "bar"), shown] if items else ()]


def _title(listing: str) -> str:
    return listing.replace("-", " of ")


def _apart(a: Side, one: Figure | None, b: Side, two: Figure | None) -> str:
    """How the second figure differs from the first, in words."""
    if one is None or two is None:
        return f"only {(a if two is None else b).name}"
    if one.text == two.text:
        return ""
    return one.apart(two.value / one.value) if one.value and two.value else "differs"


def _said(a: Side, left: Mapping[str, Figure], b: Side, right: Mapping[str, Figure], sources: bool) -> str:
    """Says how the launches compare, how many figures differ, and whether the source differs."""
    shared = {name: (x, right[name]) for name, x in left.items() if name in right}
    said = [f"{y.what} {y.apart(y.value / x.value)}" for x, y in shared.values() if y.what and x.value and y.value]
    names = left.keys() | right.keys()
    if names:
        differ = sum(x != y for x, y in shared.values()) + len(names) - len(shared)
        said.append(f"{differ} of {len(names)} figures differ")
    if sources:
        alike = [x.text for x in own_source(a.view)] == [x.text for x in own_source(b.view)]
        said.append(f"the source is {'the same' if alike else 'another'}")
    return "; ".join(said)


# --- figures and listings ------------------------------------------------------------------------------------------


def _statements(view: KernelView) -> Iterator[tuple[str, Figure]]:
    for mode in ("forward", "gradient"):
        if steps := view.traces.get(mode):
            n = sum(line.stmt >= 0 for line in view_lines(view, steps[last_unlowered(view, mode)].after))
            yield f"statements, {mode}", Figure(f"{n:,}", n)


def _code_size(view: KernelView, backend: str) -> Iterator[tuple[str, Figure]]:
    if text := code.size_of(view, backend):
        yield "code", Figure(text, code.bytes_of(view, backend) or None)


def _stacks(view: KernelView) -> Iterator[tuple[str, Figure]]:
    for stack in view.stacks:
        text = "?" if stack.depth is None else f"{stack.depth:,} deep, {size(stack.bytes)} per thread"
        yield f"stack of {stack.name}", Figure(text, stack.bytes)


def _launched(launch: LaunchView, run: BackendRun | None, on_a_backend: bool) -> Iterator[tuple[str, Figure]]:
    """The figures of a launch. ``run``: the launch as it was repeated on a backend."""
    if on_a_backend and run is None:
        return
    took = run.took if on_a_backend and run else launch.warm
    yield f"launch, {launch.mode}", Figure(seconds(took), took, ratio, launch.mode)
    if run and run.lane_bytes:
        yield "stacks per thread", Figure(size(run.lane_bytes), run.lane_bytes)
        yield "stack heap", Figure(size(run.heap_bytes), run.heap_bytes)
    for name, value in launch.arguments if not on_a_backend else ():
        yield f"{name}, {launch.mode}", Figure(value)
    for array in run.arrays if run else launch.arrays:
        text = f"{array.low} to {array.high}" if array.low != array.high else array.preview
        off = on_a_backend and array.difference not in ("", "equal")
        yield f"{array.name}, {launch.mode}", Figure(f"{text}; off by {array.difference}" if off else text)


def _ir(view: KernelView, mode: str, name: str) -> Lines:
    step = view.traces[mode][last_unlowered(view, mode)]
    return Lines(view_lines(view, step.after), "ir", f"IR of {name}, {mode}")


def _code(stage: StageView, name: str) -> Lines:
    made = stage.make()
    lines = made.lines or [Line(text) for text in made.problem.splitlines()]
    return Lines(lines, stage.language, f"{stage.name} of {name}", "count")


def own_source(view: KernelView) -> list[Line]:
    """The lines of the kernel alone: of a cell, those from its decorator to its end."""
    at = beginning(view)
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
