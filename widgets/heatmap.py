"""Draws arrays as pictures: a square for each element, or for each block of elements, and a bar of colours with its
numbers.

The squares are a PNG in a data URI, for pages that strip scripts and inline SVG.
"""

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quadrants_lab.widgets.model import ArrayView, Pictured
from quadrants_lab.widgets.tree import Block, Control, Picture, Slot, Tree, Word, empty

WIDE, HIGH, LARGEST = 320, 192, 16  # of a picture, and of a square, in pixels
CHOOSE = "a click or the arrow keys show a value"
SHARP, BAR = "max-width:none;image-rendering:pixelated", "width:120px;height:10px;vertical-align:middle"
MOST_TOLD = 256  # squares whose values the browser has; those of others are asked for
_NOT_FINITE = 255  # the last colour of a palette; colours 0 to 254 are the scale
SIGNED = ((33, 102, 172), (247, 247, 247), (178, 24, 43))  # blue below zero, red above
PLAIN = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))  # dark is low, yellow high


def shown(view: ArrayView, request: str, slot: str) -> Tree:
    """The picture of an array, with a slider for its slices. ``request``: the prefix of the requests for slices."""
    if view.picture is None:
        return ()
    at = view.picture.first
    slider: Tree = ()
    if len(view.picture.slices) > 1:
        most = str(len(view.picture.slices) - 1)
        about = {"type": "range", "min": "0", "max": most, "value": str(at), "aria-label": f"slice of {view.name}"}
        slider = Control("input", about | {"data-ask": f"{request}/", "data-into": slot})
    return [slider, Slot(slot, one(view, request, at))]


def asked(view: ArrayView | None, request: str, place: Sequence[str]) -> Tree:
    """The answer to a request for the slice ``place``, or for the value of its square (slice, row, column)."""
    if view is None or view.picture is None:
        return empty("there is no such picture")
    if len(place) not in (1, 3) or not all(map(str.isdecimal, place)):
        return empty(f"{'/'.join(place)!r} is no place in {view.name}")
    at, *square = map(int, place)
    if any(n >= most for n, most in zip((at, *square), view.picture.values.shape, strict=False)):
        return empty("there is no such slice" if at >= len(view.picture.slices) else "there is no such square")
    return element(view, at, *square) if square else one(view, request, at)


def one(view: ArrayView, request: str, at: int) -> Tree:
    """The picture of one slice. Arrow keys and clicks choose a square, whose value is shown."""
    p = view.picture
    assert p is not None
    rows, cols = p.values.shape[1:]
    told = [element(view, at, r, c) for r in range(rows) for c in range(cols)] if rows * cols <= MOST_TOLD else None
    about = {"rows": rows, "cols": cols, "size": _square(rows, cols), "ask": f"{request}/{at}", "told": told}
    label = f"values of {view.name}: the arrow keys choose a square"
    cells = {"class": "cells", "tabindex": "0", "role": "group", "aria-label": label, "data-cells": json.dumps(about)}
    return Control("div", cells, [picture(view, at), Control("p", {"class": "now muted", "role": "status"}, CHOOSE)])


def element(view: ArrayView, at: int, row: int, column: int) -> str:
    """The value of a square, in words."""
    p = view.picture
    assert p is not None
    ends = zip((row, column), p.block, (*([1] if len(p.shape) == 1 else []), *p.shape)[-2:], strict=True)
    place = [f"{k * n}" if n == 1 else f"{k * n}:{min((k + 1) * n, most)}" for k, n, most in ends]
    name = f"{view.name}[{', '.join([*map(str, _leading(p, at)), *place[len(p.shape) == 1 :]])}]"
    mean = "mean of " if p.block != (1, 1) else ""
    return f"{mean}{name} = {p.values[at, row, column]:.6g}"


def _leading(p: Pictured, at: int) -> Sequence[int]:
    """The indices of a slice on all axes but the last two."""
    return [int(k) for k in np.unravel_index(p.slices[at], p.shape[:-2])] if len(p.shape) > 2 else []


