"""WebAssembly: its text is its bytes, other engines do with these what wasmtime does, and launches that end badly."""

import base64
import json
import signal
from pathlib import Path
from typing import Any

import child
import numpy as np
import pytest
from programs import PROGRAMS
from running import Bench, define, each, f32, f64, job_of
from sessions import ended, sessions, why_not

import quadrants_lab as qd
from quadrants_lab.backends import Capabilities, wasm
from quadrants_lab.runtime import session

if why_not("wasm"):
    pytest.skip(why_not("wasm"), allow_module_level=True)

import wasmtime

from quadrants_lab.backends.wasm import emitter
from quadrants_lab.backends.wasm.device import Device
from quadrants_lab.backends.wasm.lanes import NoLanes
from quadrants_lab.backends.wasm.module import Module

__all__ = ["ended"]
(WASM,) = sessions("wasm")
N = 12


@pytest.fixture
def device() -> Device:
    """The device of a session in a release build."""
    qd.init(**WASM.values[0])
    found = session.current().device
    assert isinstance(found, Device)
    return found


def image(device: Device) -> bytes:
    """All bytes of the device's memory."""
    return bytes(device.memory_.read(device.store, 0, device.used))


# --- text and bytes -------------------------------------------------------------------------------------------------


@qd.kernel
def waves(x: qd.template(), y: qd.types.ndarray(), k: qd.i32, scale: qd.f64):
    for i in x:
        v = x[i]
        for j in range(k):
            if v > 0.25:
                v = qd.sin(v) * v + 0.125
            else:
                v = qd.cast(scale, qd.f32) - v // 2
        y[i] += v * qd.random()
        x[i] = v


@qd.kernel
def halves(x: qd.template(), y: qd.types.ndarray()):
    for i, j in y:
        x[i] += qd.cast(y[i, j], qd.f16) * 3.0
    for i, j in y:
        y[i, j] = qd.cast(qd.cast(x[i] > 1, qd.i32) + qd.cast(y[i, j], qd.i8) % 5, qd.u8)


@qd.kernel
def one_after_the_other(x: qd.template()) -> qd.i64:
    total = qd.i64(0)
    qd.loop_config(serialize=True)
    for i in range(x.shape[0]):
        while x[i] > 1.0:
            x[i] /= 3.0
            total += qd.i64(1) << 33
    return total


def launches() -> list[tuple[Any, tuple[Any, ...]]]:
    """Kernels of many kinds, with arguments."""
    x, h = qd.field(qd.f32, N, needs_grad=True), qd.field(qd.f16, N)
    y, z = qd.ndarray(qd.f32, N, needs_grad=True), qd.ndarray(qd.u8, (N, 3))
    x.from_numpy(np.linspace(-3, 3, N, dtype=np.float32))
    z.from_numpy(np.arange(3 * N, dtype=np.uint8).reshape(N, 3))
    x.grad.fill(1.0)
    return [(waves, (x, y, 5, 0.75)), (waves.grad, (x, y, 5, 0.75)), (halves, (h, z)), (one_after_the_other, (x,))]


def without_names(code: bytes) -> bytes:
    """A module without custom sections, the last of which has the names of the text."""
    kept, at = code[:8], 8
    while at < len(code):
        size = shift = 0
        end = at + 1
        while True:
            size |= (code[end] & 0x7F) << shift
            shift, end = shift + 7, end + 1
            if code[end - 1] < 0x80:
                break
        kept, at = kept + code[at : end + size] * (code[at] != 0), end + size
    return kept


def test_the_text_says_what_the_bytes_say(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Module] = []
    real = emitter.module
    keep = lambda *args: made.append(real(*args)) or made[-1]
    monkeypatch.setattr("quadrants_lab.backends.wasm.executable.module", keep)
    for kernel, args in launches():
        kernel(*args)
    assert len(made) > 3
    for module in made:
        stage = module.stage()
        assert without_names(bytes(wasmtime.wat2wasm(stage.text))) == module.binary()
        assert stage.code_bytes == len(module.binary())
        assert stage.lines == len(stage.text.split("\n")) == len(stage.ids)


# --- other engines --------------------------------------------------------------------------------------------------

