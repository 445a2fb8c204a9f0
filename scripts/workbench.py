"""`make workbench`: measures how fast the notebook and its panes are, and says which figures exceed their limits. It
takes some minutes, and the figures are meaningful only if nothing else runs. Figures of the browser need chromium and
the packages of `make test`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from workbench_programs import CELLS, COMPILE, IFS, INTERRUPT, OPTIMISER, SETUP, SHELL, SHOWN, WAVE

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
Figure = tuple[str, float, float, str]  # name, value, limit, unit

def asked(code: str) -> Any:
    """Runs ``code`` in a new process. Returns the last line that it prints, read as JSON."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"a process ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def recording() -> Iterator[Figure]:
    """Times compilation and a launch, with and without recording. Each way runs three times in turns, and the quickest
    counts."""
    text = SETUP + IFS.format(n=200)
    runs = [[asked(COMPILE.format(text=text, recorded=on)) for on in (False, True)] for _ in range(3)]
    (plain, launch), (recorded, after) = ([min(r[n][k] for r in runs) for k in (1, 2)] for n in (0, 1))
    yield "compile while it is recorded, over the same without", recorded / plain, 1.3, "x"
    yield "a launch when the recording is over, over one in a process without", after / launch, 1.1, "x"
    forward, _, _, (told, _) = min((r[1] for r in runs), key=lambda r: r[1])
    parts = sum(seconds for name, seconds in told.items() if not name.startswith("compiled"))
    yield "parts of a first launch beside the clock on the wall: off by", abs(parts - forward) / forward * 100, 5, "%"


def cells() -> Iterator[Figure]:
    """Times cells: an optimiser whose iterations have 121 launches under a Tape and as many gradients, over a field of
    1.9 MB; and 10,000 launches of a small kernel. Each way (plain, checked, recorded, both) runs several times in
    turns, and the quickest counts. CPU seconds are measured, of the program itself and of the rest of the cell."""
    calls = [("train(1)", 9), ("train(1)", 9), ("train(20)", 7), ("train(60)", 5), ("counts(10_000)", 15)]
    for call, best in asked(CELLS.format(shell=SHELL, setup=OPTIMISER, calls=calls))[1:]:
        (plain, _), (checked, _) = best["plain"], best["checked"]
        (recorded, rest), (both, _) = best["recorded"], best["recorded and checked"]
        yield f"{call} in a cell, --release: seconds beyond {plain:.4f} s outside", recorded - plain, 0.1, "s"
        if call != "train(1)":  # most of its time is spent on the first run
            yield f"{call} recorded, over {plain * 1000:.1f} ms plain (--release)", recorded / plain, 1.3, "x"
            yield f"{call} recorded and checked, over {checked * 1000:.1f} ms checked", both / checked, 1.3, "x"
            yield f"{call} recorded and checked, over {plain * 1000:.1f} ms plain", both / plain, 1.3, "x"
            yield f"{call} with checks of indices alone, over {plain * 1000:.1f} ms plain", checked / plain, 2, "x"
        yield f"{call}: finding what is shown, behind the program", rest, 1, "s"


def interrupt() -> Iterator[Figure]:
    took, size, whole = asked(INTERRUPT.format(shell=SHELL, setup=SETUP, text=IFS.format(n=180)))
    yield f"interrupt of a compile of {size:,} statements ({whole:.1f} s)", took, 2, "s"


def executed(cells: list[str], folder: Path) -> nbformat.NotebookNode:
    from nbclient import NotebookClient

    os.environ["PYTHONPATH"] = str(ROOT)
    book = notebook(cells)
    NotebookClient(book, store_widget_state=True, resources={"metadata": {"path": str(folder)}}).execute()
    return book


def notebook(cells: list[str]) -> nbformat.NotebookNode:
    spec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    made = [nbformat.v4.new_code_cell(text.strip()) for text in cells]
    return nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": spec})


