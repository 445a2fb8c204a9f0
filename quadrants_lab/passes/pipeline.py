"""Runs passes over a kernel, and records what each one did when a trace is active."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from time import perf_counter

from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True)
class Step:
    """One pass over one kernel; ``before is after`` when it changed nothing."""

    name: str
    before: Kernel
    after: Kernel
    seconds: float


@dataclass(slots=True)
class Trace:
    """The steps of passes in the order in which they ran. ``now`` names what is running. ``outer`` is the trace that
    shows the work of this one under the name ``what``."""

    steps: list[Step] = field(default_factory=list)
    now: str = ""
    outer: Trace | None = None
    what: str = ""


RECORDER: ContextVar[Trace | None] = ContextVar("quadrants_lab_recorder", default=None)


@contextmanager
def recorded_apart(what: str) -> Iterator[Trace | None]:
    """Records the passes of this context in a trace of their own, while the outer trace shows ``what`` runs. None where
    no trace is active."""
    outer = RECORDER.get()
    if outer is None:
        yield None
        return
    trace = Trace(outer=outer, what=what)
    token = RECORDER.set(trace)
    try:
        yield trace
        outer.now = ""
    finally:
        RECORDER.reset(token)


@contextmanager
def unrecorded(what: str) -> Iterator[None]:
    """Shows in the outer trace that ``what`` runs, and records none of its passes."""
    begin(what)
    token = RECORDER.set(None)
    try:
        yield
    finally:
        RECORDER.reset(token)


def begin(name: str) -> None:
    """Shows in the outer trace, if there is one, what runs now."""
    trace = RECORDER.get()
    if trace is not None and trace.outer is not None:
        trace.outer.now = f"{trace.what}: {name}"


def pass_name(fn: Pass) -> str:
    """The name of a pass in traces: that of its function, with spaces."""
    return str(getattr(fn, "__name__", fn)).replace("_", " ")


def run(kernel: Kernel, passes: Iterable[Pass], verify: bool = False) -> Kernel:
    """The kernel after all of ``passes``, recorded in the trace of `RECORDER` if there is one.

    With ``verify`` the verifier checks the kernel at the start and after every pass; its `VerifyError` then names
    the pass that broke the kernel.
    """
    trace = RECORDER.get()
    if verify:
        _check(kernel, "before the first pass")
    for fn in passes:
        before = kernel
        if trace is not None:
            begin(pass_name(fn))
        start = perf_counter()
        kernel = fn(before)
        if trace is not None:
            trace.steps.append(Step(pass_name(fn), before, kernel, perf_counter() - start))
        if verify and kernel is not before:
            _check(kernel, f"after pass '{pass_name(fn)}'")
    return kernel


def _check(kernel: Kernel, when: str) -> None:
    from quadrants_lab.ir.verify import VerifyError, verify  # few kernels are verified

    try:
        verify(kernel)
    except VerifyError as e:
        raise e.at(when) from None