RUN = """(job) => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const before = bytes(job.before), pages = Math.ceil(before.length / 65536);
  const memory = new WebAssembly.Memory({initial: pages});
  new Uint8Array(memory.buffer).set(before);
  const made = new WebAssembly.Instance(new WebAssembly.Module(bytes(job.module)), {env: {memory}});
  made.exports.run(job.frame);
  const after = new Uint8Array(memory.buffer), want = bytes(job.after), wrong = [];
  for (let n = 0; n < want.length; ++n) if (after[n] !== want[n]) wrong.push(n);
  return wrong;
}"""


@pytest.fixture
def jobs(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The memory that launches in wasmtime have left."""
    made: list[dict[str, Any]] = []
    call, codes = device.call, dict[int, str]()
    text = lambda data: base64.b64encode(data).decode()

    def called(function: Any, frame: int) -> Any:
        before = image(device)
        result = call(function, frame)
        job = {"module": codes[id(function)], "frame": frame, "before": text(before), "after": text(image(device))}
        made.append(job)
        return result

    def loaded(exe: Any, on: Device, code: bytes) -> Any:
        function = real(exe, on, code)
        codes[id(function)] = text(exe.module)
        return function

    from quadrants_lab.backends.wasm.executable import Executable

    real = Executable._loaded
    monkeypatch.setattr(Executable, "_loaded", loaded)
    monkeypatch.setattr(device, "call", called)
    for kernel, args in launches():
        kernel(*args)
    assert len(made) > 3
    assert all(job["before"] != job["after"] for job in made)
    return made


@pytest.mark.needs("node")
def test_node_computes_the_same(jobs: list[dict[str, Any]]) -> None:
    done = child.run("node", "-", given=f"console.log(JSON.stringify({json.dumps(jobs)}.map({RUN})))")
    assert json.loads(done.stdout) == [[]] * len(jobs)


@pytest.mark.needs("chromium")
def test_chromium_computes_the_same(jobs: list[dict[str, Any]]) -> None:
    from notebook.browser import CHROMIUM
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        assert [page.evaluate(RUN, job) for job in jobs] == [[]] * len(jobs)
        browser.close()


# --- lanes ----------------------------------------------------------------------------------------------------------


def schedule(kernel: Any) -> str:
    return kernel.schedule().partition(": ")[2]


@pytest.mark.parametrize(("fp", "lanes"), [(qd.f32, 8), (qd.f64, 4)])
@pytest.mark.parametrize("size", [1, 3, 7, 8, 17, 1000])
def test_lanes_compute_what_one_iteration_does(device: Device, fp: Any, lanes: int, size: int) -> None:
    """Values, gradients and sums, also where groups do not fill the row; one thing at a time rounds the same."""
    found = []
    for asked in (0, 1):
        x, y = (qd.field(fp, size, needs_grad=True) for _ in range(2))
        pairs = qd.Vector.field(2, fp, size, needs_grad=True)
        total, count = qd.field(fp, (), needs_grad=True), qd.field(qd.i32 if fp is qd.f32 else qd.i64, ())

        @qd.kernel
        def wave():
            qd.loop_config(lanes=asked)
            for i in x:
                v = x[i]
                for _ in range(9):
                    v = qd.sin(v) + 0.1
                    if v > 0.5:
                        v -= 0.25
                pairs[i] = [v, v * i]
                y[i] = v * v
                total[None] += v
                count[None] -= 1

        x.from_numpy(np.linspace(-2, 2, size).astype(np.float32 if fp is qd.f32 else np.float64))
        wave()
        total.grad[None] = 1.0
        y.grad.fill(0.5)
        pairs.grad.fill(0.25)
        wave.grad()
        found.append([a.to_numpy() for a in (y, pairs, x.grad, total)])
        assert count[None] == -size
        many = "no lanes" if asked else f"{lanes} lanes" if size >= 4 * lanes else "lanes"
        assert many in schedule(wave)
    for one, other in zip(*(f[:3] for f in found), strict=True):
        assert np.array_equal(one, other)
    np.testing.assert_allclose(found[0][3], found[1][3], rtol=1e-5)


# why a task has none -> its body
NO_LANES = {
    "iterations part": "if x[i] > 0.0: x[i] = 1.0",
    "places in x do not follow each other": f"y[i] = x[{N - 1} - i]",
    "iterations change one element of x": "qd.atomic_max(x[0], y[i])",
    "vectors have no floordiv of i32": "y[i] = qd.cast(x[i], qd.i32) // 3",
    "Random runs one by one": "x[i] = qd.random()",
    "vectors do not have u8 in memory": "short[i] += qd.u8(1)",
}


@pytest.mark.parametrize("why", NO_LANES)
def test_what_has_no_lanes_runs_one_by_one_and_says_why(device: Device, why: str) -> None:
    x, y, short = qd.field(qd.f32, N), qd.field(qd.f32, N), qd.field(qd.u8, N)
    function = define(f"def k():\n    for i in range({N}):\n        {NO_LANES[why]}\n")["k"]
    function.__globals__.update(x=x, y=y, short=short)
    made = qd.kernel(function)
    made()
    assert schedule(made) == f"no lanes: {why}"


@each(PROGRAMS.values(), every=3)
@pytest.mark.parametrize("fp", [f32, f64], ids=str)
def test_a_task_with_lanes_runs_in_them(program: Any, fp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emitter finds nothing that the schedule has overlooked."""

    def overlooked(*_: object) -> None:
        raise AssertionError("the schedule gives lanes to what has no vectors")

    monkeypatch.setattr(NoLanes, "__init__", overlooked)
    bench = Bench(fp, "wasm")
    for case in program.cases:
        bench.run(job_of(program, case))


# --- accesses outside -----------------------------------------------------------------------------------------------


@qd.kernel
def store_field(a: qd.template(), b: qd.template(), k: qd.i64):
    for _ in range(1):
        b[k] = 7.0  # here


@qd.kernel
def store_array(a: qd.template(), b: qd.types.ndarray(), k: qd.i64):
    for _ in range(1):
        b[k] = 7.0  # here


@qd.kernel
def load_field(a: qd.template(), b: qd.template(), k: qd.i64):
    for _ in range(1):
        a[0] = b[k]  # here


@qd.kernel
def load_array(a: qd.template(), b: qd.types.ndarray(), k: qd.i64):
    for _ in range(1):
        a[0] = b[k]  # here


@pytest.mark.parametrize("kernel", [store_field, store_array, load_field, load_array], ids=lambda k: k.__name__)
def test_an_access_outside_of_its_own_memory_is_an_error_and_changes_nothing(device: Device, kernel: Any) -> None:
    """In a release build, the bytes behind a field belong to other fields and arrays."""
    fields = [qd.field(qd.f32, N) for _ in range(3)]
    arrays = [qd.ndarray(qd.f32, N) for _ in range(3)]
    for n, a in enumerate((*fields, *arrays)):
        a.from_numpy(np.arange(N, dtype=np.float32) + 100 * n)
    targets = arrays if kernel.__name__.endswith("array") else fields
    kernel(fields[0], targets[1], 3)  # compiled, and right
    everything = lambda: [a.to_numpy().tobytes() for a in (*fields, *arrays)]
    lines = Path(__file__).read_text().split("\n")
    begin = next(n for n, line in enumerate(lines, 1) if line.startswith(f"def {kernel.__name__}("))
    for target in targets:
        for k in (-1, N, N + 1, 2**40):
            before = everything()
            with pytest.raises(qd.QuadrantsAssertionError) as told:
                kernel(fields[0], target, k)
            said = str(told.value)
            assert f"index {k} is out of bounds" in said
            assert f"kernel {kernel.__name__}" in said
            assert f"{Path(__file__).name}, line {begin + 2}" in said
            after = everything()
            if kernel.__name__.startswith("load"):  # what was read is 0 or an element, and only that is written
                before[0], after[0] = before[0][4:], after[0][4:]
            assert after == before
    fields[2].fill(1.0)
    kernel(fields[0], targets[1], 0)
    assert fields[2].to_numpy().tolist() == [1.0] * N


BODIES = {
    "store": "b[1, k, 2] = v", "load": "a[0, 0, 0] = b[1, k, 2]", "add": "b[1, k, 2] += v",
    "max": "qd.atomic_max(b[1, k, 2], v)",
}  # fmt: skip


@pytest.mark.parametrize("iterations", [1, 64])
@pytest.mark.parametrize("dtype", [qd.u8, qd.f16, qd.i64, qd.f64], ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_an_inner_axis_is_checked_by_itself(device: Device, body: str, dtype: Any, iterations: int) -> None:
    """Whatever the index, and although the element would be the array's or a neighbour's."""
    made = [qd.field(dtype, (3, 5, 4)), *(qd.ndarray(dtype, (3, 5, 4)) for _ in range(2)), qd.field(dtype, 60)]
    for n, a in enumerate(made):
        a.from_numpy((np.arange(60).reshape(a.shape) % 9 + n).astype(dtype.numpy))
    text = f"    for _ in range({iterations}):\n        v = qd.cast(1, qd.{dtype})\n        {BODIES[body]}\n"
    kernel = qd.kernel(define(f"def k(a: qd.template(), b: qd.types.ndarray(), k: qd.i64):\n{text}")["k"])
    before = [a.to_numpy().tobytes() for a in made]
    for k in (-1, 5, 6, 2**32, 2**40, -(2**40), 2**63 - 1, -(2**63)):
        message = f"index {k} is out of bounds for axis 1 of b.*\n.*, line 4"
        with pytest.raises(qd.QuadrantsAssertionError, match=message):
            kernel(made[0], made[1], k)
        after = [a.to_numpy().tobytes() for a in made]
        assert after[body == "load" :] == before[body == "load" :]


# --- launches that end badly ----------------------------------------------------------------------------------------

@qd.kernel
def endless(x: qd.template()):
    while x[None] >= 0:
        x[None] = x[None] * 5 & 255


def test_control_c_ends_a_launch_and_the_session_lives_on(device: Device) -> None:
    x = qd.field(qd.i32, ())
    child.interrupt_when(lambda: device.launching)
    with pytest.raises(KeyboardInterrupt):
        endless(x)
    assert not device.launching
    x[None] = -1
    endless(x)
    assert x[None] == -1


def test_a_handler_that_raises_nothing_lets_a_launch_go_on(device: Device) -> None:
    x, seen = qd.field(qd.i32, ()), list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number) or x.from_numpy(np.array(-1, np.int32)))
    try:
        child.interrupt_when(lambda: device.launching)
        endless(x)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_what_does_not_fit_is_an_error_that_says_so(device: Device) -> None:
    with pytest.raises(Exception, match="32-bit addresses"):
        qd.field(qd.f32, 2**30 + 1).fill(0.0)
    small = qd.field(qd.f32, 4)
    small.fill(2.0)
    assert small.to_numpy().tolist() == [2.0] * 4


