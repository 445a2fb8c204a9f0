"""`qd.simt`: blocks of threads in a parallel loop, and their subgroups."""

from types import SimpleNamespace
from typing import Any

from quadrants_lab.frontend.ops.tiles import SIZES
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.ops import simt_operations

__all__ = ["Tile16x16", "Tile32x32", "block", "grid", "subgroup", "warp"]

block, grid, subgroup, warp = (SimpleNamespace(**simt_operations(r)) for r in ("block", "grid", "subgroup", "warp"))
Tile16x16, Tile32x32 = (SimpleNamespace(**simt_operations(name), SIZE=size) for name, size in SIZES.items())


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.simt", name, globals())
