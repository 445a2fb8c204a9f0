"""Programs that `tests/distributed` spreads over workers, which import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

import quadrants_lab as qd
from quadrants_lab.distributed import kept
from quadrants_lab.kernels.mpm import jelly
from quadrants_lab.kernels.rods import misfit as diffusivity  # noqa: F401  # a shard is what was measured

POINTS, STEPS = 8, 6


def rods(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).standard_normal((count, STEPS + 1, POINTS)))


def controller(throw: Any, target: Any) -> Any:
    """How far a jelly misses; a shard is a target."""
    mine = kept(jelly, 3, 12)
    mine.target.from_numpy(target)
    return mine.gradient(throw.to_numpy(), 5)


def killed(params: Any, shard: Any) -> Any:
    """The sum of squares of the parameters times the shard's number; where there is a marker, which it takes away, its
    worker is killed instead."""
    number, marker = shard
    if marker and Path(marker).exists():
        Path(marker).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    x = params.to_numpy()
    return number * float((x**2).sum()), 2.0 * number * x


def always_killed(params: Any, shard: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def no_memory(params: Any, marker: Any) -> Any:
    if Path(marker).exists():
        Path(marker).unlink()
        raise MemoryError
    return 1.0, params.to_numpy()


def never_memory(params: Any, shard: Any) -> Any:
    raise MemoryError


@qd.kernel
def checked(x: qd.template(), at: qd.i32, loss: qd.template()):
    for i in range(1):
        assert at < 3, "the shard is too large"
        loss[None] += x[at] ** 2


def number() -> Any:
    return qd.field(float, (), needs_grad=True)


def asserts(x: Any, at: int) -> Any:
    loss = kept(number)
    with qd.ad.Tape(loss):
        checked(x, at, loss)
    return loss


def gradient_of_both(params: Any, at: int) -> Any:
    """``x[at]**2 + y[at]**2``, by fields that come by name."""
    loss = kept(number)
    with qd.ad.Tape(loss):
        checked(params["x"], at, loss)
        checked(params["y"], at, loss)
    return loss


def without_tape(x: Any, at: int) -> Any:
    loss = kept(number)
    checked(x, at, loss)
    return loss


def session_of(params: Any, shard: Any) -> Any:
    """What the session was made with, and which session and process it is, as a gradient."""
    from quadrants_lab.runtime import session

    now = session.current()
    compile, settings = now.settings.compile, now.settings
    facts = [now.serial, os.getpid(), settings.threads, compile.default_fp.bits, settings.ad_stack_budget]
    return 0.0, np.array(facts, np.float64)


def without_gradient(params: Any, shard: Any) -> Any:
    from quadrants_lab.errors import warn

    warn("said on a worker")
    return 0.0, params.to_numpy()


@qd.kernel
def misfit(x: qd.template(), times: qd.types.ndarray(), heights: qd.types.ndarray(), count: int, loss: qd.template()):
    for i in range(times.shape[0]):
        loss[None] += (x[0] + x[1] * times[i] - heights[i]) ** 2 / count


def line(x: Any, data: Any) -> Any:
    """How far points are from a line; a shard is some of them, as arrays that kernels take."""
    loss = kept(number)
    with qd.ad.Tape(loss):
        misfit(x, *data, 1, loss)
    return loss


def mean_of_line(x: Any, data: Any) -> Any:
    loss = kept(number)
    with qd.ad.Tape(loss):
        misfit(x, data["times"], data["heights"], len(data["times"]), loss)
    return loss


def waits(x: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return asserts(x, 1)