def test_memory_that_was_given_back_is_used_again(device: Device) -> None:
    first = device.allocate((1 << 16,), np.uint8)
    first.array[...] = 7
    begin = first.address
    del first
    again = device.allocate((1 << 15,), np.uint8)
    assert again.address == begin
    assert not again.array.any()
    with pytest.raises(MemoryError, match="32-bit addresses"):
        device.allocate((1 << 32,), np.uint8)


@qd.kernel
def far(x: qd.template(), k: qd.i32):
    x[0] = 1
    x[k] = 2  # this


def test_a_trap_is_an_error_with_kernel_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that nobody checked writes beyond a memory of 4 MiB."""
    monkeypatch.setattr("quadrants_lab.backends.wasm.device._MOST", 64)
    monkeypatch.setattr(wasm, "CAPABILITIES", Capabilities())
    qd.init(**WASM.values[0])
    x = qd.field(qd.i32, 4)
    line = far.__wrapped__.__code__.co_firstlineno + 3
    with pytest.raises(qd.QuadrantsRuntimeError) as told:
        far(x, 1 << 28)
    said = str(told.value)
    assert "error[QL3042]: WebAssembly stopped kernel 'far': out of bounds memory access" in said
    assert f"{Path(__file__).name}, line {line}" in said
    assert x.to_numpy().tolist() == [1, 0, 0, 0]
    far(x, 3)
    assert x.to_numpy().tolist() == [1, 0, 0, 2]
