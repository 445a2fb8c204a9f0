"""Names that Quadrants has and quadrants_lab does not have: using one says so in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

NOT_YET: dict[str, tuple[str, ...]] = {
    "hardware counters, and times of the compiler's parts": (
        "CuptiMetric", "clear_scoped_profiler_info", "print_scoped_profiler_info",
    ),
    "running kernels as plain Python": ("python",),
    "extensions and tools": (
        "interop", "sparse",
    ),
    "internals of Quadrants": ("compound_types", "enums", "ndarray_type", "utils"),
}  # fmt: skip

OUTSIDE: dict[str, tuple[str, ...]] = {
    "quantised layouts": ("BitpackedFields", "quant"),
    "addresses of elements": ("get_addr",),
    "meshes": ("Mesh", "MeshInstance", "mesh_local", "mesh_patch_idx"),
    "GPU intrinsics": ("global_thread_idx", "clock_counter", "clock_freq_hz", "volatile_load"),
}  # fmt: skip

_BEYOND = {name: part for part, names in OUTSIDE.items() for name in names}
_REASON = {name: part for part, names in NOT_YET.items() for name in names}


class NotSupportedYet(AttributeError, NotImplementedError):
    """A public name of Quadrants that quadrants_lab does not have: not yet, or because it is outside of it."""


def missing_attribute(module: str, name: str, have: Mapping[str, Any]) -> NoReturn:
    """Raises what a module's ``__getattr__`` owes for a name that it does not have."""
    if name in _BEYOND:
        raise NotSupportedYet(f"{module}.{name} is not supported: {_BEYOND[name]} are outside of quadrants_lab")
    if name in _REASON:
        raise NotSupportedYet(f"{module}.{name} is not supported yet by quadrants_lab ({_REASON[name]})")
    if name.startswith("_"):  # a probe of inspect, copy or IPython, which asks many and wants no advice
        raise AttributeError(f"{module} has no attribute {name!r}")
    from difflib import get_close_matches

    close = get_close_matches(name, [n for n in have if not n.startswith("_")], 1)
    hint = f"; did you mean {module}.{close[0]}?" if close else ""
    raise AttributeError(f"{module} has no attribute {name!r}{hint}")
