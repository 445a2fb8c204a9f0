"""The short way of a gradient launch: one comparison tells that nothing changed of all that the last one looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.launch.guard_source import Stamp, dependencies_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.gradient.plan import GradientPlan
    from quadrants_lab.runtime.memory.memory import Memory


class LaunchGuard:
    """``then``: what ``of`` gave when a launch was settled, None where versions do not tell all that it looked at.
    ``possible``: whether they may, for these arguments: no array comes with memory that the launch has to be told of,
    and no draws are repeated."""

    def __init__(self, plan: GradientPlan) -> None:
        self.plan = plan
        self.possible = not (plan.gradient_args or plan.without_gradient or plan.must_differ or plan.draws_of)
        self.of: Stamp = nothing
        self.then: tuple[Any, ...] | None = None
        self._made_for: tuple[Memory | None, Stamp] | None = None

    def keep(self, args: Sequence[Any]) -> None:
        """To be called when a launch was settled."""
        plan = self.plan
        forward, seed = plan.forward, plan.seeds.seed
        if forward is None or forward.trips.args or forward.trips.others or (seed is None and plan.seeds.looks):
            self.then = None
            return
        if self._made_for != (seed, plan.dependencies_of):
            self._made_for = seed, plan.dependencies_of
            fields = [*plan.follows_fields, *forward.trips.fields.values(), *([] if seed is None else [seed])]
            self.of = dependencies_of(len(plan.slots), fields, plan.follows_args, forward)
        self.then = self.of(*args)


def nothing(*args: Any) -> None:
    """The stamp before there is one."""
