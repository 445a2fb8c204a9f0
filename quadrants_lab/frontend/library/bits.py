"""Set bits, found by their place."""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library.core import op, public
from quadrants_lab.ir.types import i32, u32

_clz: Any = op("clz")
_cast: Any = op("cast")


@public()
def ffs(x: Any) -> Any:
    """The place of the lowest set bit of the integer x, counted from 1; 0 where there is none."""
    lowest = x & -x
    return 0 if x == 0 else 32 - _clz(_cast(lowest, u32))


@public()
def fns(mask: Any, base: Any, offset: Any) -> Any:
    """The place (u32, from 0) of the n-th set bit of the 32-bit mask from place base on, base included: upwards for
    offset = n, downwards for offset = -n; for offset 0 base itself if it is set. 0xffffffff where there is none."""
    bits = _cast(mask, u32)
    found = u32(0xFFFFFFFF)
    step = 1 if offset >= 0 else -1
    left = offset * step
    if left == 0:
        left = 1
    at = _cast(base, i32)
    for _ in range(32):
        if left > 0 and at >= 0 and at < 32:
            if (bits >> _cast(at, u32)) & u32(1) == u32(1):
                left = left - 1
                if left == 0:
                    found = _cast(at, u32)
            at = at + step if offset != 0 else 32
    return found
