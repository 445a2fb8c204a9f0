"""WebAssembly beside the CPU: ``python -m benchmarks.wasm [--write]``, a table of docs/wasm.md.

The loop of sines and its gradient, one thread each: on the CPU one iteration at a time and in four lanes, in wasmtime
one at a time and in lanes, and the module with lanes in Node, whose engine is Chromium's; and what checking indices
costs. Times are of the processor, the least of several launches; in Node the mean of twenty.
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
from typing import Any

os.environ.setdefault("QL_ENGINE", "quadrants_lab")

import numpy as np
from rich.console import Console

from benchmarks import document, engine, race as R
from quadrants_lab.backends import wasm
from quadrants_lab.backends.capabilities import Capabilities
from quadrants_lab.runtime import session
from quadrants_lab.runtime.record.inspect import compiled_plan

qd = engine.qd
BEGIN, END = "<!-- benchmarks.wasm writes from here -->", "<!-- to here -->"
SIZE, TRIPS, ROUNDS = 65536, 64, 9
NODE = """
const job = JSON.parse(require("fs").readFileSync(0)), image = Buffer.from(job.image, "base64");
const memory = new WebAssembly.Memory({initial: Math.ceil(image.length / 65536)});
const made = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(job.module, "base64")), {env: {memory}});
new Uint8Array(memory.buffer).set(image);
const launch = (times) => { for (let n = 0; n < times; ++n) made.exports.run(job.frame); };
launch(5);
const begin = process.cpuUsage();
launch(20);
const used = process.cpuUsage(begin);
console.log((used.user + used.system) / 20e6);
"""


def sines(lanes: int) -> list[Any]:
    """The loop, with its gradient behind it."""
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
    """Sums of elements at places from data, with the gradient behind it."""
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
    """Seconds of the processor."""
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


def in_node(make: Callable[[], list[Any]]) -> list[float]:
    """Seconds of the same modules over the same memory; none where there is no Node."""
    qd.init(arch=qd.wasm, offline_cache=False, log_level=qd.ERROR)
    found = []
    for kernel in make() if shutil.which("node") else ():
        kernel()
        device: Any = session.current().device
        plan: Any = compiled_plan(kernel.dispatcher)
        job = {"module": plan.compiled.executable.module, "image": device.memory_.read(device.store, 0, device.used)}
        text = {name: base64.b64encode(data).decode() for name, data in job.items()}
        given = json.dumps({**text, "frame": plan.frame.address})
        with tempfile.NamedTemporaryFile("w", suffix=".js") as script:
            script.write(NODE)
            script.flush()
            done = subprocess.run(["node", script.name], input=given, capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
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
    node = in_node(lambda: sines(0))
    for n, mode in enumerate(("forward", "gradient")):
        times = [f"{1e3 * t[n]:.1f}" if t else "" for t in (one, alone, four, lanes, node, whole)]
        ratios = [f"{alone[n] / one[n]:.2f}", f"{lanes[n] / four[n]:.2f}"]
        yield [mode, *times[:2], ratios[0], *times[2:4], ratios[1], *times[4:]]


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
        "CPU, its own lanes",
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
