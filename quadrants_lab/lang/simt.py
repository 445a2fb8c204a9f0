"""`qd.simt`: blocks of threads in a parallel loop, and their subgroups."""

from types import SimpleNamespace

from quadrants_lab.lang.ops import simt_operations

block, grid, subgroup, warp = (SimpleNamespace(**simt_operations(r)) for r in ("block", "grid", "subgroup", "warp"))
