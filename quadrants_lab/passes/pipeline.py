"""Runs passes over a kernel, and records what each one did in a trace."""

from collections.abc import Callable, Iterable
from dataclasses import field
from time import perf_counter

from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.record import dataclass


@dataclass(slots=True)
class Step:
    """A run of one pass on one kernel. If the pass changed nothing, ``before`` and ``after`` are the same object."""

    name: str
    before: Kernel
    after: Kernel
    seconds: float


@dataclass(slots=True)
class Trace:
    """The runs of passes, in order. ``tell`` is called with the name of a pass before it runs."""

    steps: list[Step] = field(default_factory=list)
    tell: Callable[[str], None] = lambda name: None


def pass_name(fn: Pass) -> str:
    """The name of a pass in traces: the name of its function, with spaces for underscores."""
    return str(getattr(fn, "__name__", fn)).replace("_", " ")


def run(kernel: Kernel, passes: Iterable[Pass], verify: bool = False, trace: Trace | None = None) -> Kernel:
    """Runs ``passes`` on the kernel and returns the result; ``trace`` records each run.

    With ``verify`` the verifier checks the kernel at the start and after every pass; its `VerifyError` then names the
    pass that broke the kernel.
    """
    if verify:
        _check(kernel, "before the first pass")
    for fn in passes:
        before = kernel
        if trace is not None:
            trace.tell(pass_name(fn))
        start = perf_counter()
        kernel = fn(before)
        if trace is not None:
            trace.steps.append(Step(pass_name(fn), before, kernel, perf_counter() - start))
        if verify and kernel is not before:
            _check(kernel, f"after pass '{pass_name(fn)}'")
    return kernel


def _check(kernel: Kernel, when: str) -> None:
    from quadrants_lab.ir.verify import VerifyError, verify  # imported late, since few kernels are verified

    try:
        verify(kernel)
    except VerifyError as e:
        raise e.at(when) from None
