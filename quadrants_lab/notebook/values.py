"""Data in the form that the panes show: arrays, numbers, and the results of a launch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.record.records import Arrays, LaunchRecord
from quadrants_lab.widgets.heat import heatmap
from quadrants_lab.widgets.model import ArrayView


def results(
    record: LaunchRecord, outputs: Arrays | None = None, returned: Mapping[str, Any] | None = None
) -> list[ArrayView]:
    """What the launch wrote and returned. ``outputs`` and ``returned``: the results of another run, to show instead."""
    outputs = record.outputs if outputs is None else outputs
    returned = record.returned if returned is None else returned
    arrays = everything(outputs or {}, returned)
    buffers = record.plan.kernel.buffers
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
    return ArrayView(name, dtype.name, array.shape, preview(array), low, high, note, image=heatmap(array))


def preview(array: npt.NDArray[Any], most: int = 6) -> str:
    """The first elements in memory order."""
    flat = array.reshape(-1)
    text = "  ".join(number(v) for v in flat[:most])
    return text + (f"  … {flat.size - most} more" if flat.size > most else "")


def number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)
