"""The Backends pane shows the kernel's differences, times, code and stacks on each backend, or why it did not run
there."""

from collections.abc import Sequence

from quadrants_lab.widgets import code, run as launches
from quadrants_lab.widgets.model import BackendRun, KernelView
from quadrants_lab.widgets.tree import (
    Block,
    Control,
    Table,
    Tree,
    bars,
    bold,
    broken,
    button,
    head,
    seconds,
    size,
)

CORES = "no number: a thread has the registers of its core"
DRIVER = "not known: the driver chooses the number and does not tell"
PTXAS = "not known: ptxas, which chooses the number, is not installed"
NO_REGISTERS = {"cpu": CORES, "c": CORES, "wasm": CORES, "metal": DRIVER, "vulkan": DRIVER, "cuda": PTXAS}
ASK = "Run the cell with --arch cpu,c (and others) to compare values, gradients and times on several backends."


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The pane: a row for each backend, with or without a device. The request ``all`` first makes the code of each
    backend."""
    if rest == ["all"]:
        for later in view.later():
            later.make()
    devices = dict(view.devices() if view.devices is not None else [])
    names = dict.fromkeys([*code.backends(view), *(r.backend for x in view.launches for r in x.compared), *devices])
    modes = {x.mode: x.compared for x in view.launches if x.compared}
    titles = ["backend"]
    for mode in modes:
        titles += [f"{mode}: first launch", "median", "difference"]
    titles += ["stack heap", "code"]
    ran = {r.backend for compared in modes.values() for r in compared if not r.problem}
    rows: list[list[Tree]] = []
    about: list[list[Tree]] = []
    for name in sorted(names, key=lambda name: name not in ran):
        row: list[Tree] = [bold(name)]
        runs = [next((r for r in compared if r.backend == name), None) for compared in modes.values()]
        for run in runs:
            row += [seconds(run.first), seconds(run.seconds), _differs(run)] if run else ["–", "–", "–"]
        own = view.heap[0] if [name] == code.backends(view)[:1] else 0  # where the cell ran
        heap = next((r.heap_bytes for r in runs if r and r.heap_bytes), own)
        missing = "–" if code.made(view, name) else "not made yet"
        row += [size(heap) if heap else "–", code.size_of(view, name) or missing]
        rows.append(row)
        device = _device(view, name, devices.get(name, ""), [run for run in runs if run])
        about.append([row[0], device, _registers(view, name)])
    ask: Tree = ()
    if any(stage.known is None for stages in view.code.values() for stage in stages):
        ask = Block(button("make the code of all of them", f"{prefix}/all"))
    plots = [times(f"{mode}: median of warm launches", compared) for mode, compared in modes.items()]
    right = [n for n, t in enumerate(titles) if t in ("median", "stack heap", "code") or t.endswith("launch")]
    return [
        () if modes else Block(ASK, "hint"),
        ask,
        Table(titles, rows, right=right),
        Control("div", {"class": "plots"}, plots),
        head("Devices"),
        Table(("backend", "device, or why it did not run", "registers"), about),
    ]


def answer(view: KernelView) -> str:
    """The pane in a sentence: whether the backends agree."""
    return launches.answer(view) if any(x.compared for x in view.launches) else ""


def _differs(run: BackendRun) -> str:
    """The difference from the first run; the table of devices says why a run is missing."""
    return "did not run" if run.problem else run.greatest or "the reference"


def _device(view: KernelView, name: str, known: str, runs: Sequence[BackendRun]) -> Tree:
    """The device, and why launches did not run on it or there is no code, each reason once."""
    notes = [known] if known else []
    notes += [f"did not run: {r.problem.splitlines()[0]}" for r in runs if r.problem and r.problem != known]
    notes += [f"no code: {m.problem.splitlines()[0]}" for m in code.made(view, name) if m.problem]
    return broken(dict.fromkeys(notes))


def _registers(view: KernelView, backend: str) -> str:
    """The numbers of registers, from the last stage that has them, or why they are unknown."""
    made = code.made(view, backend)
    found = [", ".join(f"{n} {name}" for name, n in m.measures if name not in code.MEASURES) for m in made]
    return next(filter(None, reversed(found)), NO_REGISTERS.get(backend, "–") if made else "not made yet")


def times(title: str, runs: Sequence[BackendRun]) -> Tree:
    """The times as bars relative to the longest."""
    timed = [(r.name, r.took) for r in runs if r.took]
    top = max((t for _, t in timed), default=0.0)
    return bars([(name, t / top, seconds(t), "") for name, t in timed], Block(title)) if timed else ()
