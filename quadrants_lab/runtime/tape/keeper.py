"""What a Tape follows, and the values that it keeps: how many, of what, and for which gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.adstack.report import kept_rows
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.arguments.signature import Place, memory_at
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.followed import Before, Followed
from quadrants_lab.runtime.tape.parts import Part
from quadrants_lab.runtime.tape.route import Route
from quadrants_lab.runtime.tape.step import Kept, Segment, Step
from quadrants_lab.runtime.tape.writes import span_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.launch.scratch import KeptBuffers

KEEP_BYTES = 1 << 30  # most bytes that a tape without a budget keeps


class Keeper:
    """``memory``: most bytes to keep, None for `KEEP_BYTES`. ``followed``: by the id of the memory. ``open``: segments
    that steps go to, each in the one before; what is kept is then the first one's, and no step's."""

    trusted: tuple[type, ...] = ()  # kinds of foreign memory that need not be compared to know what was written
    memory: int | None

    def forget(self) -> None:
        self.followed: dict[int, Followed] = {}
        self.open: list[Segment] = []
        self.kept: dict[tuple[str, str, str], Kept] = {}
        self.used = self.most = 0  # bytes: now, and at most

    def report(self) -> list[Kept]:
        """What the tape had to keep, most bytes first."""
        return sorted(self.kept.values(), key=lambda k: -k.bytes)

    def _count_kept(self, step: Step, route: Route, kept: KeptBuffers) -> None:
        """Counts what the launch itself kept."""
        shapes = {slot: memory.operand.shape for slot, memory in kept.items()}
        assert route.reverse is not None
        for row in kept_rows(route.reverse.kernel, shapes):
            kernel = route.plan.kernel.name
            step.own += row.bytes
            step.cost += row.bytes
            if not self.open:
                self._count(Kept(row.name, kernel, kernel, None, row.span, row.elements, row.bytes))

    def _read(self, memory: Memory, name: str, plan: Plan, kind: type[N.Stmt] = N.Load) -> Followed:
        """Follows what launches of the plan read, first by a statement of the kind."""
        found = self.followed.get(id(memory))
        if found is None or not found.reader:
            found = self._follow(memory, name, plan.kernel.name, span_of(plan, name, kind))
        return found

    def up_to_date(self) -> None:
        """All that was written until now is known."""
        for followed in self.followed.values():
            followed.version = followed.memory.version

    def _follow_derivative(self, route: Route, name: str, place: Place, args: Sequence[Any]) -> None:
        """Follows what the launch read or wrote that has a gradient."""
        grad = route.plan.gradient_of(name, args)
        if grad is not None:
            followed = self._follow(memory_at(place, args), name)
            followed.grad = grad
            tangent = route.plan.gradient_of(name, args, "dual") if route.plan.owner.second else None
            followed.tangent = None if tangent is None else self._follow(tangent, f"{name}.tangent")

    def _follow(self, memory: Memory, name: str, reader: str = "", span: Span | None = None) -> Followed:
        found = self.followed.get(id(memory))
        if found is None:
            found = self.followed[id(memory)] = Followed(memory, name, memory.version)
            if memory.foreign and not isinstance(memory.foreign, self.trusted):
                self._use(memory.operand.nbytes, lambda: (f"{name}, which another library may write to", ()))
                found.shadow = memory.copy()
            memory.watchers = (*memory.watchers, found.watch)
        if reader and not found.reader:
            found.name, found.reader, found.span = name, reader, span
        return found

    def _overwrote(self, step: Step, before: Before, writer: str) -> None:
        """Notes what the launch overwrote that will be read again."""
        followed, part = before.followed, before.part
        followed.version = followed.memory.version
        if followed.shadow is not None:
            followed.shadow[...] = followed.memory.values()
        step.cost += before.bytes
        if part is not None:  # of a scattered one mostly a few elements changed
            self.keep(step, followed, part.changed() if before.scattered else part, writer, before.span)

    def keep(self, step: Step, followed: Followed, part: Part, writer: str, written: Span | None) -> None:
        if part.size:
            self._count_part(followed, part, writer, written)
            if self.open:
                self.open[0].keep(part)
            else:
                step.changes.append(part)

    def _count_part(self, followed: Followed, part: Part, writer: str, written: Span | None) -> None:
        """Counts what the tape keeps of followed memory."""
        size = part.size, part.nbytes
        self._count(Kept(followed.name, followed.reader, writer, followed.span, written, *size))

    def _count(self, kept: Kept) -> None:
        """Adds to the report what was kept."""
        self._use(kept.bytes, kept.what)
        known = self.kept.setdefault((kept.name, kept.reader, kept.writer), kept)
        if known is not kept:
            known.elements += kept.elements
            known.bytes += kept.bytes

    def _use(self, nbytes: int, last: Callable[[], tuple[str, tuple[Label, ...]]]) -> None:
        """An error where the Tape would take too much memory. ``last``: says for what."""
        self.used += nbytes
        self.most = max(self.most, self.used)
        if self.memory is None and self.used > KEEP_BYTES:
            what, labels = last()
            raise QuadrantsRuntimeError(
                f"the Tape would have to keep more than {KEEP_BYTES >> 20} MB of overwritten values; the last ones are "
                f"of {what}",
                code="QL2093",
                labels=labels,
                help="write each step to elements of its own, u[t + 1, i] from u[t, i]; or give the Tape a budget, "
                "qd.ad.Tape(loss, memory=2**30), within which it launches again what it does not keep",
            )
