"""``python -m benchmarks.wasm [--write]``: measures WebAssembly compared with the CPU backend, for a table of
docs/wasm.md.

The program is a loop of sines and its gradient, on one thread. It runs on the CPU and in wasmtime, each with one
iteration at a time and with four in a vector; and in Node and Chromium, with four in a vector. The cost of checking
indices is measured, too. Times are CPU times: the least of several launches on the CPU and in wasmtime, the mean of
twenty in Node and of forty in Chromium.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("QL_ENGINE", "quadrants_lab")

import numpy as np
from rich.console import Console

from benchmarks import document, engine, race as R
from benchmarks.relaunch import WASM_LIMITS
from quadrants_lab.backends import Capabilities, wasm
from quadrants_lab.runtime import session
from quadrants_lab.runtime.record.inspect import compiled_plan

qd = engine.qd
BEGIN, END = "<!-- benchmarks.wasm writes from here -->", "<!-- to here -->"
SIZE, TRIPS, ROUNDS = 65536, 64, 9
START = """
const memory = new WebAssembly.Memory({initial: Math.ceil(image.length / 65536)});
const made = new WebAssembly.Instance(new WebAssembly.Module(code), {env: {memory}});
new Uint8Array(memory.buffer).set(image);
const launch = (times) => { for (let n = 0; n < times; ++n) made.exports.run(job.frame); };
launch(5);
"""
NODE = f"""
const job = JSON.parse(require("fs").readFileSync(0));
const [image, code] = [job.image, job.module].map((text) => Buffer.from(text, "base64"));
{START}
const begin = process.cpuUsage();
launch(20);
const used = process.cpuUsage(begin);
console.log((used.user + used.system) / 20e6);
"""
CHROMIUM = f"""(job) => {{
const [image, code] = [job.image, job.module].map((text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
{START}
window.launch = launch; }}"""
BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), "")


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the ratio by the name of the row; 0 if there is no Chromium."""
    one, four = (measured("cpu", lambda: sines(n)) for n in (1, 4))
    alone, lanes = (measured("wasm", lambda: sines(n)) for n in (1, 0))
    page = in_chromium(jobs(lambda: sines(0))) or [0.0, 0.0]
    found = [r for n in range(2) for r in (alone[n] / one[n], lanes[n] / four[n], page[n] / four[n])]
    return {limit.name: ratio for limit, ratio in zip(WASM_LIMITS, found, strict=True)}


def sines(lanes: int) -> list[Any]:
    """The kernel of the loop of sines, compiled for so many ``lanes``, and its gradient."""
    x, y = (qd.field(qd.f32, SIZE, needs_grad=True) for _ in range(2))

    @qd.kernel
    def loop():
        qd.loop_config(lanes=lanes)
        for i in x:
            v = x[i]
            for _ in range(TRIPS):
                v = qd.sin(v) + 0.1
            y[i] = v

    x.fill(0.3)
    y.grad.fill(1.0)
    return [loop, loop.grad]


def gathers() -> list[Any]:
    """A kernel that adds up elements whose indices are data, and its gradient."""
    x, y = qd.field(qd.f32, 4096, needs_grad=True), qd.field(qd.f32, SIZE, needs_grad=True)
    at = qd.field(qd.i32, SIZE)

    @qd.kernel
    def loop():
        for i in y:
            v = 0.0
            for j in range(TRIPS):
                v += qd.sin(x[at[i] + j])
            y[i] = v

    at.from_numpy(np.arange(SIZE, dtype=np.int32) * 7 % (4096 - TRIPS))
    x.fill(0.3)
    y.grad.fill(1.0)
    return [loop, loop.grad]


def least(run: Callable[[], Any]) -> float:
    """The least CPU seconds of several calls of ``run``."""
    run()
    found = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


def measured(arch: str, make: Callable[[], list[Any]], threads: int = 1) -> list[float]:
    qd.init(arch=getattr(qd, arch), offline_cache=False, cpu_max_num_threads=threads, log_level=qd.ERROR)
    return [least(kernel) for kernel in make()]


def jobs(make: Callable[[], list[Any]]) -> list[dict[str, Any]]:
    """The compiled modules of a kernel and its gradient, each with the memory and the launch frame of a launch."""
    qd.init(arch=qd.wasm, offline_cache=False, log_level=qd.ERROR)
    found = []
    for kernel in make():
        kernel()
        device: Any = session.current().device
        plan: Any = compiled_plan(kernel.dispatcher)
        job = {"module": plan.compiled.executable.module, "image": device.memory_.read(device.store, 0, device.used)}
        text = {name: base64.b64encode(data).decode() for name, data in job.items()}
        found.append({**text, "frame": plan.frame.address})
    return found


def in_node(given: list[dict[str, Any]]) -> list[float]:
    """Seconds of the same modules on the same memory in Node; an empty result if there is no Node."""
    found = []
    for job in given if shutil.which("node") else ():
        with tempfile.NamedTemporaryFile("w", suffix=".js") as script:
            script.write(NODE)
            script.flush()
            run = ["node", script.name]
            done = subprocess.run(run, input=json.dumps(job), capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
    return found


def in_chromium(given: list[dict[str, Any]]) -> list[float]:
    """Seconds of the same modules on the same memory in a page of Chromium; an empty result if there is no Chromium."""
    if not BROWSER or not find_spec("playwright"):
        return []
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        asked = browser.new_browser_cdp_session()

        def used() -> float:
            processes = asked.send("SystemInfo.getProcessInfo")["processInfo"]
            return sum(float(p["cpuTime"]) for p in processes if p["type"] == "renderer")

        for job in given:
            page = browser.new_page()
            page.evaluate(CHROMIUM, job)
            page.evaluate("launch(20)")
            page.wait_for_timeout(500)  # until Chromium's optimising compiler has finished
            begin = used()
            page.evaluate("launch(40)")
            found.append((used() - begin) / 40)
            page.close()
        browser.close()
    return found


@contextmanager
def unchecked() -> Iterator[None]:
    kept, wasm.CAPABILITIES = wasm.CAPABILITIES, Capabilities()
    try:
        yield
    finally:
        wasm.CAPABILITIES = kept


def rows() -> Iterator[list[str]]:
    one, four = (measured("cpu", lambda: sines(n)) for n in (1, 4))
    whole = measured("cpu", lambda: sines(0))
    alone, lanes = (measured("wasm", lambda: sines(n)) for n in (1, 0))
    given = jobs(lambda: sines(0))
    node, page = in_node(given), in_chromium(given)
    for n, mode in enumerate(("forward", "gradient")):
        times = [f"{1e3 * t[n]:.1f}" if t else "" for t in (one, alone, four, lanes, node, page, whole)]
        ratios = [f"{a[n] / b[n]:.2f}" if a else "" for a, b in ((alone, one), (lanes, four), (page, four))]
        yield [mode, *times[:2], ratios[0], *times[2:4], ratios[1], *times[4:6], ratios[2], times[6]]


def checks() -> Iterator[list[str]]:
    for name, make in (("sine loop", lambda: sines(1)), ("sines of gathered elements", gathers)):
        both: list[list[list[float]]] = [[], []]
        for _ in range(3):
            both[1].append(measured("wasm", make))
            with unchecked():
                both[0].append(measured("wasm", make))
        off, on = ([min(times) for times in zip(*found, strict=True)] for found in both)
        for n, mode in enumerate(("forward", "gradient")):
            yield [f"{name}, {mode}", f"{1e3 * off[n]:.1f}", f"{1e3 * on[n]:.1f}", f"{on[n] / off[n]:.2f}"]


def main() -> int:
    args = R.arguments("python -m benchmarks.wasm", __doc__, "docs/wasm.md")
    warnings.simplefilter("ignore")
    heads = (
        "CPU, 1 lane", "wasmtime, 1 lane", "ratio", "CPU, 4 lanes", "wasmtime, simd128", "ratio", "Node, simd128",
        "Chromium, simd128", "ratio", "CPU, its own lanes",
    )  # fmt: skip
    tables = [
        document.Table("the sine loop, milliseconds of one thread", heads, list(rows())),
        document.Table(
            "the cost of checks, one iteration at a time", ("unchecked", "checked", "ratio"), list(checks())
        ),
    ]
    for table in tables:
        Console(highlight=False).print(table.shown())
    if args.write:
        text = "\n".join(line for table in tables for line in table.markdown())
        document.write(R.ROOT / "docs" / "wasm.md", text, BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
