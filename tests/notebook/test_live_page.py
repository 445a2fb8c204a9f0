"""Pages that compute: in a headless Chromium, from a file, what the reader's numbers give is what the oracle, numpy and
closed forms say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright")

from notebook.browser import chromium, offline  # after the skip: it imports playwright
from oracle.sines import sines
from playwright.sync_api import Browser, Page
from programs import PROGRAMS
from running import Bench, differences, each, f64, job_of

import quadrants_lab as qd
from quadrants_lab.notebook.live_page import of_kernel, of_launches
from quadrants_lab.notebook.stepping import steps_view
from quadrants_lab.runtime.observe.observers import watch
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.widgets.live_page import machine, page, panel
from quadrants_lab.widgets.steps import step_data

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]

COMPUTE = """({program, seeds}) => {
  const m = new Machine(program), out = m.compute({id: 1, values: {}, scalars: {}, seeds, eps: 0});
  return {returned: out.returned, depths: out.depths, values: program.arrays.map((_, n) => [...m.read(n)]),
    after: program.arrays.map((_, n) => [...(out.values[n] ?? m.arrays[n].start)])};
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def engine(browser: Browser) -> Page:
    """A page with only the script `machine.js`."""
    page = browser.new_page()
    page.add_script_tag(content=machine() + "\nObject.assign(window, {Machine, toHalf, fromHalf});")
    return page


# --- what it computes -----------------------------------------------------------------------------------------------


@each(PROGRAMS.values(), every=8)
def test_every_program_of_the_table(program: Any, engine: Page) -> None:
    """Values, gradients that add up to what was there, and returned values are the oracle's."""
    bench = Bench(f64)
    for case in program.cases:
        job = job_of(program, case)
        kernel, args, placed = bench.kernel(job)
        launches = Launches(repeatable=True)
        with watch(launches):
            kernel(*args)
        made = of_launches(launches, program.name)
        data = made.data()
        numbers = {name: made.numbers.get(f._memory.serial) for name, f in placed.items()}
        known = {k: n for k, n in numbers.items() if n is not None and data["arrays"][n]["grad"] >= 0}
        seeds = {n: np.ravel(job.seeds[k]).tolist() for k, n in known.items() if k in job.seeds}
        found = engine.evaluate(COMPUTE, {"program": json.loads(json.dumps(data)), "seeds": seeds})
        outcome = job.oracle()
        got = job.arrays(f64)
        for name, n in numbers.items():
            if n is not None:
                got[name] = np.reshape(found["after"][n], got[name].shape)
                if name in known and name in job.seeds and program.grad:
                    grad = data["arrays"][n]["grad"]
                    got[f"{name}.grad"] = np.reshape(found["values"][grad], got[name].shape)
        assert not differences(job, outcome, got, 1e-11, gradient=False), case
        if program.grad:
            assert not differences(job, outcome, got, 1e-11, gradient=True), case
        if outcome.returned is not None:
            np.testing.assert_allclose(np.squeeze(found["returned"]), outcome.returned, rtol=1e-11)


# --- pages ----------------------------------------------------------------------------------------------------------


class Shown:
    """A page from a file, without network; ``said``: what it says to the console and asks of others."""

    def __init__(self, browser: Browser, file: Path, script: str = "") -> None:
        self.page, self.said = offline(browser)
        self.context = self.page.context
        if script:
            self.page.add_init_script(script)
        self.page.goto(f"file://{file}")
        self.panel = self.page.locator(".qdl").first

    def found(self, judged: bool = False) -> dict[str, Any]:
        """What the page computed from the newest numbers."""
        self.page.wait_for_function(READY, arg=judged)
        found: dict[str, Any] = self.page.evaluate(FOUND)
        return found


READY = """(judged) => { const p = document.querySelector('.qdl').panel;
  return p && p.answered === p.number && (!judged || p.host.dataset.judged == p.number); }"""
FOUND = """() => {
  const {found, program, said, host} = document.querySelector('.qdl').panel;
  const named = (all) => Object.fromEntries(
    Object.entries(all ?? {}).map(([n, v]) => [program.arrays[n].name, [...v]]));
  return {loss: found?.loss, values: named(found?.values), grads: named(found?.gradients), depths: found?.depths,
    said: said.textContent, took: Number(host.dataset.took)}; }"""


@pytest.fixture
def show(browser: Browser) -> Iterator[Any]:
    """Opens pages; at the end, none has written to the console or asked another host."""
    opened: list[Shown] = []

    def opens(file: Path, script: str = "") -> Shown:
        opened.append(Shown(browser, file, script))
        return opened[-1]

    yield opens
    said = [text for shown in opened for text in shown.said]
    for shown in opened:
        shown.context.close()
    assert said == []


def written(kernel: Any, file: Path) -> Path:
    """A page of the kernel's last launch, without the inspector, which takes longer to make."""
    data = of_kernel(kernel.dispatcher)
    file.write_text(page(data["title"], [panel(data)]))
    return file


@pytest.fixture(scope="module")
def wave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a kernel with a stack as deep as its argument says."""
    qd.init(arch=qd.cpu, default_fp=qd.f32)
    x, y = qd.field(qd.f32, 16, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def wave(n: int):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v)
            y[None] += v

    x.from_numpy(np.linspace(0.1, 1.6, 16).astype(np.float32))
    wave(3)
    return wave.export(tmp_path_factory.mktemp("live") / "wave.html", live=True)


def test_a_page_computes_on_the_readers_numbers(wave: Path, show: Any) -> None:
    """Values and gradients are closed forms, by mouse and by keyboard; stacks, verdict and sizes follow."""
    assert wave.stat().st_size < 1_500_000
    shown, x = show(wave), np.linspace(0.1, 1.6, 16).astype(np.float32)
    browser, live = shown.page, shown.panel

    def right(n: int, x: np.ndarray) -> None:
        found, (values, slopes) = shown.found(judged=True), sines(x, n)
        np.testing.assert_allclose(found["loss"], values.sum(), rtol=1e-5)
        np.testing.assert_allclose(found["grads"]["x"], slopes, atol=2e-6)
        assert found["depths"] == [[n]]
        assert live.locator("[data-depth=v]").inner_text() == str(n)
        assert live.locator("[data-value=y]").inner_text() == f"{found['loss']:.6g}"
        assert live.locator(".verdict").inner_text().startswith("Yes: it agrees with differences to ")

    right(3, x)
    assert all(m["bytes"] < 60_000 for k in browser.evaluate("document.querySelector('.qdl').panel.program.kernels")
               for m in (k["forward"], k["reverse"]))  # fmt: skip
    slider = live.get_by_role("slider", name="n", exact=True)
    slider.focus()
    for _ in range(4):
        browser.keyboard.press("ArrowRight")
    right(7, x)
    slider.fill("0")
    right(0, x)
    live.get_by_label("n, number").fill("12")
    right(12, x)
    bars = live.get_by_role("slider", name="x")
    bars.focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        browser.keyboard.press(key)
    live.get_by_label("element of x").fill("-0.75")
    x[2] = -0.75
    right(12, x)
    bars.focus()
    browser.keyboard.press("End")
    browser.keyboard.press("ArrowDown")
    box = bars.bounding_box()
    browser.mouse.move(box["x"] + box["width"] * 4.5 / 16, box["y"] + 20)
    browser.mouse.down()
    browser.mouse.move(box["x"] + box["width"] * 4.5 / 16, box["y"] + 30)
    browser.mouse.up()
    moved = np.array(browser.evaluate("[...Object.values(document.querySelector('.qdl').panel.values)[0]]"))
    assert np.flatnonzero(np.abs(moved - x) > 1e-6).tolist() == [4, 15]
    right(12, moved.astype(np.float32))
    live.get_by_label("values of x").select_option("zeros")
    right(12, np.zeros(16))
    live.get_by_label("values of x").select_option("random")
    live.get_by_role("button", name="seed 1").click()
    drawn = np.array(browser.evaluate("[...Object.values(document.querySelector('.qdl').panel.values)[0]]"))
    assert len({*drawn}) == 16
    right(12, drawn.astype(np.float32))
    live.get_by_role("button", name="as recorded").click()
    right(3, np.linspace(0.1, 1.6, 16).astype(np.float32))
    browser.get_by_role("tab", name="Passes").wait_for()  # the inspector is below it
    assert browser.evaluate("""() =>
      [...document.querySelectorAll(".qdl :is(button, select, input, canvas, .bars)")]
      .filter((x) => !(x.ariaLabel || x.textContent.trim() || x.labels?.[0]?.textContent.trim()))
      .map((x) => x.outerHTML)""") == []


@pytest.mark.parametrize(("script", "policy", "says"), [
    ("delete window.Worker; WebAssembly.validate = () => false", "", "no vectors"),
    ("delete window.Worker", "", ""),
    ("", "script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src 'none'", ""),
    ("", "script-src 'unsafe-inline'; worker-src blob:", "must allow script-src 'wasm-unsafe-eval'"),
    ("", "script-src 'none'", "needs a browser with scripts"),
])
def test_other_browsers_and_policies(
    wave: Path, browser: Browser, tmp_path: Path, script: str, policy: str, says: str
) -> None:
    """A browser without vectors takes the other module, one without threads computes in the page; what a policy
    forbids is said."""
    file = tmp_path / "k.html"
    head = f'<head><meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else "<head>"
    file.write_text(wave.read_text().replace("<head>", head, 1))
    shown = Shown(browser, file, script)
    if "needs" in says or "must" in says:
        shown.panel.get_by_text(says).wait_for()
    else:
        _, slopes = sines(np.linspace(0.1, 1.6, 16).astype(np.float32), 3)
        np.testing.assert_allclose(shown.found()["grads"]["x"], slopes, atol=2e-6)
        assert says in shown.panel.locator("header").inner_text()
    shown.context.close()


def test_what_fails_or_takes_long(show: Any, tmp_path: Path) -> None:
    """An index out of bounds names its line, a long loop can be stopped, a wrong gradient is called wrong; and the
    page goes on."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, y = qd.field(qd.f64, 8, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def gather(k: qd.i32, n: qd.i64):
        for i in range(4):
            v = x[i + k]
            for _ in range(n):
                v = v * 0.5 + 1.0
            y[None] += v * qd.stop_grad(v) if k == 2 else v

    x.fill(0.5)
    gather(0, 2)
    shown = show(written(gather, tmp_path / "gather.html"))
    panel = shown.panel
    np.testing.assert_allclose(shown.found()["grads"]["x"], [0.25] * 4 + [0] * 4)
    panel.get_by_label("k, number").fill("7")
    why = "index 8 is out of bounds for axis 0 of x with extent 8, in the iteration i = 1 (kernel gather)"
    panel.get_by_text(why).wait_for()
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "v = x[i + k]" in text)
    assert f"line {line}" in shown.found()["said"]
    assert panel.locator(".source .at").inner_text().split() == [str(line), "v", "=", "x[i", "+", "k]"]
    panel.get_by_label("k, number").fill("2")
    shown.found(judged=True)
    assert panel.locator(".verdict").inner_text().startswith("No: differences give ")
    panel.get_by_label("k, number").fill("4")
    np.testing.assert_allclose(shown.found()["grads"]["x"], [0] * 4 + [0.25] * 4)
    panel.get_by_label("n, number").fill("1000000000000")
    panel.get_by_role("button", name="stop").click()
    panel.get_by_text("stopped").wait_for()
    panel.get_by_role("button", name="as recorded").click()
    np.testing.assert_allclose(shown.found()["grads"]["x"], [0.25] * 4 + [0] * 4)


