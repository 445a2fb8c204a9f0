"""Makes the exceptions of failed launches, which name kernel, line, values and cause."""

from __future__ import annotations

from quadrants_lab.backends.launch import AssertFailed, Frame, Overflow, Status
from quadrants_lab.errors import Label, QuadrantsAssertionError, QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir.show import fill


def failure(frame: Frame, name: str, forced: int) -> QuadrantsError:
    """The exception for the last launch of the frame, which failed; ``name``: its kernel's; ``forced``: the kernel's
    option ad_stack_size."""
    what, status = frame.failure(), frame.status
    if isinstance(what, AssertFailed):
        return _assertion(name, what)
    if isinstance(what, Overflow):
        return _overflow(name, forced, what)
    if status & Status.CANCELLED:
        return QuadrantsRuntimeError(f"the launch of kernel {name} was cancelled", code="QL2071")
    return QuadrantsRuntimeError(f"kernel {name} failed (status {status})", code="QL2072")


def _assertion(kernel: str, failed: AssertFailed) -> QuadrantsError:
    """The exception for a failed assert or check, with values in its message."""
    from quadrants_lab.analysis.race_trials import RACE_CURE
    from quadrants_lab.passes.check_bounds import BOUNDS_CURE, NO_ELEMENT

    stmt = failed.stmt
    message = fill(stmt.message, failed.values)  # the device has stored only the first few values
    if stmt.kind == "race":
        return QuadrantsAssertionError(
            f"{message} (kernel {kernel})",
            code="QL2075",
            labels=(Label(stmt.span, "which comes first is not defined"),),
            help=RACE_CURE,
        )
    start = f"{message} (kernel {kernel})"
    if stmt.kind == "assert":
        start = f"assertion failed in kernel {kernel}" + (message and f": {message}")
    label, cure = {  # by kind of check
        "assert": ("this did not hold", ""),
        "bounds": (NO_ELEMENT, BOUNDS_CURE),
        "division": ("this has no value", "test for 0 with if before, or give another number"),
    }[stmt.kind]
    return QuadrantsAssertionError(start, code="QL2070", labels=(Label(stmt.span, label),), help=cure)


def _overflow(kernel: str, forced: int, overflow: Overflow) -> QuadrantsError:
    """The exception for an adstack overflow. Its cause is that a size was forced, or that loop bounds changed while the
    kernel ran."""
    stack = overflow.stack
    if forced:
        cause = f"ad_stack_size={forced} forces every stack to {forced} slots"
        cure = f"leave ad_stack_size out of qd.init(), or give at least {overflow.depth}"
    else:
        cause = (
            "what the loop bounds read changed after the stacks were sized, or fast_math rounded the condition of a "
            "while in another way there"
        )
        cure = "do not write to it from another thread while the gradient runs; qd.init(fast_math=False) rounds alike"
    name = stack.name or f"%{stack.primal}"
    return QuadrantsAssertionError(
        f"adstack overflow in the gradient of kernel {kernel}: the stack of '{name}' holds "
        f"{overflow.capacity}, {overflow.depth} were needed; .grad is partial",
        code="QL2073",
        labels=(Label(stack.span, "kept on this stack"),),
        help=f"{cause}; {cure}",
    )
