"""What a sparse layout holds, as a set of active cells and a dictionary of values: the oracle of tests of layouts."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

Index = tuple[int, ...]


class Layout:
    """``levels``: (kind, axes, extent along each) from the root down, for example ("pointer", "ij", (4, 4))."""

    def __init__(self, *levels: tuple[str, str, Any]) -> None:
        self.levels = [(kind, axes, n if isinstance(n, tuple) else (n,) * len(axes)) for kind, axes, n in levels]
        self.axes = "".join(sorted({a for _, axes, _ in self.levels for a in axes}))
        self.shape = self.extents(len(self.levels))

    def extents(self, depth: int) -> Index:
        """The extents of the first ``depth`` levels."""
        sizes = [dict(zip(axes, n, strict=True)) for _, axes, n in self.levels[:depth]]
        return tuple(prod(size.get(a, 1) for size in sizes) for a in self.axes)

    def place(self, qd: Any, *fields: Any) -> list[Any]:
        """Places the fields; the nodes from the root down."""
        nodes = [qd.root]
        for kind, axes, n in self.levels:
            nodes.append(getattr(nodes[-1], kind)(getattr(qd, axes), n))
        nodes[-1].place(*fields)
        return nodes[1:]

    def sparse(self) -> list[int]:
        """The depths whose cells can be inactive."""
        return [depth for depth, (kind, _, _) in enumerate(self.levels, 1) if kind != "dense"]

    def cell(self, index: Index, depth: int) -> Index:
        """The cell of a depth that an element lies in, with all axes of the layout."""
        return tuple(i * m // n for i, m, n in zip(index, self.extents(depth), self.shape, strict=True))


class Held:
    """The contents of a field in the layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.active: dict[int, set[Index]] = {depth: set() for depth in layout.sparse()}
        self.values: dict[Index, Any] = {}

    def write(self, index: Index, value: Any) -> None:
        for depth in self.active:
            self.active[depth].add(self.layout.cell(index, depth))
        self.values[index] = value

    def deactivate(self, depth: int, cell: Index) -> None:
        """Drops a cell, and all in it."""
        for below in self.active:
            if below >= depth:
                part = self.layout.extents(below)
                inside = lambda c, part=part: tuple(
                    i * m // n for i, m, n in zip(c, self.layout.extents(depth), part, strict=True)
                )  # fmt: skip
                self.active[below] = {c for c in self.active[below] if inside(c) != cell}
        self.values = {i: v for i, v in self.values.items() if self.layout.cell(i, depth) != cell}

    def elements(self) -> set[Index]:
        """The active elements."""
        deepest = max(self.active)
        sizes = [n // m for n, m in zip(self.layout.shape, self.layout.extents(deepest), strict=True)]
        return {
            tuple(c * size + k for c, size, k in zip(cell, sizes, inside, strict=True))
            for cell in self.active[deepest] for inside in product(*map(range, sizes))
        }  # fmt: skip

    def array(self, dtype: Any) -> np.ndarray:
        out = np.zeros(self.layout.shape, dtype)
        for index, value in self.values.items():
            out[index] = value
        return out

    def mask(self, depth: int = 0) -> np.ndarray:
        """An array that says which elements are active, or which cells of a depth."""
        out = np.zeros(self.layout.extents(depth) if depth else self.layout.shape, bool)
        for index in self.active[depth] if depth else self.elements():
            out[index] = True
        return out


LAYOUTS = {
    "pointer": Layout(("pointer", "ij", (12, 10))),
    "pointer, dense": Layout(("pointer", "ij", 6), ("dense", "ij", (4, 2))),
    "dense, bitmasked": Layout(("dense", "ij", (3, 5)), ("bitmasked", "ij", (4, 2))),
    "pointer, pointer, dense": Layout(("pointer", "ij", 4), ("pointer", "ij", 4), ("dense", "ij", 2)),
    "pointer, dense, bitmasked, dense": Layout(
        ("pointer", "ij", (3, 2)), ("dense", "j", 2), ("bitmasked", "ij", (2, 3)), ("dense", "i", 2)
    ),
    "cells with slots": Layout(("pointer", "ij", (3, 2)), ("dense", "ij", (16, 8))),
    "groups": Layout(("bitmasked", "ij", (80, 66))),
    "groups of pointers": Layout(("pointer", "i", 4), ("pointer", "ij", (31, 160)), ("dense", "j", 2)),
    "one axis": Layout(("pointer", "i", 5000), ("dense", "i", 3)),
    "three axes": Layout(("pointer", "ijk", (4, 3, 2)), ("bitmasked", "ik", 3), ("dense", "jk", 2)),
}
