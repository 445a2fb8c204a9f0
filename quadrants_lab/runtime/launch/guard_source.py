"""What a launch's adstack depths were settled for, as a tuple that is compared before the next launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.memory.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

Stamp = Callable[..., tuple[Any, ...] | None]


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
