"""The errors about programs that have no derivative, or whose derivative needs values that are gone."""

from typing import Any

from quadrants_lab.errors import Label, QuadrantsCompilationError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk

_AGAIN = "run again, segment by segment"
_ORDER = "depends on the order of the threads"
_ALONG = "keep every value in an element of its own, for instance along an axis of time: u[t + 1, i] from u[t, i]"
# code -> the message, a label for each line that is shown, and the help; all are format strings
TABLE: dict[str, tuple[str, tuple[str, ...], str]] = {
    "QL0401": ("atomic {op} on {name} has no derivative", ("its result depends on the order of the threads",),
               "write the value with a plain assignment, or make the field one without needs_grad"),
    "QL0402": ("the old value that this atomic returns from {name} reaches a differentiable result", (_ORDER,),
               "read the field in a loop of its own before the atomic operation"),
    "QL0403": ("the gradient needs the old value that this atomic returned from {name}", (_ORDER,),
               "compute the value without an atomic; or write it to a field, and read that in another loop"),
    "QL0404": ("the gradient needs the value of {name} that the kernel overwrites",
               ("read here, and again for the gradient", "written here"),
               _ALONG),
    "QL0408": ("{name} has an atomic {op} and another access in the same loop", (_ORDER, ""),
               "use it in a loop of its own"),
    "QL0412": ("a checkpointed loop needs the old value that an atomic in it returned from {name}",
               ("returned once only", _AGAIN), "leave checkpoint=True out, or compute the value without an atomic"),
    "QL0413": ("a checkpointed loop may not draw random numbers", ("drawn here", _AGAIN),
               "leave checkpoint=True out, or draw into a field in a loop of its own"),
    "QL0418": ("this decomposition has a first derivative only",
               ("found by iterations; a formula gives its derivative, but not the second one",),
               "compare gradients: those of a qd.ad.Tape at x + h * v and at x - h * v"),
    "QL0419": ("the gradient needs the values of {name} that this kernel reads, and adds to them", ("read here",),
               "read a copy of {name} in another field"),
}  # fmt: skip


def refusal(code: str, *spans: Span | None, cure: str = "", **parts: Any) -> QuadrantsCompilationError:
    """The error of that code, which shows the lines at ``spans``. ``cure`` replaces the help of the table."""
    message, whys, known = TABLE[code]
    labels = tuple(Label(span, why) for span, why in zip(spans, whys, strict=True))
    text = message.format(**parts)
    return QuadrantsCompilationError(text, code=code, labels=labels, help=cure or known.format(**parts))


def shown(buffer: N.Buffer) -> str:
    """The buffer's name in the program: a launch temporary has the name of a local of the kernel."""
    return f"the local '{buffer.name.rpartition('.tmp')[0]}'" if buffer.kind == "temp" else buffer.name


def of_atomic(code: str, atomic: N.Atomic, buffer: N.Buffer) -> QuadrantsCompilationError:
    """The error about an atomic. If the atomic is on a local of the kernel, the help says that a serial loop needs no
    atomics."""
    cure = "run the loop in order: qd.loop_config(serialize=True)" if buffer.kind == "temp" else ""
    return refusal(code, atomic.span, cure=cure, op=atomic.op, name=shown(buffer))


def check_again(s: N.Stmt, loop: N.Loop, used: bool) -> None:
    """Raises an error if a checkpointed loop cannot run the statement again: a random draw, or an atomic whose old
    value is ``used``."""
    if isinstance(s, N.Random):
        raise refusal("QL0413", s.span, loop.span)
    if isinstance(s, N.Atomic) and used:
        raise refusal("QL0412", s.span, loop.span, name=s.buffer)


def nothing_kept(kernel: N.Kernel, why: str, of_torch: bool) -> QuadrantsRuntimeError:
    """The error where a gradient needs buffers that no launch kept for it. ``of_torch``: torch launches it."""
    saved = next(t for t in kernel.body if any(isinstance(s, N.Load) and kernel.buffers[s.buffer].role == "kept"
                                               for s in walk((t,))))  # fmt: skip
    return QuadrantsRuntimeError(
        f"the gradient of kernel {kernel.name} needs values that the kernel overwrites, {why}",
        code="QL0416",
        labels=(Label(saved.span, "overwritten here; a launch keeps what was there for its gradient"),),
        help=f"launch {kernel.name} first, with the arguments of its gradient; or under qd.ad.Tape(loss), which keeps "
        "the values of every launch"
        if not of_torch
        else f"qd.torch_op({kernel.name}, ...) keeps the values of every call",
    )


def other_draws(kernel: N.Kernel) -> QuadrantsRuntimeError:
    """The error where a gradient would repeat the random numbers of a launch with other arguments."""
    drawn = next(s for s in walk(kernel.body) if isinstance(s, N.Random))
    return QuadrantsRuntimeError(
        f"the gradient of kernel {kernel.name} repeats the random numbers of its last launch, which was one with other "
        "arguments",
        code="QL0416",
        labels=(Label(drawn.span, "drawn here"),),
        help=f"launch {kernel.name} with the arguments of its gradient first; or under qd.ad.Tape(loss), which repeats "
        "the numbers of every launch",
    )