def sizes() -> Iterator[Figure]:
    from quadrants_lab.notebook.offline import OfflineHTML

    small = ["%%qdkernel --grad y" + WAVE.format(name=name) for name in ("one", "two", "three")]
    book = executed(["%load_ext quadrants_lab", SETUP, *small], ROOT)
    yield "a notebook with three small kernels, saved with its widgets", len(nbformat.writes(book)) / 1024, 300, "KB"
    first = nbformat.read(min((ROOT / "notebooks").glob("*.ipynb")), as_version=4)
    book = executed([c.source for c in first.cells if c.cell_type == "code"], ROOT / "notebooks")
    yield "the first notebook as a page", len(OfflineHTML().from_notebook_node(book)[0]) / 1024, 1024, "KB"


SWITCH = """async (name) => {
  const root = [...document.querySelectorAll(".qdi")].at(-1), start = performance.now();
  [...root.querySelectorAll("[role=tab]")].find((x) => x.textContent === name).click();
  do await new Promise(requestAnimationFrame); while (root.querySelector("[role=tabpanel][aria-busy]"));
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def graphs() -> Iterator[Figure]:
    from notebook.browser import chromium, offline
    from notebook.sample import cell_view
    from notebook.test_listings import loops

    from quadrants_lab.notebook.saved import export
    from quadrants_lab.widgets.graph import drawing
    from quadrants_lab.widgets.model import TaskGraphs

    graph, view = loops(3, 170), cell_view()
    start = time.perf_counter()
    drawing(graph)
    placed = time.perf_counter() - start
    view.kernels[0].graphs = [TaskGraphs("big", graph)]
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page, _ = offline(browser)
        page.goto(f"file://{export(view, Path(folder) / 'k.html')}")
        page.locator(".qdi").wait_for()
        drawn = page.evaluate(SWITCH, "CFG") / 1000
    yield f"a graph of {len(graph.nodes):,} boxes: placed in {placed:.2f} s, and drawn", placed + drawn, 1, "s"


ZOOM = """async () => {
  const svg = document.querySelector(".time svg");
  for (let n = 0; n < 90; n++) {
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: n % 30 < 15 ? "+" : "-", bubbles: true }));
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", shiftKey: true, bubbles: true }));
    await new Promise(requestAnimationFrame);
  }
}"""


def busy(page: Any) -> float:
    """The seconds for which the page's main thread has been busy."""
    if not hasattr(page, "asks"):
        page.asks = page.context.new_cdp_session(page)
        page.asks.send("Performance.enable", {"timeDomain": "threadTicks"})
    metrics = page.asks.send("Performance.getMetrics")["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "TaskDuration")


def program() -> Iterator[Figure]:
    """Times the Tape pane in a browser, for an optimiser of 20 iterations with 120 steps of waves each, and for a
    program of 40,000 launches."""
    from notebook.browser import chromium, offline
    from notebook.sample import cell_view as sample, tape

    from quadrants_lab.notebook.collect import cell_view
    from quadrants_lab.notebook.saved import export
    from quadrants_lab.runtime.record.recorder import recording
    from quadrants_lab.widgets.panes import render

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file, made = Path(folder) / "waves.py", dict[str, Any]()
        file.write_text(OPTIMISER)
        exec(compile(OPTIMISER, str(file), "exec"), made)
        with recording() as recorder:
            made["train"](20)
        large = sample()
        large.kernels[0].tapes = [tape(20_000)]
        views = {"120 steps of waves, 20 times": cell_view("", recorder), "40,000 launches": large}
        page, _ = offline(browser)
        for what, view in views.items():
            start = time.perf_counter()
            render(view, "0/tape")
            made_in = time.perf_counter() - start
            page.goto(f"file://{export(view, Path(folder) / 'k.html')}")
            page.locator(".qdi").wait_for()
            drawn = page.evaluate(SWITCH, "Tape") / 1000
            yield f"{what}: timeline and graph made in {made_in:.2f} s, and drawn", made_in + drawn, 1, "s"
            before = busy(page)
            page.evaluate(ZOOM)
            yield f"{what}: a frame of zoom and pan, of the page's thread", (busy(page) - before) / 90 * 1000, 33, "ms"


def browser() -> Iterator[Figure]:
    for n in (200, 300):
        yield from ifs(n)


def ifs(n: int) -> Iterator[Figure]:
    from notebook.browser import PANES, lab

    cells = ["%load_ext quadrants_lab", SETUP, f"%%qdkernel --grad y\n{IFS.format(n=n)}\nifs()\ny[None]", "6 * 7"]
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(notebook(cells), Path(folder) / "n.ipynb")
        with lab(Path(folder), Path(folder)) as here:
            here.open("n.ipynb")
            page = here.page
            cell = page.locator(".jp-CodeCell")
            for k in range(2):
                run(here, k)
                cell.nth(k).locator('.jp-InputPrompt:text-matches("[0-9]")').wait_for()
            run(here, 2)
            cell.nth(2).locator(".jp-OutputArea-executeResult").wait_for(timeout=120_000)
            start = time.perf_counter()
            cell.nth(2).locator(".qdi [role=tabpanel]:not([aria-busy])").wait_for(timeout=60_000)
            yield f"{n} ifs: from the result to the inspector", time.perf_counter() - start, 3, "s"
            for again in ("first", "again"):
                took = {pane: page.evaluate(SWITCH, pane) for pane in PANES}
                slowest = max(took, key=lambda pane: took[pane])
                yield f"{n} ifs: the slowest pane, {slowest}, {again}", took[slowest], 200, "ms"
            page.evaluate(SWITCH, "Linked")
            stages = cell.nth(2).get_by_label("Stage")
            stages.select_option(index=[x.inner_text() for x in stages.locator("option").all()].index("isa"))
            cell.nth(2).get_by_role("button", name="stop").wait_for(timeout=20_000)
            start = time.perf_counter()
            run(here, 3)
            cell.nth(3).locator(".jp-OutputArea-executeResult").wait_for()
            yield f"{n} ifs: another cell, while code is made", time.perf_counter() - start, 1, "s"


def run(here: Any, k: int) -> None:
    here.page.locator(".jp-CodeCell").nth(k).locator(".cm-content").click()
    here.page.keyboard.press("Control+Enter")


def steps() -> Iterator[Figure]:
    """Times how long the stepper takes from the record of a gradient to the first window of an iteration."""
    import quadrants_lab as qd
    from quadrants_lab.notebook.stepping import steps_view
    from quadrants_lab.runtime.record.recorder import recording
    from quadrants_lab.widgets.live import write
    from quadrants_lab.widgets.model import KernelView
    from quadrants_lab.widgets.steps import pane

    qd.init(arch=qd.cpu)
    size, trips = 1 << 26, 100_000
    x, b, z = (qd.field(qd.f32, n, needs_grad=True) for n in (size, size, 4))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.3)
    z.fill(0.3)

    @qd.kernel
    def large():
        for i in x:
            b[i] = qd.sin(x[i]) * x[i]
        for i in b:
            y[None] += b[i] * x[i]

    @qd.kernel
    def long(n: int):
        for i in z:
            v = z[i]
            for _ in range(n):
                v = qd.sin(v) + 0.1
            y[None] += v

    places = [(large, (), "", f"{size:,} elements"), (large, (), f"1/1/{size // 3}", "another iteration of these")]
    places += [(long, (trips,), "", f"{trips:,} trips"), (long, (trips,), "1/0/1/turn", "the turn of these")]
    for kernel, args, request, what in places:
        with recording() as recorder:
            kernel(*args)
            y.grad[None] = 1
            kernel.grad(*args)
        start = time.perf_counter()
        found = steps_view({r.mode: r for r in recorder.records()}, kernel.source.file)
        answer = write(pane(KernelView("", "", [], steps=found), "0/steps", request.split("/") if request else []))
        assert "error[" not in answer, answer
        limit = 10 if request.endswith("turn") else 2
        yield f"steps: {what}", time.perf_counter() - start, limit, "s"


