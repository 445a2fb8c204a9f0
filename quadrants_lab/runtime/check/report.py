"""Makes the report of the gradient doctor, as plain data that prints well in a terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsAssertionError
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Move
from quadrants_lab.runtime.check.elements import Wrong

if TYPE_CHECKING:
    from rich.console import RenderableType

# what was found -> (the word on its badge, how bad it is)
LOOKS = {
    "right": ("right", "good"), "right, zero": ("zero", "good"),
    "wrong": ("wrong", "bad"), "wrong, zero": ("zero", "bad"), "nonfinite": ("NaN", "bad"),
    "kink": ("not differentiable", "warning"), "jumps": ("not differentiable", "warning"),
    "noisy": ("noisy", "warning"), "noisy, forward mode agrees": ("right", "good"),
    "fault of the program": ("wrong", "bad"), "error": ("error", "bad"), "unchecked": ("unchecked", "bad"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tangent:
    """The derivative of the loss along a direction: ``found`` by forward mode, ``expected`` from the gradient.
    ``error``: their difference divided by the sum of the absolute contributions to the gradient's."""

    found: float
    expected: float
    error: float


@dataclass(frozen=True, slots=True)
class Worst:
    """The element with the greatest error: its index, its gradient, and its slope by finite differences."""

    index: str
    gradient: float
    slope: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the gradient of one input. ``kind``: "right", "wrong", "noisy", "kink", "jumps" or "nonfinite".
    ``says``: the verdict as a sentence. ``moves``: finite differences with all elements changed. ``tangent``: the
    comparison with forward mode, None if that is not possible. ``at``: the flat index of the element with the greatest
    error, or of one at a kink, None if none is known. ``causes``: why the gradient is wrong, or why it is zero.
    ``zero``: all its elements are 0."""

    field: str
    kind: str
    says: str
    moves: tuple[Move, ...] = ()
    tangent: Tangent | None = None
    worst: Worst | None = None
    wrong: Wrong | None = None
    at: int | None = None
    causes: tuple[Cause, ...] = ()
    zero: bool = False

    @property
    def found(self) -> str:
        """The key in `LOOKS`. If differences are too noisy to judge a gradient, forward mode has to agree."""
        if self.kind == "noisy" and self.tangent is not None:
            return "noisy, forward mode agrees"
        return f"{self.kind}, zero" if self.zero and f"{self.kind}, zero" in LOOKS else self.kind

    @property
    def good(self) -> bool:
        """Whether something agrees with the gradient and nothing contradicts it."""
        return LOOKS[self.found][1] == "good"

    @property
    def telling(self) -> Move | None:
        """The difference at the step size that tells most, which is where it is nearest to the gradient's. For a
        gradient that is not good, only steps count whose difference exceeds noise."""
        unequal = [] if self.good else [m for m in self.moves if m.error]
        return min(unequal or self.moves, key=lambda m: m.error, default=None)

    @property
    def error(self) -> float | None:
        """The relative error of the gradient, by forward mode if it is not good; None if none was measured."""
        if self.tangent is not None and not self.good:
            return self.tangent.error
        return None if self.telling is None else self.telling.error

    def beside(self, python: Cause | None) -> Verdict:
        """The verdict for a program that does more than its launches, see `recording.beside_launches`. If a part of the
        derivative is lost in Python (``python``), a gradient that is right for the launches is wrong for the program.
        """
        if python is None:
            return self
        causes = (*self.causes, python)
        if not self.good or python.kind != "python":
            return replace(self, causes=causes)
        says = f"is WRONG: it lacks what goes through Python; of what the launches compute, it {self.says}"
        return replace(self, kind="wrong", says=says, moves=(), tangent=None, causes=causes)

    @property
    def card(self) -> Card:
        """The verdict as a card. A gradient that is right and not zero shows no cause."""
        why = None if not self.causes or (self.good and not self.zero) else self.causes[0]
        return Card(self.found, f"the gradient of {self.field}", self.says, why, self)

    def table(self) -> list[str]:
        """Lines of text: one for each step size, one for forward mode, and the map of wrong elements; none if
        differences agree or cannot judge."""
        if self.kind in ("right", "noisy", "nonfinite"):
            return []
        lines = [
            f"step {m.width:.0e}: the loss changes by {m.found:.6g}, by the gradient it is {m.expected:.6g}"
            for m in self.moves
        ]
        if self.tangent is not None:
            along = f"along that direction {self.tangent.found:.6g}, by the gradient it is {self.tangent.expected:.6g}"
            lines.append(f"forward mode: {along}")
        return [*lines, *([] if self.wrong is None else [str(self.wrong)])]

    def __str__(self) -> str:
        return str(self.card)


@dataclass(frozen=True, slots=True)
class Card:
    """How the verdict on one input's gradient, or on the program (``of``), is shown everywhere: a badge for what was
    ``found`` (a key of `LOOKS`), then the cause, then the sentence ``says``. ``verdict``: what was measured."""

    found: str
    of: str
    says: str
    why: Cause | None = None
    verdict: Verdict | None = None

    @property
    def badge(self) -> str:
        """The verdict in a word: right, wrong, NaN, zero, not differentiable, noisy."""
        return LOOKS[self.found][0]

    @property
    def level(self) -> str:
        """How bad it is: "good", "bad", or "warning" if it cannot be judged."""
        return LOOKS[self.found][1]

    @property
    def sentence(self) -> str:
        """The sentence after the cause, or the only one if there is no cause."""
        return f"{'it' if self.why else self.of} {self.says}" if self.says else ""

    @property
    def others(self) -> list[Cause]:
        """The causes after the first one."""
        return [c for c in (self.verdict.causes if self.verdict else ()) if c is not self.why]

    def summary(self) -> str:
        """The table of step sizes, shortened to one line."""
        v = self.verdict
        told = v.telling if v else None
        if v is None or told is None:
            return "no step sizes"
        of = f"{len(v.moves)} step size{'s' * (len(v.moves) != 1)}"
        if v.good:
            return f"{of}: {f'at best {told.error:.1e} apart' if told.error else 'equal within the noise'}"
        return f"{of}: at {told.width:.0e} the loss changes by {told.found:.6g}, by the gradient by {told.expected:.6g}"

    def __str__(self) -> str:
        """Badge and cause in the first line, the cause's place in the second."""
        head, *lines = [self.sentence] if self.why is None else [f"{self.of}: {self.why.says}", *self.why.details()]
        lines += [self.sentence] if self.why and self.says else []
        lines += self.verdict.table() if self.verdict else []
        lines += [line for c in self.others for line in str(c).splitlines()]
        return "\n".join([f"{self.badge:<6}  {head}", *(" " * 8 + line for line in lines)])


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on a whole program. ``says``: why there are no verdicts, else "". ``causes``: problems of the
    program as a whole. ``stopped``: the check was interrupted. ``warnings``: warnings that the program gave; those at
    the source line of a cause are not shown."""

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

    @property
    def cards(self) -> list[Card]:
        """Cards for what is wrong with the program, and then for the verdicts, those that are not good first."""
        made = [Card("fault of the program", "the program", "", c) for c in self.causes[bool(self.says) :]]
        if not self.says:
            return made + [v.card for v in sorted(self.verdicts, key=lambda v: v.good)]
        kinds = {c.kind for c in self.causes}
        lost = "nonfinite" in kinds or "the loss is " in self.says
        found = "nonfinite" if lost else "error" if kinds else "unchecked"
        says = f"cannot be checked: {self.says}"
        return [Card(found, "the program", says, next(iter(self.causes), None)), *made]

    @property
    def all_causes(self) -> list[Cause]:
        """All causes: first those of the program's faults, then those of each verdict."""
        return [*self.causes, *(c for v in self.verdicts for c in v.causes)]

    def other_warnings(self) -> list[str]:
        """The warnings that are not at the line of a cause."""
        places = {f"--> {c.file}, line {c.line}" for c in self.all_causes}
        return [w for w in self.warnings if not any(f"{place}\n" in w for place in places)]

    def card(self, steps: bool = False) -> RenderableType:
        """The report in colours, for a terminal: `rich.print(report)`. ``steps``: with the table of step sizes."""
        from quadrants_lab.runtime.check.card import drawn

        return drawn(self, steps)

    def __rich__(self) -> RenderableType:
        return self.card()

    def __str__(self) -> str:
        lines = [*map(str, self.cards), *self.other_warnings()]
        if self.stopped:
            lines.append("stopped before everything was checked")
        return "\n".join(lines) or "the launches touched no field with a gradient but the loss"
