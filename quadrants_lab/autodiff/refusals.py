"""What has no derivative: the errors, the same in both modes where both have them."""

from __future__ import annotations

from quadrants_lab.errors import Label, QuadrantsCompilationError
from quadrants_lab.ir import nodes as N


def shown(buffer: N.Buffer) -> str:
    """What the program calls it; a launch temporary is a local of the kernel."""
    return f"the local '{buffer.name.rpartition('.tmp')[0]}'" if buffer.kind == "temp" else buffer.name


def _cure(buffer: N.Buffer, otherwise: str) -> str:
    """A local of a loop that runs in order is changed without atomics."""
    return "run the loop in order: qd.loop_config(serialize=True)" if buffer.kind == "temp" else otherwise


def no_derivative(atomic: N.Atomic, buffer: N.Buffer) -> QuadrantsCompilationError:
    return QuadrantsCompilationError(
        f"atomic {atomic.op} on {shown(buffer)} has no derivative",
        code="QL0401",
        labels=(Label(atomic.span, "its result depends on the order of the threads"),),
        help=_cure(buffer, "write the value with a plain assignment, or make the field one without needs_grad"),
    )


def old_value(atomic: N.Atomic, buffer: N.Buffer) -> QuadrantsCompilationError:
    return QuadrantsCompilationError(
        f"the old value that this atomic returns from {shown(buffer)} reaches a differentiable result",
        code="QL0402",
        labels=(Label(atomic.span, "depends on the order of the threads"),),
        help=_cure(buffer, "read the field in a loop of its own before the atomic operation"),
    )


def old_value_again(atomic: N.Atomic, loop: N.Loop) -> QuadrantsCompilationError:
    return QuadrantsCompilationError(
        f"a checkpointed loop needs the old value that an atomic in it returned from {atomic.buffer}",
        code="QL0412",
        labels=(Label(atomic.span, "returned once only"), Label(loop.span, "run again, segment by segment")),
        help="leave checkpoint=True out, or compute the value without an atomic",
    )


def drawn_again(draw: N.Random, loop: N.Loop) -> QuadrantsCompilationError:
    return QuadrantsCompilationError(
        "a checkpointed loop may not draw random numbers",
        code="QL0413",
        labels=(Label(draw.span, "drawn here"), Label(loop.span, "run again, segment by segment")),
        help="leave checkpoint=True out, or draw into a field in a loop of its own",
    )


def gradient_needed(load: N.Load, of: N.Buffer) -> QuadrantsCompilationError:
    return QuadrantsCompilationError(
        f"the gradient needs what this kernel reads of {of.grad}, and adds to it",
        code="QL0419",
        labels=(Label(load.span, "read here"),),
        help=f"read a copy of {of.grad} in another field",
    )
