"""Runs passes over a kernel and, when somebody listens, records what each one did."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter

from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.verify import VerifyError, verify


@dataclass(slots=True)
class Step:
    """One pass over one kernel; ``before is after`` when it changed nothing."""

    name: str
    before: Kernel
    after: Kernel
    seconds: float


@dataclass(slots=True)
class Trace:
    """What the passes did, in the order in which they ran; kernels are held by reference."""

    steps: list[Step] = field(default_factory=list)


RECORDER: ContextVar[Trace | None] = ContextVar("quadrants_lab_recorder", default=None)


def pass_name(fn: Pass) -> str:
    """The name that a pass shows: that of its function, with spaces."""
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
        start = perf_counter()
        kernel = fn(before)
        if trace is not None:
            trace.steps.append(Step(pass_name(fn), before, kernel, perf_counter() - start))
        if verify and kernel is not before:
            _check(kernel, f"after pass '{pass_name(fn)}'")
    return kernel


def _check(kernel: Kernel, when: str) -> None:
    try:
        verify(kernel)
    except VerifyError as e:
        raise e.at(when) from None
