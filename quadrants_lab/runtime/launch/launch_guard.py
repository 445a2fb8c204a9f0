"""The guard of a gradient's launches: one comparison of tuples tells whether anything has changed since the last
one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.runtime.gradient.plan import GradientPlan
    from quadrants_lab.runtime.launch.dispatch import Launched
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

Dependencies = Callable[..., tuple[Any, ...] | None]


class LaunchGuard:
    """``then``: the result of ``now`` at the last launch; None where versions do not tell of everything that a launch
    depends on. ``possible``: whether they can for this kernel: no argument brings gradient memory that a launch has to
    set, and no random draws are repeated."""

    def __init__(self, plan: GradientPlan) -> None:
        self.plan = plan
        self.possible = not (plan.gradient_args or plan.must_differ or plan.replay_number)
        self.now: Dependencies = lambda *args: None
        self.then: tuple[Any, ...] | None = None
        self._made_for: tuple[Memory | None, Dependencies, Plan] | None = None

    def keep(self, args: Sequence[Any]) -> None:
        """To be called when a launch has been prepared."""
        plan = self.plan
        forward, seed = plan.forward.plan, plan.seeds.seed
        if forward is None or forward.read_versions.of_arguments or (seed is None and plan.seeds.looks):
            self.then = None
            return
        if self._made_for != (seed, plan.dependencies_of, forward):
            self._made_for = seed, plan.dependencies_of, forward
            fields = [*plan.depends_on_fields, *forward.read_versions.fields, *([] if seed is None else [seed])]
            self.now = dependencies_of(len(plan.slots), fields, plan.depends_on_args, plan.forward)
        self.then = self.now(*args)


def dependencies_of(
    arity: int, fields: Sequence[Memory], args: Sequence[tuple[int, bool, bool]], last: Launched | None = None
) -> Dependencies:
    """A generated function of the arguments, which returns what a launch depends on: versions of the fields, values of
    scalars, shapes of arrays or, where their data matters, serials and versions, and the ``launched`` versions of the
    ``last`` launch. It returns None where changes of the data cannot be noticed, or an argument has an unexpected type.
    ``args``: (position, whether it is a scalar, whether its data matters)."""
    names = [f"a{n}" for n in range(arity)]
    space: dict[str, Any] = {f"f{n}": memory for n, memory in enumerate(fields)}
    parts = [f"f{n}.version" for n in range(len(fields))]
    lines = [f"def dependencies({', '.join(names)}):"]
    if fields:  # their memory can become foreign at any time
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
    if last is not None:
        space["last"] = last
        parts.append("last.plan.launched")
    lines.append(f"    return ({', '.join(parts)},)" if parts else "    return ()")
    exec("\n".join(lines), space)
    made: Dependencies = space["dependencies"]
    return made