def doctor() -> Iterator[Figure]:
    """Times a check (`qd.ad.check`) of a program of 200 launches with 65,536 inputs, in which one gradient is written
    by hand."""
    import quadrants_lab as qd

    qd.init(arch=qd.cpu, default_fp=qd.f64)
    size, launches = 65_536, 200
    x = qd.field(qd.f64, (launches + 1, size), needs_grad=True)
    p = qd.field(qd.f64, size, needs_grad=True)
    y = qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def begin():
        for i in p:
            x[0, i] = p[i]

    @qd.kernel
    def step(t: int):
        for i in p:
            x[t + 1, i] = x[t, i] + 0.01 * qd.sin(x[t, (i + 1) % size])

    @qd.kernel
    def by_hand(t: int, factor: qd.f64):
        for i in p:
            x.grad[t, i] += x.grad[t + 1, i]
            x.grad[t, (i + 1) % size] += factor * qd.cos(x[t, (i + 1) % size]) * x.grad[t + 1, i]

    @qd.kernel
    def total():
        for i in p:
            y[None] += x[launches, i] ** 2 / size

    @qd.ad.grad_replaced
    def middle(factor: float):
        step(launches // 2)

    @qd.ad.grad_for(middle)
    def middle_back(factor: float):
        by_hand(launches // 2, factor)

    def program(factor: float) -> None:
        begin()
        for t in range(launches):
            if t == launches // 2:
                middle(factor)
            else:
                step(t)
        total()

    for factor, what in ((0.01, "right"), (0.0102, "2 % off")):
        p.from_numpy(np.random.default_rng(0).uniform(-1, 1, size))
        start = time.perf_counter()
        report = qd.ad.check(lambda factor=factor: program(factor), y, p)
        yield f"doctor: {launches} launches, {size:,} inputs, {what}", time.perf_counter() - start, 30, "s"
        assert report.right == (what == "right"), report
        assert report.right or "middle" in str(report), report


def screenshots(folder: Path) -> None:
    """Writes pictures of each pane, in the light theme at widths of 1400 and 900 pixels and in the dark theme. They
    show a cell that was edited and whose check finds a wrong gradient. Prints the messages of the page's console."""
    from IPython.core.interactiveshell import InteractiveShell
    from notebook.browser import chromium, offline

    from quadrants_lab.notebook import show
    from quadrants_lab.notebook.saved import export
    from quadrants_lab.widgets.model import CellView
    from quadrants_lab.widgets.static import static_html

    shell = InteractiveShell.instance()
    for text in ("%load_ext quadrants_lab", SETUP, *(SHOWN.strip().format(step=s, slope=2.02) for s in (0.1, 0.2))):
        shell.run_cell(text).raise_error()
    view = CellView("a cell", show(shell.user_ns["wave"]).view.kernels[0].cell, "check")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "static.html").write_text(f"<!doctype html><meta charset=utf-8><body>{static_html(view)}")
    file = export(view, folder / "view.html")
    with chromium() as browser:
        for theme, width in (("light", 1400), ("light", 900), ("dark", 1400)):
            page, said = offline(browser, width, 800, theme)
            page.goto(f"file://{file}")
            page.locator(".qdi").wait_for()
            for tab in page.get_by_role("tab").all():
                tab.click()
                page.wait_for_function("() => !document.querySelector('.qdi [aria-busy]')")
                page.wait_for_timeout(150)
                name = tab.inner_text().lower().replace(" ", "_").replace("(", "").replace(")", "")
                page.screenshot(path=folder / f"{theme}_{width}_{name}.png")
                if page.evaluate("() => { scrollTo(0, 1e9); return scrollY > 0 }"):
                    page.screenshot(path=folder / f"{theme}_{width}_{name}_end.png")
                    page.evaluate("() => scrollTo(0, 0)")
            page.goto(f"file://{folder / 'static.html'}")
            page.screenshot(path=folder / f"{theme}_{width}_static.png")
            print(*said, sep="\n")


DRAG = """async (times) => {
  const { panel } = document.querySelector(".qdl"), { host } = panel, took = [];
  const slider = host.querySelector("input[type=range]"), start = Number(slider.value);
  const drawn = (id) => new Promise((done) => {
    const look = () => { if (host.dataset.shown >= id) { watch.disconnect(); done(performance.now()); } };
    const watch = new MutationObserver(look);
    watch.observe(host, { attributes: true });
  });
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done(performance.now());
    port2.postMessage(0);
  }));
  for (let k = 0; k < times; k++) {
    await new Promise((done) => setTimeout(done, 60 + 17 * Math.random())); // anywhere within a frame
    const began = performance.now();
    slider.value = k % 2 ? start : start - 1;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    took.push([await drawn(panel.number) - began, await painted() - began]);
  }
  return took;
}"""


def live() -> Iterator[Figure]:
    """Times pages that compute, opened from files without network: the median time from the event of a slider until the
    new values and gradients are drawn, and until they are painted, which waits for the next frame (60 each second).
    Both with a thread of the page's own (a Worker) and without one."""
    from notebook.browser import chromium, offline

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for what, size, trips, limit in (("16 x 3 sines", 16, 3, 16), ("65,536 x 64 sines", 65_536, 64, 100)):
            file = sines_page(Path(folder) / "sines.html", size, trips)
            for thread, script in (("in a Worker", ""), ("without one", "delete window.Worker")):
                page, _ = offline(browser)
                page.add_init_script(script)
                page.goto(f"file://{file}")
                page.wait_for_function("document.querySelector('.qdl').panel?.found")
                page.evaluate(DRAG, 10)
                drawn, painted = (float(np.median(times)) for times in zip(*page.evaluate(DRAG, 61), strict=True))
                yield f"{what} and their gradient, {thread}, until drawn", drawn, limit, "ms"
                yield f"{what} and their gradient, {thread}, until painted", painted, limit + 1000 / 60, "ms"
                page.context.close()


def sines_page(file: Path, size: int, trips: int) -> Path:
    import quadrants_lab as qd
    from quadrants_lab.notebook.live_page import of_kernel
    from quadrants_lab.widgets.live_page import page, panel

    qd.init(arch=qd.cpu, default_fp=qd.f32)
    x, y = (qd.field(qd.f32, size, needs_grad=True) for _ in range(2))

    @qd.kernel
    def sines(n: int):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v)
            y[i] = v

    x.from_numpy(np.linspace(0, 3, size, dtype=np.float32))
    sines(trips)
    file.write_text(page("sines", [panel(of_kernel(sines.dispatcher))]))
    return file


MEASURES: tuple[Callable[[], Iterator[Figure]], ...] = (
    cells, recording, interrupt, sizes, graphs, program, steps, doctor, live, browser,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="make workbench", description=__doc__)
    names = [m.__name__ for m in MEASURES]
    parser.add_argument("--only", choices=names, nargs="*", default=names, help="which of them")
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="write pictures of all panes there instead")
    given, over = parser.parse_args(), 0
    if given.shots:
        screenshots(given.shots.absolute())
        return 0
    for measure in MEASURES:
        for what, much, limit, unit in measure() if measure.__name__ in given.only else ():
            over += much > limit
            print(f"{what:<72} {much:8.2f} {unit:<2} of {limit:g} {unit}{'  OVER' if much > limit else ''}", flush=True)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores + 1:
        print(f"the machine is busy ({load:.0f} processes want {cores} cores): times are as much too long")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