def test_a_gradient_that_is_zero_by_all_ways(show: Any, tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, y = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def steps():
        for i in x:
            y[None] += qd.floor(x[i] * 64)

    def program() -> None:
        steps()

    x.fill(0.5)
    shown = show(qd.ad.export(program, y, tmp_path / "steps.html"))
    assert shown.found()["loss"] == 128.0
    shown.panel.get_by_text("The gradient is zero: y takes nothing from an input").wait_for()


def test_a_program_walks_downhill(show: Any, tmp_path: Path) -> None:
    """A pendulum of 120 launches, with what Python writes between them: as under a Tape, round by round."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    push = qd.field(qd.f64, 40, needs_grad=True)
    state = qd.Vector.field(2, qd.f64, (), needs_grad=True)
    loss = qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def begin(angle: qd.f64):
        state[None] = [angle, 0.0]

    @qd.kernel
    def swing(t: qd.i32):
        for _ in range(1):
            angle, speed = state[None][0], state[None][1]
            speed += 0.05 * (push[t // 3] - qd.sin(angle))
            state[None] = [angle + 0.05 * speed, speed]

    @qd.kernel
    def measure():
        loss[None] += (state[None][0] - 2.0) ** 2

    def pendulum() -> None:
        begin(0.3)
        for t in range(118):
            swing(t)
            if t == 60:
                state[None] = [0.5, 0.25]  # constants: what was before them does not count
        measure()

    push.from_numpy(np.linspace(-1, 1, 40))
    before = push.to_numpy()
    shown = show(qd.ad.export(pendulum, loss, tmp_path / "pendulum.html"))
    np.testing.assert_array_equal(push.to_numpy(), before)
    for _ in range(3):
        with qd.ad.Tape(loss):
            pendulum()
        found = shown.found(judged=True)
        np.testing.assert_allclose(found["loss"], loss[None], rtol=1e-12)
        np.testing.assert_allclose(found["grads"]["push"], push.grad.to_numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found["values"]["state"], state.to_numpy().reshape(-1), rtol=1e-12)
        push.from_numpy(push.to_numpy() - 0.1 * push.grad.to_numpy())
        shown.page.evaluate("""() => { const p = document.querySelector('.qdl').panel, n = p.checked[0];
          p.values[n] = (p.values[n] ?? p.starts[n]).map((v, k) => v - 0.1 * p.found.gradients[n][k]); p.run(); }""")
    assert shown.panel.locator(".verdict").inner_text().startswith("Yes")
    shown.panel.get_by_role("button", name="walk downhill").click()
    shown.page.wait_for_function("document.querySelector('.qdl').panel.found.loss < 0.01")
    shown.panel.locator(".half").get_by_role("button", name="stop").click()
    shown.panel.get_by_role("button", name="walk downhill").wait_for()


def test_the_stepper_follows_an_iteration_on_the_readers_numbers(show: Any, tmp_path: Path) -> None:
    """Statements and values are those that the notebook's stepper shows, which the interpreter makes."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, check_out_of_bound=True)
    x, y = qd.field(qd.f64, (3, 5), needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    at = qd.field(qd.i64, 5)

    @qd.kernel
    def wave(n: qd.i32, limit: qd.f64):
        for j in at:
            at[j] = (qd.i64(1) << 60) + j
        for i, j in x:
            v, w = x[i, j], qd.cast(at[j], qd.f64)
            for k in range(n):
                if v > limit:
                    v = qd.sin(v) - w * 1e-19
                else:
                    v = v * v + k
            while w > 3e11:
                w /= 2
            y[None] += v * w

    x.from_numpy(np.linspace(0.1, 1.5, 15).reshape(3, 5))
    y.grad[None] = 1.0

    def told(mode: str, task: int, lane: str) -> list[Any]:
        with recording() as recorder:
            wave(n, limit)
            x.grad.fill(0)
            wave.grad(n, limit)
        records = {r.mode: r for r in recorder.records()}
        seen = steps_view(records, wave.source.file)
        assert not isinstance(seen, str)
        trace = next(launch for launch in seen.launches if launch.mode == mode).make(task, lane)
        rows: Any = step_data(trace)["s"]
        return [[rows[at], value, read] for at, value, read in trace.events]

    n, limit = 4, 0.5
    gradient = told("gradient", 0, "2,3")
    shown = show(written(wave, tmp_path / "wave.html"))
    panel = shown.panel
    shown.found()
    panel.get_by_text("Follow it step by step").click()
    panel.get_by_label("iteration", exact=True).fill("2, 3")
    shown.page.keyboard.press("Enter")

    def steps() -> list[Any]:
        shown.found()
        found: list[Any] = shown.page.evaluate("""() => { const { steps } = document.querySelector(".qdl").panel;
          return steps.events.map(([n, ...more]) => [steps.of.s[n], ...more]); }""")
        return found

    assert steps() == gradient
    n = 6
    panel.get_by_label("n, number").fill("6")
    assert steps() == told("gradient", 0, "2,3")
    panel.locator(".stepper").press("t")
    assert "backwards" in panel.locator(".now").inner_text()
    panel.get_by_label("forward or gradient").select_option("forward")
    panel.get_by_label("task").select_option("1")
    assert steps() == told("forward", 1, "2,3")
    panel.get_by_label("task").select_option("0")
    panel.get_by_label("iteration", exact=True).fill("4")
    shown.page.keyboard.press("Enter")
    assert steps() == told("forward", 0, "4")
    first = shown.page.evaluate_handle("document.querySelector('.qdl').panel.found")
    panel.get_by_label("task").select_option("1")
    late = shown.page.evaluate(LATE, first)  # as if the answer about task 0 came only now: it is drawn as what it is
    assert late == [value for _, value, _ in told("forward", 0, "4")]
    panel.get_by_label("task").select_option("0")
    panel.get_by_label("iteration", exact=True).fill("5")
    shown.page.keyboard.press("Enter")
    panel.get_by_text("there is no iteration 5 here").wait_for()


LATE = """(found) => { const panel = document.querySelector(".qdl").panel;
  panel.hear(found);
  return panel.steps.events.map((e) => e[1]); }"""
FORMULAS = {  # what a reader writes as the derivative -> what the page says
    "2 * x[i, j] * w[i] + i": "Right, for all 6 elements.",
    "x[i,j]**1 * 2*w[i] - -i": "Right, for all 6 elements.",
    "(w[i] + w[i]) * max(x[i, j], -1e9) + i^1 * sign(pi)": "Right, for all 6 elements.",
    "2 * x[i, j]": "Not yet: at [1, 0] yours is 1.5, and the gradient -2; 4 of 6 differ.",
    "1.5": "Not yet: at [0, 0] yours is 1.5",
    "2 * (x[i, j]": "This is no formula: ) is missing at the end.",
    "2 +": "This is no formula: it ends too early.",
    "2 3": "This is no formula: 3 is out of place.",
    "z": "This is no formula: nothing is called z; there are x, w, i, pi.",
    "so(2)": "This is no formula: there is no function so; there are sin, cos,",
    "": "",
}


def test_a_derivative_that_the_reader_writes_is_checked(show: Any, tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, y = qd.field(qd.f64, (3, 2), needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    w = qd.field(qd.f64, 3)

    @qd.kernel
    def squares():
        for i, j in x:
            y[None] += w[i] * x[i, j] ** 2 + i * x[i, j]

    x.from_numpy(np.arange(6).reshape(3, 2) / 4.0 + 0.25)
    w.from_numpy(np.array([1.0, -2.0, 0.5]))
    squares()
    shown = show(written(squares, tmp_path / "squares.html"))
    shown.found()
    answer, says = shown.panel.get_by_label("your derivative"), shown.panel.locator(".ruling")
    for text, want in FORMULAS.items():
        answer.fill(text)
        assert says.inner_text().startswith(want) if want else says.inner_text() == "", (text, says.inner_text())
    answer.fill("2 * x[i, j] * w[i] + i")
    shown.panel.get_by_label("values of x").select_option("random")
    shown.found()
    assert says.inner_text() == "Right, for all 6 elements."


def test_large_arrays(show: Any, tmp_path: Path) -> None:
    """65,536 x 64 sines and their gradient."""
    qd.init(arch=qd.cpu, default_fp=qd.f32)
    x, y = (qd.field(qd.f32, 65536, needs_grad=True) for _ in range(2))

    @qd.kernel
    def many(n: qd.i32):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v)
            y[i] = v

    given = np.linspace(0, 3, 65536).astype(np.float32)
    x.from_numpy(given)
    many(64)
    file = written(many, tmp_path / "many.html")
    assert file.stat().st_size < 1_500_000
    shown = show(file)
    found, (values, slopes) = shown.found(), sines(given, 64)
    np.testing.assert_allclose(found["values"]["y"], values, atol=2e-6)
    np.testing.assert_allclose(found["grads"]["x"], slopes, atol=2e-5)