def scale(values: npt.NDArray[np.float32], signed: bool) -> tuple[float, float]:
    """The ends of the scale of a picture: its least and greatest value, or as far below zero as above it if the array
    is ``signed``. Each slice has its own scale, because on a common one a slice with small values is one colour."""
    finite = values[np.isfinite(values)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return (-max(-low, high), max(-low, high)) if signed else (low, high)


def picture(view: ArrayView, at: int = -1) -> Tree:
    """A slice, by default the first that is shown, and the bar with the ends of its scale; nothing if there is no
    picture."""
    p = view.picture
    if p is None:
        return ()
    at = p.first if at < 0 else at
    values, known = p.values[at], np.isfinite(p.values[at])
    rows, cols = values.shape
    (wide, tall), (low, high) = _square(rows, cols), scale(values, p.signed)
    name = f"{view.name}[{', '.join([*map(str, _leading(p, at)), *':' * min(len(p.shape), 2)])}]"
    what = "; each slice has its own scale" if len(p.slices) > 1 and low < high else ""
    what += "" if p.block == (1, 1) else f"; a square is the mean of {p.block[0]} × {p.block[1]} elements"
    colours = "blue below zero, red above" if p.signed else "the brighter the higher"
    alt = f"{name} from {low:.4g} to {high:.4g}: {colours}{what}" if known.any() else f"{name}: not finite"
    lost: Tree = "" if known.all() else [" ", Word("■", "lost"), " not finite"]
    bar = Picture(colours, uri=_png(np.arange(0, 255, 2, dtype=np.uint8)[None], _palette(p.signed)), style=BAR)
    same = f"= {low:.4g} everywhere" if known.any() else ""
    ends: Tree = [f"{low:.4g} ", bar, f" {high:.4g}"] if low < high else same
    place = f"display:block;width:{cols * wide}px;height:{rows * tall}px;{SHARP}"
    return [
        Picture(alt, uri=_uri(values, low, high, p.signed), style=place),
        Block([f"{name} ", ends, lost, what], "foot"),
    ]


def _square(rows: int, cols: int) -> tuple[int, int]:
    """The width and the height of a square. In a single row the pointer needs some height, so that a square is none."""
    side = max(1, min(LARGEST, WIDE // cols, HIGH // rows))
    return side, LARGEST if rows == 1 else side


def _uri(values: npt.NDArray[np.float32], low: float, high: float, signed: bool) -> str:
    with np.errstate(invalid="ignore"):
        place = (values.astype(np.float64) - low) / ((high - low) or 1.0)
        index = np.where(np.isfinite(values), np.rint(254 * np.clip(place, 0, 1)), _NOT_FINITE)
    return _png(index.astype(np.uint8), _palette(signed))


def _palette(signed: bool) -> npt.NDArray[np.uint8]:
    """256 colours, the last one for what is not finite."""
    anchors = np.array(SIGNED if signed else PLAIN, float)
    at = np.linspace(0, len(anchors) - 1, 255)
    scale = np.stack([np.interp(at, range(len(anchors)), anchors[:, k]) for k in range(3)], axis=1)
    return np.vstack([np.rint(scale), [[110, 110, 110]]]).astype(np.uint8)


def _png(index: npt.NDArray[np.uint8], colours: npt.NDArray[np.uint8]) -> str:
    """The data URI of an 8 bit image (PNG, ISO 15948). Its palette has the colours that occur: all 256 would take
    1 KB."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = index.shape
    used, short = np.unique(index, return_inverse=True)
    rows = b"".join(b"\0" + row.tobytes() for row in short.reshape(index.shape).astype(np.uint8))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = [(b"IHDR", head), (b"PLTE", colours[used].tobytes()), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    image = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, part) for kind, part in body)
    return "data:image/png;base64," + b64encode(image).decode()
