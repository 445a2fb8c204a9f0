"""Names that Quadrants has and quadrants_lab lacks, and the error that says so when one is used."""

import sys
from collections.abc import Iterable
from typing import Any

OUTSIDE: dict[str, tuple[str, ...]] = {
    "kernels as plain Python": ("python",),
    "meshes": ("Mesh", "MeshInstance", "mesh_local", "mesh_patch_idx"),
}

_WHY = {name: f"is not supported: {what} are outside of quadrants_lab" for what in OUTSIDE for name in OUTSIDE[what]}


class NotSupportedYet(AttributeError, NotImplementedError):
    """A public name of Quadrants that quadrants_lab lacks."""


def missing_attribute(module: str, name: str, have: Iterable[str]) -> Any:
    """For a module's ``__getattr__``: the inner module of that name (`elsewhere`). Raises the error for any other name;
    ``have``: those that the module has."""
    if (inner := sys.modules.get(f"quadrants_lab{module[2:]}.{name}")) is not None:
        return inner
    if name in _WHY:
        raise NotSupportedYet(f"{module}.{name} {_WHY[name]}")
    # inspect, copy and IPython probe for many names with an underscore, and need no advice
    close = "" if name.startswith("_") else closest(name, (n for n in have if not n.startswith("_")))
    hint = f"; did you mean {module}.{close}?" if close else ""
    # without an object Python adds a guess of its own to ours
    raise AttributeError(f"{module} has no attribute {name!r}{hint}", name=name, obj=None)


def closest(name: str, names: Iterable[str]) -> str:
    """The one of the names that is spelled most like ``name``; "" if none is similar."""
    from difflib import get_close_matches  # imported here, because it is slow to import and rarely needed

    return next(iter(get_close_matches(name, list(names), 1)), "")
