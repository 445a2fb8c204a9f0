"""The Run pane shows times, arguments and results of each launch, on one or several backends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadrants_lab.widgets import heatmap
from quadrants_lab.widgets.model import ArrayView, BackendRun, KernelView, LaunchView
from quadrants_lab.widgets.roofline import limits, near
from quadrants_lab.widgets.tree import (
    Block,
    Table,
    Tree,
    Word,
    bold,
    chips,
    code,
    empty,
    foot,
    head,
    muted,
    seconds,
    size,
)

TIMES = ("first launch", "warm launch")
AGAIN = (
    "Each backend repeated the launch on its own device, without the work that Python does before a launch. The time "
    "of a warm launch is the median of the launches after the first."
)
AGREE = 1e-3  # the greatest difference, relative to the greatest value, of backends that agree
STACK_BYTES = ("stacks per thread", "stack heap")


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The pane that ``rest`` asks for. Joined by slashes, ``rest`` is ``""`` for everything, ``near`` for the roofline
    of the kernel's launches, ``n/array/slice`` for a picture of an array of launch n, or ``n/array/slice/row/column``
    for a value in such a picture."""
    if not view.launches:
        return empty("none of its launches was recorded: launch it in a %%qdkernel cell or within qd.recording()")
    if rest == ["near"]:
        return limits(view)
    if rest:
        pictured = {f"{n}/{a.name}": a for n, x in enumerate(view.launches) for a in x.arrays}
        asked = "/".join(rest[:2])
        return heatmap.asked(pictured.get(asked), f"{prefix}/{asked}", rest[2:])
    shown = [launch(x, f"{prefix}/{n}") for n, x in enumerate(view.launches)]
    offer = near(view, f"{prefix}/near") if any(x.roofline for x in view.launches) else ()
    return [shown, offer, foot(view.cost) if view.cost else ()]


def answer(view: KernelView) -> str:
    """The pane in a sentence: how long each launch took, and whether the backends agree."""
    if not view.launches:
        return ""
    took = [f"{x.mode} {seconds(x.warm)}" for x in view.launches if x.warm]
    place = view.launches[0].place.partition(":")[0]
    said = f"{f'on {place} ' if place else ''}a launch takes: {', '.join(took)}" if took else "the launch failed"
    compared = [r for x in view.launches for r in x.compared]
    names = list(dict.fromkeys(r.name for r in compared if not r.problem))
    if len(names) < 2:
        return f"{said[:1].upper()}{said[1:]}."
    worst = max(compared, key=lambda r: r.apart)
    agree = "agree to the last bit" if not worst.apart else f"agree to {worst.apart:.0e}" if worst.apart < AGREE else (
        f"differ by {worst.greatest}")
    return f"{' and '.join(names)} {agree}; {said}."


def launch(view: LaunchView, request: str) -> Tree:
    """One launch: times, what the device does with its tasks, scalars and arrays. ``request``: the prefix of the
    requests for slices of arrays."""
    where = f" on {view.place}" if view.place else ""
    took = "" if view.times else seconds(view.seconds)
    given = [Word([code(k), f" = {v}"], "chip") for k, v in view.arguments]
    return [
        head(view.mode, " ", muted(f"{took}{where}")),
        chips([(name, seconds(value)) for name, value in view.times]),
        [foot(f"{where}: {what}") for where, what in view.schedule],
        Block(given, "chips") if given else (),
        backends(view.compared) if view.compared else (),
        foot(f"{view.note[:1].upper()}{view.note[1:]}.") if view.note else (),
        arrays(view.arrays, view.compared[1:], request) if view.arrays else (),
    ]


def backends(runs: Sequence[BackendRun]) -> Tree:
    """A table of the launch on each backend: seconds, stacks, and the greatest difference or why it did not run."""
    stacks = any(r.lane_bytes for r in runs)
    titles = ("backend", *TIMES, *(STACK_BYTES if stacks else ()), "greatest difference")
    rows: list[list[Tree]] = []
    for r in runs:
        sizes = (size(r.lane_bytes), size(r.heap_bytes)) if r.lane_bytes else ("", "")
        rows.append([bold(r.name), seconds(r.first), seconds(r.seconds), *(sizes if stacks else ()), outcome(r)])
    notes = [foot(AGAIN), *(foot(f"{r.name}: {r.note}") for r in runs if r.note)]
    problems = [Block(r.problem, "pre") for r in runs if "\n" in r.problem]
    return [Table(titles, rows, right=range(1, len(titles) - 1)), notes, problems]


def outcome(run: BackendRun) -> str:
    """The greatest difference from the first run, or why it did not run, in one line."""
    if run.problem:
        return f"did not run: {run.problem.splitlines()[0]}"
    return run.greatest or "the others are compared with this"


def rows_of(views: Sequence[ArrayView], others: Sequence[BackendRun]) -> list[ArrayView]:
    """Each array, followed by the same array on the other backends with the backend as name and without a type."""
    out: list[ArrayView] = []
    for a in views:
        out.append(a)
        for run in others:
            same = next((b for b in run.arrays if b.name == a.name), None)
            if same is not None:
                out.append(replace(same, name=run.name, dtype=""))
    return out


def arrays(views: Sequence[ArrayView], others: Sequence[BackendRun], request: str) -> Table:
    """A table with a row for each array and, below it, for each further backend. ``request``: see `launch`."""

    def drawn(a: ArrayView) -> Tree:
        if a.dtype:
            return heatmap.shown(a, f"{request}/{a.name}", f"{request}/{a.name}")
        return [" ", muted("the same")] if a.difference == "equal" else heatmap.picture(a)

    columns: list[tuple[str, Callable[[ArrayView], Tree]]] = [
        ("array", lambda a: [code(a.name), _note(a)] if a.dtype else Word(a.name, "sub")),
        ("type", lambda a: code(f"{a.dtype}{list(a.shape) if a.shape else ''}") if a.dtype else ""),
        ("min", lambda a: a.low),
        ("max", lambda a: a.high),
        ("values", lambda a: [code(a.preview), drawn(a)]),
        ("difference", lambda a: a.difference),
    ]
    if not any(a.low or a.high for a in views):  # single numbers have no extremes
        columns = [c for c in columns if c[0] not in ("min", "max")]
    if not any(r.arrays for r in others):
        columns = columns[:-1]
    titles = [title for title, _ in columns]
    right = [n for n, title in enumerate(titles) if title in ("min", "max")]
    return Table(titles, [[make(a) for _, make in columns] for a in rows_of(views, others)], right=right)


def _note(a: ArrayView) -> Tree:
    """The note about arrays. It stands beside the name, because behind the values "2 more read" would be read as
    one phrase."""
    return [" ", muted(a.note)] if a.note else ""
