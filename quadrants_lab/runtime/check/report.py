"""The report of the gradient doctor, as plain data that prints well in a terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quadrants_lab.errors import QuadrantsAssertionError
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Move
from quadrants_lab.runtime.check.elements import Wrong


@dataclass(frozen=True, slots=True)
class Tangent:
    """The derivative of the loss along a direction: ``found`` by forward mode, ``expected`` by the gradient. ``error``:
    their difference, relative to the sum of the sizes of the gradient's contributions."""

    found: float
    expected: float
    error: float


@dataclass(frozen=True, slots=True)
class Worst:
    """The element with the greatest error: its index, its gradient, and its slope by differences."""

    index: str
    gradient: float
    slope: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the gradient by one input. ``kind``: "right", "wrong", "noisy", "kink", "jumps" or "nonfinite".
    ``says``: the verdict as a sentence. ``good``: nothing contradicts the gradient. ``moves``: differences with all
    elements moved. ``tangent``: None if forward mode is not possible. ``at``: number of the element with the greatest
    error, or of one at a kink, None if none is known. ``causes``: why the gradient is wrong, or why it is zero."""

    field: str
    kind: str
    says: str
    moves: tuple[Move, ...] = ()
    tangent: Tangent | None = None
    worst: Worst | None = None
    wrong: Wrong | None = None
    at: int | None = None
    causes: tuple[Cause, ...] = ()

    @property
    def good(self) -> bool:
        return self.kind in ("right", "noisy")

    def beside(self, python: Cause | None) -> Verdict:
        """The verdict where the program does more than its launches, see `recording.beside_launches`: if a part of the
        derivative is lost in Python, a gradient that is good for the launches is wrong for the program."""
        if python is None:
            return self
        causes = (*self.causes, python)
        if not self.good or python.kind != "python":
            return replace(self, causes=causes)
        says = f"is WRONG: it lacks what goes through Python; of what the launches compute, it {self.says}"
        return replace(self, kind="wrong", says=says, moves=(), tangent=None, causes=causes)

    def __str__(self) -> str:
        lines = [f"{'ok    ' if self.good else 'not ok'}  the gradient of {self.field} {self.says}"]
        if self.kind not in ("right", "noisy", "nonfinite"):
            lines += [
                f"        step {m.width:.0e}: the loss changes by {m.found:.6g}, by the gradient it is {m.expected:.6g}"
                for m in self.moves
            ]
            if self.tangent is not None:
                lines.append(
                    f"        forward mode: along that direction {self.tangent.found:.6g}, by the gradient it is "
                    f"{self.tangent.expected:.6g}"
                )
            if self.wrong is not None:
                lines.append(f"        {self.wrong}")
        return "\n".join([*lines, *map(indented, self.causes)])


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on a whole program. ``says``: why there are no verdicts, else "". ``causes``: problems of the
    program as a whole. ``stopped``: the check was interrupted. ``warnings``: warnings while the program ran; those at
    the line of a cause are not shown."""

    loss: str
    value: float
    verdicts: tuple[Verdict, ...] = ()
    says: str = ""
    causes: tuple[Cause, ...] = ()
    stopped: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether nothing contradicts a gradient."""
        return not self.says and not self.causes and not self.stopped and all(v.good for v in self.verdicts)

    def __bool__(self) -> bool:
        return self.right

    def __getitem__(self, name: str) -> Verdict:
        """The verdict on the input of that name."""
        for v in self.verdicts:
            if v.field == name:
                return v
        raise KeyError(f"no verdict on {name!r}: there are {', '.join(v.field for v in self.verdicts) or 'none'}")

    def raise_if_wrong(self) -> Report:
        """Returns the report; raises QuadrantsAssertionError with its text if something contradicts a gradient."""
        __tracebackhide__ = True
        if not self.right:
            raise QuadrantsAssertionError(f"a gradient is not right\n{self}", code="QL2099")
        return self

    def __str__(self) -> str:
        lines = [self.says] if self.says else [str(v) for v in self.verdicts]
        lines += [indented(c) for c in self.causes]
        causes = [*self.causes, *(c for v in self.verdicts for c in v.causes)]
        places = {f"--> {c.file}, line {c.line}" for c in causes}
        lines += [w for w in self.warnings if not any(f"{place}\n" in w for place in places)]
        if self.stopped:
            lines.append("stopped before everything was checked")
        return "\n".join(lines) or "the launches touched no field with a gradient but the loss"


def indented(cause: Cause) -> str:
    return "\n".join(f"        {line}" for line in str(cause).splitlines())
