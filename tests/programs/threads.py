"""Programs that several threads run at a time, each with its own data: PROGRAMS by name, and `run_together`.

A program takes a number, by which its data differ from those of other threads and turns, and asserts what it computed.
As a script it runs them in this process: ``python -m programs.threads ARCH [THREADS [TURNS]]``. Where they hang or
crash, it prints the stack of each thread and the program that each was in.
"""

from __future__ import annotations

import faulthandler
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np

import quadrants_lab as qd
from quadrants_lab.runtime.session import current

SIZE = 24
PRINTED = "program"  # what `prints` prints, before a number


@qd.kernel
def scale(x: qd.types.ndarray(qd.f32), y: qd.types.ndarray(qd.f32), s: qd.f32):
    for i in range(x.shape[0]):
        y[i] = x[i] * s + i


@qd.kernel
def powers(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        v = x[i]
        for _ in range(n + i % 3):
            v = v * x[i]
        y[i] = v


@qd.kernel
def total(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i]


@qd.kernel
def step(x: qd.template(), s: qd.f32):
    for i in x:
        x[i] = x[i] * x[i] * s


@qd.kernel
def draw(x: qd.template(), y: qd.template()):
    for i in x:
        y[i] = x[i] * (1.0 + qd.random(qd.f32))


@qd.kernel
def say(n: qd.i32):
    print("program", n)


@qd.kernel
def any_tensor(x: qd.Tensor, s: qd.f32):
    for i in range(x.shape[0]):
        x[i] = x[i] + s


@qd.kernel
def both(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] * x[i] * x[i]


def values(n: int, size: int = SIZE) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(n).random(size) * 0.5 + 0.75).astype(np.float32)


def field(given: np.ndarray[Any, Any], **how: Any) -> Any:
    made = qd.field(qd.f32, given.shape, **how)
    made.from_numpy(given)
    return made


def number() -> Any:
    return qd.field(qd.f32, (), needs_grad=True)


