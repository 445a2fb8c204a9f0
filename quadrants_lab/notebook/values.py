"""Data in the form that the panes show: arrays as text and as pictures, numbers, and the results of a launch.

A picture has a cell for each element or block of elements: blue below zero, red above, grey if not finite. It is a PNG
in a data URI, for pages that strip scripts and inline SVG.
"""

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.record.records import Arrays, LaunchRecord
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


MOST_COLUMNS, MOST_ROWS = 128, 64
_NOT_FINITE = 255  # the last colour of the palette; colour 0 is -1, 127 is 0, 254 is 1


def heatmap(array: npt.NDArray[Any]) -> str:
    """The data URI; "" for fewer than three elements. A one-dimensional array is a row; all axes but the last together
    are the rows. Blocks show their mean."""
    if array.size < 3:
        return ""
    rows = array.reshape(1, -1) if array.ndim == 1 else array.reshape(-1, array.shape[-1])
    small = _blocks(_blocks(rows.astype(np.float64), MOST_ROWS).T, MOST_COLUMNS).T
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(small)
        top = np.abs(small[finite]).max(initial=0.0) or 1.0
        index = np.where(finite, np.rint(127 + 127 * small / top), _NOT_FINITE)
    return "data:image/png;base64," + base64.b64encode(_png(index.astype(np.uint8))).decode()


def _blocks(array: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.float64]:
    """At most ``most`` rows, each the mean of a block of rows."""
    together = -(-len(array) // most)
    if together == 1:
        return array
    starts = np.arange(0, len(array), together)
    sums: npt.NDArray[np.float64] = np.add.reduceat(array, starts, axis=0)
    return sums / np.diff([*starts, len(array)])[:, None]


def _palette() -> bytes:
    t = np.linspace(-1, 1, 255)[:, None]
    white, blue, red = np.array([247.0, 247, 247]), np.array([33.0, 102, 172]), np.array([178.0, 24, 43])
    colours = np.where(t < 0, white + (white - blue) * t, white + (red - white) * t)
    return bytes(np.rint(colours).astype(np.uint8).tobytes()) + bytes((110, 110, 110))


def _png(index: npt.NDArray[np.uint8]) -> bytes:
    """An 8 bit image (PNG, ISO 15948). Its palette has the colours that occur: all 256 would take 1 KB."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = index.shape
    used, short = np.unique(index, return_inverse=True)
    palette = np.frombuffer(_palette(), np.uint8).reshape(-1, 3)[used].tobytes()
    rows = b"".join(b"\0" + row.tobytes() for row in short.reshape(index.shape).astype(np.uint8))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, body) for kind, body in parts)
