"""The Run pane: times, arguments and results of each launch, on one or several backends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadrants_lab.widgets.model import ArrayView, BackendRun, KernelView, LaunchView, RooflineView
from quadrants_lab.widgets.tree import (
    Block,
    Picture,
    Slot,
    Table,
    Tree,
    Word,
    bold,
    button,
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
STACK_BYTES = ("stacks per thread", "stack heap")


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """``""``: everything; ``n``: the roofline of launch n."""
    if not view.launches:
        return empty("none of its launches was recorded: launch it in a %%qdkernel cell")
    match rest:
        case [n] if n.isdigit() and int(n) < len(view.launches) and (later := view.launches[int(n)].roofline):
            return roofline(later.make())
    shown = [launch(x, f"{prefix}/{n}") for n, x in enumerate(view.launches)]
    return [Block(answer(view), "answer"), shown, foot(view.cost) if view.cost else ()]


def answer(view: KernelView) -> str:
    """The pane in a sentence: how long each launch took, and whether the backends agree."""
    took = [f"{x.mode} {seconds(took)}" for x in view.launches if (took := took_of(x))]
    place = view.launches[0].place.partition(":")[0]
    said = f"{f'on {place} ' if place else ''}a launch takes: {', '.join(took)}" if took else "the launch failed"
    compared = [r for x in view.launches for r in x.compared]
    names = list(dict.fromkeys(r.name for r in compared if not r.problem))
    if len(names) < 2:
        return f"{said[:1].upper()}{said[1:]}."
    apart = [r.greatest for r in compared if r.greatest not in ("", "equal")]
    agree = "differ by at most " + ", ".join(dict.fromkeys(apart)) if apart else "agree to the last bit"
    return f"{' and '.join(names)} {agree}; {said}."


def took_of(view: LaunchView) -> float:
    """The seconds of a warm launch, if there was one, else of the launch."""
    repeated = [r.seconds for r in view.compared[:1] if r.seconds]
    return next((t for t in (*repeated, *(t for name, t in view.times if "warm" in name))), view.seconds)


def launch(view: LaunchView, request: str = "") -> Tree:
    """One launch: times, what the device does with its tasks, scalars and arrays. ``request``: for its roofline."""
    where = f" on {view.place}" if view.place else ""
    took = "" if view.times else seconds(view.seconds)
    given = [Word([code(k), f" = {v}"], "chip") for k, v in view.arguments]
    return [
        head(view.mode, " ", muted(f"{took}{where}")),
        chips([(name, seconds(value)) for name, value in view.times]),
        [foot(f"{where}: {what}") for where, what in view.schedule],
        Block(given, "chips") if given else (),
        backends(view.compared) if view.compared else (),
        arrays(view.arrays, view.compared[1:]) if view.arrays else (),
        chips(view.sizes),
        _near(view, request) if view.roofline else (),
    ]


def _near(view: LaunchView, request: str) -> Slot:
    """The roofline if it was made, else a button that makes it."""
    slot = f"near{request.rpartition('/')[2]}"
    known = view.roofline.known if view.roofline else None
    ask = button("how near the launch is to the device's limits", request, slot)
    return Slot(slot, roofline(known) if known else ask)


def roofline(view: RooflineView) -> Block:
    """A sentence with the figures of a roofline."""
    if view.problem:
        return foot(f"how near the launch is to the device's limits is not known: {view.problem}")
    memory, computing = view.least
    by = "memory" if memory >= computing else "computing"
    share = f"{view.share:.0%}" if view.share >= 0.01 else f"{100 * view.share:.1g}%"
    text = (
        f" of the device's limit, which is {by}: about {size(int(view.bytes))} must move, which "
        f"takes {seconds(memory) or '0 s'} at {view.bandwidth / 1e9:.3g} GB/s; "
        f"about {view.operations:,.0f} operations take {seconds(computing) or '0 s'} at "
        f"{view.rate / 1e9:.3g} Gop/s ({view.dtype}); the launch took {seconds(view.seconds)}"
    )
    return Block([bold(share), text], "limit")


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


def arrays(views: Sequence[ArrayView], others: Sequence[BackendRun] = ()) -> Table:
    """A table with a row for each array and, below it, for each further backend."""
    columns: list[tuple[str, Callable[[ArrayView], Tree]]] = [
        ("array", lambda a: [code(a.name), _note(a)] if a.dtype else Word(a.name, "sub")),
        ("type", lambda a: code(f"{a.dtype}{list(a.shape) if a.shape else ''}") if a.dtype else ""),
        ("min", lambda a: a.low),
        ("max", lambda a: a.high),
        ("values", lambda a: [code(a.preview), _picture(a)]),
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
    """Stands beside the name: behind the values, "2 more read" is one phrase."""
    return [" ", muted(a.note)] if a.note else ""


def _picture(a: ArrayView) -> Tree:
    if not a.image:
        return ""
    shape = "height:14px" if len(a.shape) == 1 else "max-height:160px"
    alt = f"{a.name}: blue below zero, red above, the darker the farther; from {a.low} to {a.high}"
    return Picture(alt, uri=a.image, style=f"display:block;width:256px;{shape};image-rendering:pixelated")
