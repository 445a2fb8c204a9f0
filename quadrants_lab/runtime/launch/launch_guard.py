"""Whether anything has changed since the last launch of a gradient: one comparison of tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.runtime.gradient.plan import GradientPlan
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

Stamp = Callable[..., tuple[Any, ...] | None]


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


def dependencies_of(
    arity: int, fields: Sequence[Memory], args: Sequence[tuple[int, bool, bool]], forward: Plan | None = None
) -> Stamp:
    """A function of the arguments, written out for them: versions of the fields, values of scalars, shapes of arrays,
    serial and version of those whose data matters, what ``forward`` was launched for. None where nothing tells whether
    data changed, or an argument is not what is expected. ``args``: (position, is a scalar, by its data)."""
    names = [f"a{n}" for n in range(arity)]
    space: dict[str, Any] = {f"f{n}": memory for n, memory in enumerate(fields)}
    parts = [f"f{n}.version" for n in range(len(fields))]
    lines = [f"def stamp({', '.join(names)}):"]
    if fields:  # others can get hold of their memory at any time
        lines.append(f"    if {' or '.join(f'f{n}.foreign' for n in range(len(fields)))}: return None")
    for n, is_scalar, by_data in args:
        if is_scalar:
            lines.append(f"    if a{n}.__class__ is not int and a{n}.__class__ is not float: return None")
            parts.append(f"a{n}")
            continue
        if by_data:
            lines += [f"    m{n} = getattr(a{n}, '_memory', None)", f"    if m{n} is None or m{n}.foreign: return None"]
            parts += [f"m{n}.serial", f"m{n}.version"]
        else:
            lines += [f"    s{n} = getattr(a{n}, 'shape', None)", f"    if s{n} is None: return None"]
            parts.append(f"s{n}")
    if forward is not None:
        space["forward"] = forward
        parts.append("forward.launched")
    lines.append(f"    return ({', '.join(parts)},)" if parts else "    return ()")
    exec("\n".join(lines), space)
    made: Stamp = space["stamp"]
    return made
