"""Finds names of Quadrants that have another place in this package, and says which names this package lacks.

The larger modules of `qd`, such as `quadrants_lab.math`, are files, so that editors and type checkers know them. A row
of `ELSEWHERE` is a module without a file, whose names are looked up when a program asks for them.
"""

import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any

# module that programs import -> the object of this package that has its names; names that this object lacks are looked
# up in `qd`
ELSEWHERE = {
    "experimental": "lang.kernel",
    "interop": "lang.impl",
    "lang._fast_caching": "lang.kernel",
    "lang.exception": "errors",
    "lang.field": "lang.dense",
    "lang.intrinsics": "lang.impl",
    "lang.kernel_impl": "lang.kernel",
    "lang.misc": "lang.impl",
    "lang.runtime_ops": "lang.config",
    "lang.simt": "simt",
    **{f"lang.simt.{scope}": f"simt.{scope}" for scope in ("block", "grid", "subgroup", "warp")},
    "lang.simt.reductions": "simt.subgroup",
    "lang.simt.sorting": "simt.subgroup",
    "lang.stream": "lang.streams",
    **{f"linalg.{name}": "linalg" for name in ("matrixfree_cg", "sparse_cg", "sparse_matrix", "sparse_solver")},
    "math.mathimpl": "math",
    **{f"profiler.{name}_profiler": "profiler" for name in ("kernel", "memory", "scoped")},
    "profiler.kernel_metrics": "profiler",
    "tools.np2ply": "tools",
    "tools.vtk": "tools",
    **{f"types.{name}": "types" for name in ("annotations", "buffer_view_type", "compound_types")},
    **{f"types.{name}": "types" for name in ("enums", "ndarray_type", "primitive_types", "utils")},
    "types.quant": "lang.quantised.quant",
}  # fmt: skip

# names that the package lacks, by their purpose
OUTSIDE: dict[str, tuple[str, ...]] = {
    "kernels as plain Python": ("python",),
    "meshes": ("Mesh", "MeshInstance", "mesh_local", "mesh_patch_idx"),
}

_WHY = {name: f"is not supported: {what} are outside of quadrants_lab" for what in OUTSIDE for name in OUTSIDE[what]}


class Elsewhere(ModuleType):
    """A module with the names of another object of the package."""

    def __init__(self, name: str, home: str) -> None:
        super().__init__(f"quadrants_lab.{name}", f"`qd.{name}`: names of `qd.{home}`.")
        self.__spec__ = ModuleSpec(self.__name__, None)
        self.__qd_home__ = attrgetter(home)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # `inspect` asks every module for its ``__file__``
            raise AttributeError(f"{self.__name__} has no {name!r}")
        home = self.__qd_home__(sys.modules["quadrants_lab"])
        if name == "__all__":
            return [n for n in getattr(home, "__all__", vars(home)) if not n.startswith("_")]
        found = getattr(home, name, None)  # the lookup may make the object
        return name_of_qd(name) if found is None else found

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)


def name_of_qd(name: str) -> Any:
    """For a module's `__getattr__`: a name that this module has in Quadrants, but that is found directly in `qd`
    here."""
    qd: Any = sys.modules["quadrants_lab"]
    for home in () if name.startswith("_") else (qd, qd.types):
        found = getattr(home, name, None)
        if found is not None:
            return found
    raise AttributeError(f"quadrants_lab has no {name!r}")


def register() -> None:
    """Makes the modules of `ELSEWHERE` importable. No module is imported for that."""
    for name, home in ELSEWHERE.items():
        module = Elsewhere(name, home)
        sys.modules[module.__name__] = module
        parent, _, last = module.__name__.rpartition(".")
        if parent in sys.modules:  # attributes of other parents are found by `__getattr__`
            setattr(sys.modules[parent], last, module)


class NotSupportedYet(AttributeError, NotImplementedError):
    """A public name of Quadrants that quadrants_lab lacks."""


def missing_attribute(module: str, name: str, have: Iterable[str]) -> Any:
    """For a module's ``__getattr__``: the inner module ``name`` (`elsewhere`), if there is one. Otherwise raises the
    error about an unknown name; ``have`` are the names of the module, for suggestions."""
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
    """The name among ``names`` that is most similar to ``name``; "" if none is similar."""
    from difflib import get_close_matches  # imported here, because it is slow to import and rarely needed

    return next(iter(get_close_matches(name, list(names), 1)), "")
