"""Prepares data for the panes: arrays as text and as pictures, numbers, and the results of a launch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.record.records import Arrays
from quadrants_lab.widgets.model import ArrayView, Pictured


def results(buffers: Mapping[str, Buffer], outputs: Arrays | None, returned: Mapping[str, Any]) -> list[ArrayView]:
    """The results of a launch of a kernel with these buffers: the arrays that it wrote, and the numbers that it
    returned."""
    arrays = everything(outputs or {}, returned)
    return [array_view(_name(name, returned), buffers[name].dtype, array) for name, array in arrays.items()]


def everything(outputs: Arrays, returned: Mapping[str, Any]) -> Arrays:
    """Written arrays and returned values, by buffer name."""
    return {**outputs, **{name: np.asarray(value) for name, value in returned.items()}}


def _name(buffer: str, returned: Mapping[str, Any]) -> str:
    if buffer not in returned:
        return buffer
    return "returned" if len(returned) == 1 else f"returned {list(returned).index(buffer)}"


def array_view(name: str, dtype: DType, array: npt.NDArray[Any], note: str = "") -> ArrayView:
    low = high = ""
    if array.size > 1:
        finite = array[np.isfinite(array)] if dtype.is_float else array
        bad = array.size - finite.size
        if finite.size:
            low, high = number(finite.min()), number(finite.max())
        if bad:
            note = f"{note} {bad} of {array.size} not finite".strip()
    return ArrayView(name, dtype.name, array.shape, preview(array), low, high, note, picture=pictured(array))


def preview(array: npt.NDArray[Any], most: int = 6) -> str:
    """The first elements in memory order."""
    flat = array.reshape(-1)
    text = "  ".join(number(v) for v in flat[:most])
    return text + (f"  … {flat.size - most} more" if flat.size > most else "")


def number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


MOST_COLUMNS, MOST_ROWS = 128, 64
MOST_HELD = 1 << 19  # values of a picture's slices


def pictured(array: npt.NDArray[Any]) -> Pictured | None:
    """The data of a picture of the array; None for fewer than three elements. A one-dimensional array is a row, and
    the axes before the last two count its slices."""
    if array.size < 3:
        return None
    stack = array.reshape((1, 1, -1) if array.ndim == 1 else (-1, *array.shape[-2:]))
    block = _block(*stack.shape[1:])
    each = -(-stack.shape[1] // block[0]) * -(-stack.shape[2] // block[1])
    slices = sorted({int(n) for n in np.linspace(0, len(stack) - 1, min(len(stack), max(1, MOST_HELD // each)))})
    values = np.stack([_blocks(_blocks(stack[n].astype(np.float64), block[0]).T, block[1]).T for n in slices])
    finite = values[np.isfinite(values)]
    first = max((n for n in range(len(slices)) if values[n].any()), default=0)
    held = values.astype(np.float32) if np.abs(finite).max(initial=0) < 1e38 else values
    return Pictured(array.shape, slices, held, block, bool((finite < 0).any() and (finite > 0).any()), first)


def _block(rows: int, columns: int) -> tuple[int, int]:
    """The rows and columns of the blocks of elements whose means are shown: square blocks, unless too few blocks would
    be left."""
    high, wide = -(-rows // MOST_ROWS), -(-columns // MOST_COLUMNS)
    both = max(high, wide)
    return (both, both) if min(rows, columns) >= 4 * both else (high, wide)


def _blocks(array: npt.NDArray[np.float64], together: int) -> npt.NDArray[np.float64]:
    """The means of ``together`` rows each."""
    if together == 1:
        return array
    starts = np.arange(0, len(array), together)
    sums: npt.NDArray[np.float64] = np.add.reduceat(array, starts, axis=0)
    return sums / np.diff([*starts, len(array)])[:, None]
