"""An array as a picture with a cell per element or block of elements: blue below zero, red above, grey if not finite.
It is a PNG in a data URI, for pages that strip scripts and inline SVG."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """An 8 bit image with a palette (PNG, ISO 15948)."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = index.shape
    rows = b"".join(b"\0" + row.tobytes() for row in index)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", head), (b"PLTE", _palette()), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, body) for kind, body in parts)
