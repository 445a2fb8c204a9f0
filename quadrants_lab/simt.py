"""Collects `qd.simt`: blocks of threads in a parallel loop, and their subgroups."""

from types import SimpleNamespace
from typing import Any

from quadrants_lab.frontend.ops.tiles import SIZES
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.ops import simt_operations

__all__ = ["Tile16x16", "Tile32x32", "block", "grid", "subgroup", "warp"]

block, grid, subgroup, warp = (SimpleNamespace(**simt_operations(r)) for r in ("block", "grid", "subgroup", "warp"))


class Tiles(SimpleNamespace):
    """Squares of ``SIZE`` x ``SIZE`` numbers, of which each thread of a subgroup holds a row.

    In a parallel loop of a kernel, ``t = qd.simt.Tile16x16.zeros(dtype=qd.f32)`` or ``.eye(...)`` makes a tile of any
    dtype; without ``dtype`` it has default_fp. ``t[:] = a[i:j, k:l]`` loads rows and columns of a field or array, and
    ``a[i:j, k:l] = t`` stores them. ``t += qd.outer(v, w)``, ``t -= qd.outer(v, w)``, ``t.eye_()``,
    ``t.cholesky_(eps)`` and ``L.solve_triangular_(t)`` change t. Each subgroup of a block needs a thread for each row;
    QL1724 otherwise.
    """

    def __repr__(self) -> str:
        return f"<qd.simt.Tile{self.SIZE}x{self.SIZE}>"


Tile16x16, Tile32x32 = (Tiles(**simt_operations(name), SIZE=size) for name, size in SIZES.items())


def __getattr__(name: str) -> Any:
    return missing_attribute("qd.simt", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