def near(found: Any, right: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(found, right, tolerance, tolerance)


# --- the programs ---------------------------------------------------------------------------------------------------


def repeated(n: int) -> None:
    """The same kernel over a field of its own, many times."""
    x = qd.field(qd.i32, SIZE)

    @qd.kernel
    def add(s: qd.i32):
        for i in x:
            x[i] += s

    for k in range(40):
        add(k)
    assert (x.to_numpy() == sum(range(40))).all()


def ndarrays(n: int) -> None:
    """Ndarrays that are made and dropped."""
    x = values(n)
    for k in range(6):
        a, b = qd.ndarray(qd.f32, SIZE + k), qd.ndarray(qd.f32, SIZE + k)
        a.from_numpy(values(n + k, SIZE + k))
        scale(a, b, 2.0)
        near(b.to_numpy(), values(n + k, SIZE + k) * 2 + np.arange(SIZE + k))
        a.fill(n % 7)
        b[k] = 3.5
        assert a[k] == n % 7
        assert b[k] == 3.5
    near(x, values(n))


def fields(n: int) -> None:
    """Reads and writes by Python between launches."""
    x, y = field(values(n)), qd.field(qd.f32, SIZE)
    now = values(n)
    for k in range(4):
        powers(x, y, 1)
        near(y[k], now[k] ** (2 + k % 3))
        x[k] = now[k] = 1.25
        y.fill(k)
        assert (y.to_numpy() == k).all()
        y.copy_from(x)
        near(y.to_numpy(), now)


def gradients(n: int) -> None:
    """A launch and its gradient by hand."""
    x, y = field(values(n), needs_grad=True), qd.field(qd.f32, SIZE, needs_grad=True)
    v, e = values(n), 3 + np.arange(SIZE) % 3
    for _ in range(2):
        powers(x, y, 2)
        near(y.to_numpy(), v**e, 1e-4)
        x.grad.fill(0)
        y.grad.fill(1)
        powers.grad(x, y, 2)
        near(x.grad.to_numpy(), e * v ** (e - 1), 1e-4)


def tapes(n: int) -> None:
    """A Tape over launches that overwrite what its gradient reads."""
    x, loss = field(values(n), needs_grad=True), number()
    v = values(n).astype(np.float64)
    for k in range(3):
        x.from_numpy(values(n))
        s = 0.5 + 0.1 * k
        with qd.ad.Tape(loss):
            step(x, s)
            step(x, s)
            total(x, loss)
        near(loss[None], (v**4 * s**3).sum(), 1e-4)
        near(x.grad.to_numpy(), 4 * v**3 * s**3, 1e-4)


def budgets(n: int) -> None:
    """A Tape that runs launches again."""
    x, loss = field(values(n), needs_grad=True), number()
    v = values(n).astype(np.float64)
    with qd.ad.Tape(loss, memory=15 * SIZE):
        for _ in range(4):
            step(x, 0.9)
        total(x, loss)
    near(x.grad.to_numpy(), 16 * v**15 * 0.9**15, 1e-3)


def forward_mode(n: int) -> None:
    x, loss = qd.field(qd.f32, SIZE, needs_dual=True), qd.field(qd.f32, (), needs_dual=True)
    x.from_numpy(values(n))
    with qd.ad.FwdMode(loss, x, np.ones(SIZE)):
        loss[None] = 0
        both(x, loss)
    near(loss.dual[None], (3 * values(n) ** 2).sum(), 1e-4)


def random_numbers(n: int) -> None:
    """A gradient has the draws of its launch."""
    x, y = field(values(n), needs_grad=True), qd.field(qd.f32, SIZE, needs_grad=True)
    draw(x, y)
    found = y.to_numpy() / values(n)
    assert ((0.9999 < found) & (found < 2.0001)).all()
    y.grad.fill(1)
    draw.grad(x, y)
    near(x.grad.to_numpy(), found)


def prints(n: int) -> None:
    say(n)


def tensors(n: int) -> None:
    """The same kernel over fields, ndarrays and numpy arrays."""
    x, y = field(values(n)), qd.ndarray(qd.f32, SIZE)
    z = values(n)
    y.from_numpy(values(n))
    for k in range(3):
        for one in (x, y, z) if n % 2 else (z, y, x):
            any_tensor(one, k)
    for one in (x.to_numpy(), y.to_numpy(), z):
        near(one, values(n) + 3)


def compiled(n: int) -> None:
    """A kernel that is compiled for this thread alone."""
    x, factor, loss = field(values(n), needs_grad=True), 1 + n % 5, number()

    @qd.kernel
    def scaled():
        for i in x:
            loss[None] += x[i] * factor

    with qd.ad.Tape(loss):
        scaled()
    near(loss[None], (values(n) * factor).sum(), 1e-4)
    assert (x.grad.to_numpy() == factor).all()


def data_oriented(n: int) -> None:
    @qd.data_oriented
    class Model:
        def __init__(self) -> None:
            self.x = field(values(n))
            self.power = 2 + n % 2

        @qd.kernel
        def run(self):
            for i in self.x:
                self.x[i] = self.x[i] ** self.power

    made = Model()
    made.run()
    near(made.x.to_numpy(), values(n) ** made.power)


def recorded(n: int) -> None:
    """A program that is replayed."""
    x, y = field(values(n)), qd.field(qd.f32, SIZE)

    @qd.ad.program
    def twice():
        powers(x, y, 1)
        powers(y, x, 1)

    for _ in range(5):
        x.from_numpy(values(n))
        twice()
    e = 2 + np.arange(SIZE) % 3
    near(x.to_numpy(), values(n).astype(np.float64) ** (e * e), 1e-3)


def refused(n: int) -> None:
    """A function that cannot be recorded as a program, while other threads compile."""
    x = qd.field(qd.f32, SIZE)

    @qd.kernel
    def bad():
        for i in x:
            x[i] = nowhere  # noqa: F821

    try:
        bad()
        said = "it was compiled"
    except qd.QuadrantsNameError as e:
        said = str(e)
    assert "name 'nowhere' is not defined" in said


PROGRAMS: dict[str, Callable[[int], None]] = {
    f.__name__: f
    for f in (repeated, tapes, gradients, ndarrays, compiled, fields, tensors, budgets, random_numbers, prints,
              forward_mode, data_oriented, recorded, refused)
}  # fmt: skip


# --- threads --------------------------------------------------------------------------------------------------------


class Together:
    """Runs ``threads`` threads, each of which runs ``turns`` programs; no two begin with the same one. ``errors``:
    what went wrong, in words. ``now``: the program that each thread is in."""

    def __init__(self, threads: int, turns: int) -> None:
        self.errors: list[str] = []
        self.now: list[str] = ["has not begun"] * threads
        self.turns = turns
        self.printed = io.StringIO()
        self._workers = [threading.Thread(target=self._work, args=(k,), daemon=True) for k in range(threads)]

    def _work(self, k: int) -> None:
        names = list(PROGRAMS)
        for turn in range(self.turns):
            name = names[(turn + 7 * k) % len(names)]
            self.now[k] = f"is in turn {turn}, {name}"
            try:
                PROGRAMS[name](100 * k + turn)
            except BaseException:
                self.errors.append(f"thread {k}, turn {turn}, {name}:\n{traceback.format_exc()}")
        self.now[k] = "is done"

    def run(self, seconds: float) -> list[str]:
        """Runs them to their end; what went wrong, with a line for each thread that does not end in time."""
        with redirect_stdout(self.printed):
            for worker in self._workers:
                worker.start()
            for worker in self._workers:
                worker.join(seconds)
        if any(worker.is_alive() for worker in self._workers):
            self.errors += [f"thread {k} {words}" for k, words in enumerate(self.now)]
            return self.errors
        said = sorted(line for line in self.printed.getvalue().splitlines() if line)
        right = sorted(f"{PRINTED} {100 * k + turn}" for k in range(len(self.now)) for turn in self._printing(k))
        if said != right:
            self.errors.append(f"printed {said}, not {right}")
        return self.errors

    def _printing(self, k: int) -> list[int]:
        names = list(PROGRAMS)
        return [turn for turn in range(self.turns) if names[(turn + 7 * k) % len(names)] == "prints"]


def run_together(threads: int = 8, turns: int = 50, seconds: float = 120) -> list[str]:
    """Returns what goes wrong when ``threads`` threads run ``turns`` programs each."""
    return Together(threads, turns).run(seconds)


def main() -> int:
    arch, threads, turns, seconds = sys.argv[1], *map(int, [*sys.argv[2:], *("8", "50", "60")[len(sys.argv) - 2 :]])
    faulthandler.enable()
    faulthandler.dump_traceback_later(seconds + 10, exit=True)  # where even the main thread hangs
    if not os.environ.get("QL_NO_STAND_IN"):
        from rigs import cuda_stand_in, hip_stand_in

        cuda_stand_in.install()
        hip_stand_in.install()
    if arch == "apart":
        from rigs import apart

        arch = "vulkan"
        apart.pytest_configure()
    kept: dict[str, Any] = {"offline_cache": False}
    if folder := os.environ.get("QL_THREADS_CACHE"):
        kept = {"offline_cache": True, "offline_cache_file_path": folder}
    try:
        qd.init(arch=getattr(qd, arch), enable_fallback=False, simulate=True, **kept)
    except qd.QuadrantsRuntimeError as e:
        if arch == "cuda":
            raise
        print(f"there is no {arch}: {e}")
        return 0
    device: Any = current().device
    name = getattr(device, "name", "") or str(getattr(device, "physical", "the processor"))
    errors = run_together(threads, turns, seconds)
    for error in errors[:12]:
        print(error, flush=True)
    if any(" is in turn " in error for error in errors):
        faulthandler.dump_traceback(all_threads=True)
    print(f"{arch}, {name}: {threads} threads, {turns} programs each, {len(errors)} errors", flush=True)
    if errors:
        os._exit(1)  # without waiting for threads, or for a device that is lost
    return 0


if __name__ == "__main__":
    sys.exit(main())
