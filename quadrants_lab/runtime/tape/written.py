"""Records which memory launches wrote, and warns about memory that Python wrote between launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.facts import statements
from quadrants_lab.autodiff.diagnostics import GradientWarning, warn, warning
from quadrants_lab.errors import Label
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import Observer

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class Writes(Observer):
    """An observer that records which memory was written, and the names of the kernels in order."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.written: dict[int, Memory] = {}
        self.kernels: list[str] = []

    def wrote(self, memory: Memory) -> bool:
        return id(memory) in self.written

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        self.kernels.append(plan.kernel.name)
        self.written |= {id(memory): memory for memory in plan.written(args)}


class Overwritten:
    """Memory that Python wrote after launches had used it; if a later launch reads it, this warns. ``which``: as for
    `overwrite_warning`."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.names: dict[int, str] = {}  # id of a memory -> its name

    def launched(self, plan: Plan, args: Sequence[Any]) -> None:
        """Call this before a launch, if there are ``names``."""
        for name, memory in plan.memories(args).items():
            known = self.names.pop(id(memory), "") if name in plan.reads | plan.writes else ""
            if known and name in plan.reads:
                warn([overwrite_warning(known, self.which)])


def overwrite_warning(name: str, which: str) -> GradientWarning:
    """The warning that Python wrote to a field between two launches. ``which``: "grad" or "dual"."""
    where, effect = {
        "grad": ("a Tape", f"{name}.grad is the derivative by what it was before, and what was written is a constant"),
        "dual": ("a FwdMode", f"what was written is a constant, and {name}.dual is 0 there"),
    }[which]
    return warning(
        "QL0415",
        f"{name} was written from Python between two launches under {where} that use it: {effect}",
        (),
        f"write it before the {where[2:]}, or use a field of its own for each value",
        None,
    )


def gradient_warning(plan: Plan, which: str) -> GradientWarning:
    """The warning that the program launched a gradient itself. ``which``: as for `overwrite_warning`."""
    where, effect, cure = {
        "grad": ("a Tape", ", and the Tape added its own gradients to that",
                 "leave it to the Tape, whose method grad() runs the gradients of the launches so far"),
        "dual": ("a FwdMode", "", "launch it outside of the FwdMode"),
    }[which]  # fmt: skip
    span = plan.kernel.span
    return warning(
        "QL0420",
        f"the gradient of kernel {plan.kernel.name} was launched under {where}, which does not differentiate it: what "
        f"it computed counts as a constant{effect}",
        (Label(span, "the kernel"),),
        cure,
        span,
    )


def span_of(plan: Plan, buffer: str, kind: type[N.Stmt]) -> Span | None:
    """Where, in the source, the kernel first accesses the buffer by a statement of the class ``kind``."""
    return next((s.span for s in plan.facts.of(statements).get(buffer, ()) if isinstance(s, kind)), None)
