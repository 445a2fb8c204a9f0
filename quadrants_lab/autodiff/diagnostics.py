"""Makes errors about programs that have no derivative, or whose derivative needs values that are gone; and warnings
about gradients that are probably not what the user means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.errors import Label, QuadrantsCompilationError, QuadrantsRuntimeError, render, warn_at
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import find

if TYPE_CHECKING:
    from quadrants_lab.analysis.facts import TripCount

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
               "move one of the two accesses to a loop of its own"),
    "QL0412": ("a checkpointed loop needs the old value that an atomic in it returned from {name}",
               ("returned once only", _AGAIN), "leave checkpoint=True out, or compute the value without an atomic"),
    "QL0413": ("a checkpointed loop may not draw random numbers", ("drawn here", _AGAIN),
               "leave checkpoint=True out, or draw into a field in a loop of its own"),
    "QL0418": ("this decomposition has a first derivative only",
               ("found by iterations; a formula gives its derivative, but not the second one",),
               "compare gradients: those of a qd.ad.Tape at x + h * v and at x - h * v"),
    "QL0419": ("the gradient needs the values of {name} that this kernel reads, and adds to them", ("read here",),
               "read a copy of {name} in another field"),
    "QL0422": ("{name} gets a value by way of an integer that holds its bits, and the derivative does not go that way",
               ("the value becomes bits here", "and a value again here"),
               "keep the value in memory of its own dtype; or say qd.stop_grad(...) before bit_cast"),
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
    """The error with this code about an atomic operation on ``buffer``. If that is a local variable of the kernel, the
    help says to run the loop in order, since a serial loop needs no atomic operations."""
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
    """The error about a gradient that needs buffers which no launch kept. ``of_torch``: torch launches the
    gradient."""
    saved = next(t for t in kernel.body if any(kernel.buffers[s.buffer].role == "kept"
                                               for s in find((t,), N.Load)))  # fmt: skip
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
    """The error about a gradient whose arguments differ from those of the kernel's last launch, so that it would repeat
    the random numbers of another computation."""
    drawn = next(s for s in find(kernel.body, N.Random))
    return QuadrantsRuntimeError(
        f"the gradient of kernel {kernel.name} repeats the random numbers of its last launch, which was one with other "
        "arguments",
        code="QL0416",
        labels=(Label(drawn.span, "drawn here"),),
        help=f"launch {kernel.name} with the arguments of its gradient first; or under qd.ad.Tape(loss), which repeats "
        "the numbers of every launch",
    )


@dataclass(frozen=True, slots=True)
class GradientWarning:
    """The text of a warning, and the source line to which it points."""

    text: str
    span: Span | None


def warning(code: str, message: str, labels: tuple[Label, ...], help: str, span: Span | None) -> GradientWarning:
    return GradientWarning(render(code, message, labels, help, kind="warning"), span)


def warn(found: Iterable[GradientWarning]) -> None:
    """Issues each warning at the user's line. A warning that several copies of a statement cause is issued once."""
    for w in dict.fromkeys(found):
        file, line = (w.span.file, w.span.line) if w.span else ("<kernel>", 0)
        warn_at(w.text, file, line)


def other_trips(kernel: str, changed: Sequence[TripCount]) -> GradientWarning:
    """The warning that data from which loops compute their trip counts were written between a launch and its
    gradient."""
    names = ", ".join(c.buffer for c in changed)
    verb = "was" if len(changed) == 1 else "were"
    labels = []
    for c in changed:
        labels.append(Label(c.read, f"the trip count of a loop is read from {c.buffer} here"))
        if c.loop is not None and c.read is not None and c.loop.line != c.read.line:
            labels.append(Label(c.loop, f"the trip count of this loop depends on {c.buffer}"))
    return warning(
        "QL0410",
        f"the gradient of kernel {kernel} has other trip counts than its launch: {names} {verb} written in between",
        tuple(labels),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        changed[0].read,
    )


def stale(kernel: str, count: TripCount, writer: str) -> GradientWarning:
    """The warning that values which the gradient reads, other than trip counts, have changed."""
    return warning(
        "QL0417",
        f"the gradient of kernel {kernel} reads {count.buffer}, which {writer} wrote after {kernel} was launched: it "
        "is the derivative at other values than the launch had",
        (Label(count.read, "read here, and again for the gradient"),),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        count.read,
    )


def no_seed(kernel: str, buffers: Sequence[str], span: Span | None, call: str) -> GradientWarning:
    """The warning that the gradients of all these buffers, which the kernel's gradient starts from, are 0. ``call``:
    the torch function whose backward launched the gradient, or ""."""
    names = [f"{name}.grad" for name in buffers]
    verb = "is" if len(names) == 1 else "are"
    return warning(
        "QL0409",
        f"the gradient of kernel {kernel} adds nothing: {', '.join(names)} {verb} 0 everywhere",
        (Label(span, f"the derivative starts here, from {names[0]}"),),
        f"set it in {call}.backward: {names[0]} = dy" if call
        else f"set it first, for instance {names[0]}.fill(1), or launch the kernel under qd.ad.Tape(loss)",
        span,
    )
