"""The Run pane: times, arguments and results of each launch, on one or several backends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadrants_lab.widgets.code import problem
from quadrants_lab.widgets.html import empty, esc, offer, seconds, size, table
from quadrants_lab.widgets.model import ArrayView, BackendRun, KernelView, LaunchView, RooflineView

TIMES = ("first launch", "warm launch")
AGAIN = (
    "Each backend repeated the launch on its own device, without the work that Python does before a launch. The time "
    "of a warm launch is the median of the launches after the first."
)
STACK_BYTES = ("stacks of an iteration", "stack heap")


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``n``: the roofline of launch n."""
    if not view.launches:
        return empty("this kernel was not launched in the cell")
    match rest:
        case [n] if n.isdigit() and int(n) < len(view.launches) and (later := view.launches[int(n)].roofline):
            return roofline(later.make())
    cost = f'<p class="foot">{esc(view.cost)}</p>' if view.cost else ""
    return "".join(launch(x, f"{prefix}/{n}") for n, x in enumerate(view.launches)) + cost


def launch(view: LaunchView, request: str = "") -> str:
    """One launch: times, what the device does with its tasks, scalars and arrays. ``request``: for its roofline."""
    given = "".join(f'<span class="chip"><code>{esc(k)}</code> = {esc(v)}</span>' for k, v in view.arguments)
    where = f" on {esc(view.place)}" if view.place else ""
    took = "" if view.times else seconds(view.seconds)
    head = f'<h4>{esc(view.mode)} <span class="muted">{took}{where}</span></h4>'
    head += chips([(name, seconds(value)) for name, value in view.times]) + _schedule(view.schedule)
    parts = [head, f'<p class="chips">{given}</p>' if given else ""]
    parts += [backends(view.compared) if view.compared else ""]
    parts += [arrays(view.arrays, view.compared[1:]) if view.arrays else ""]
    parts += [chips(view.sizes), _near(view, request) if view.roofline else ""]
    return "".join(parts)


def _schedule(rows: Sequence[tuple[str, str]]) -> str:
    """What the device does with each task, in a sentence each."""
    return "".join(f'<p class="foot">{esc(where)}: {esc(what)}</p>' for where, what in rows)


def _near(view: LaunchView, request: str) -> str:
    """The roofline if it was made, else a button that makes it."""
    slot = f"near{request.rpartition('/')[2]}"
    known = view.roofline.known if view.roofline else None
    shown = roofline(known) if known else offer("how near the launch is to the device's limits", request, slot)
    return f'<div class="slot" data-slot="{slot}">{shown}</div>'


def roofline(view: RooflineView) -> str:
    """A sentence with the figures of a roofline."""
    if view.problem:
        return f'<p class="foot">how near the launch is to the device\'s limits is not known: {esc(view.problem)}</p>'
    memory, computing = view.least
    by = "memory" if memory >= computing else "computing"
    share = f"{view.share:.0%}" if view.share >= 0.01 else f"{100 * view.share:.1g}%"
    text = (
        f"<b>{share}</b> of the device's limit, which is {by}: about {size(int(view.bytes))} must move, which "
        f"takes {seconds(memory) or '0 s'} at {view.bandwidth / 1e9:.3g} GB/s; "
        f"about {view.operations:,.0f} operations take {seconds(computing) or '0 s'} at "
        f"{view.rate / 1e9:.3g} Gop/s "
        f"({esc(view.dtype)}); the launch took {seconds(view.seconds)}"
    )
    return f'<p class="near">{text}</p>'


def chips(rows: Sequence[tuple[str, str]]) -> str:
    """Names with values; "" if there are none."""
    spans = "".join(f'<span class="chip">{esc(name)} <b>{esc(value)}</b></span> ' for name, value in rows)
    return f'<p class="chips">{spans}</p>' if spans else ""


def backends(runs: Sequence[BackendRun]) -> str:
    """A table of the launch on each backend: seconds, stacks, and the greatest difference or why it did not run."""
    stacks = any(r.lane_bytes for r in runs)
    head = ("backend", *TIMES, *(STACK_BYTES if stacks else ()), "greatest difference")
    rows = []
    for r in runs:
        sizes = (size(r.lane_bytes), size(r.heap_bytes)) if r.lane_bytes else ("", "")
        took = (seconds(r.first), seconds(r.seconds))
        rows.append((f"<b>{esc(r.name)}</b>", *took, *(sizes if stacks else ()), esc(outcome(r))))
    notes = [f'<p class="foot">{AGAIN}</p>']
    notes += [f'<p class="foot">{esc(r.name)}: {esc(r.note)}</p>' for r in runs if r.note]
    notes += [problem(r.problem) for r in runs if "\n" in r.problem]
    return table(head, rows, right=range(1, len(head) - 1)) + "".join(notes)


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


def arrays(views: Sequence[ArrayView], others: Sequence[BackendRun] = ()) -> str:
    """A table with a row for each array and, below it, for each further backend."""
    compared = any(r.arrays for r in others)
    columns: list[tuple[str, Callable[[ArrayView], str]]] = [
        ("array", lambda a: f"<code>{esc(a.name)}</code>" if a.dtype else f'<span class="sub">{esc(a.name)}</span>'),
        ("type", lambda a: f"<code>{esc(a.dtype)}{list(a.shape) if a.shape else ''}</code>" if a.dtype else ""),
        ("least", lambda a: esc(a.low)),
        ("greatest", lambda a: esc(a.high)),
        ("values", lambda a: f"<code>{esc(a.preview)}</code>{_note(a)}{_picture(a)}"),
        ("difference", lambda a: esc(a.difference)),
    ]
    if not any(a.low or a.high for a in views):  # single numbers have no extremes
        columns = [c for c in columns if c[0] not in ("least", "greatest")]
    if not compared:
        columns = columns[:-1]
    head = [title for title, _ in columns]
    right = [n for n, title in enumerate(head) if title in ("least", "greatest")]
    return table(head, [[make(a) for _, make in columns] for a in rows_of(views, others)], right=right)


def _picture(a: ArrayView) -> str:
    if not a.image:
        return ""
    shape = "height:14px" if len(a.shape) == 1 else "max-height:160px"
    alt = f"{a.name}: blue below zero, red above, the darker the farther; from {a.low} to {a.high}"
    style = f"display:block;width:256px;{shape};image-rendering:pixelated"
    return f'<img alt="{esc(alt)}" title="{esc(alt)}" style="{style}" src="{a.image}">'


def _note(a: ArrayView) -> str:
    return f' <span class="muted">{esc(a.note)}</span>' if a.note else ""
