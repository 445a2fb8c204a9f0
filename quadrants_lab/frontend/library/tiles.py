"""Implements operations on tiles, squares of numbers of which each thread of a subgroup holds a row. The argument
``tile`` is shared memory: its row t belongs to thread t, is row t % 32 of the tile of the thread's subgroup, and is
accessed by this thread only. Nobody reads the results of threads beyond the last row of a tile.

A row that other threads need is copied to another piece of shared memory first, so a device can keep the tile's own
rows in registers.
"""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library import helper, ops, static

# simt.shared: shared memory with the value of each thread; simt.first: the first thread of the subgroup
_sync, _thread, _first, _shared = ops("block.sync block.thread_idx simt.first simt.shared")
_sqrt, _min, _max, _int = ops("sqrt min max int")

_columns = helper(lambda tile: static(tile.shape[1]))


@helper
def zeros(tile: Any) -> Any:
    for c in range(_columns(tile)):
        tile[_thread(), c] = 0


@helper
def eye(tile: Any) -> Any:
    for c in range(_columns(tile)):
        tile[_thread(), c] = _int(c == _thread() % 32)


@helper
def load(tile: Any, arr: Any, at: Any, row0: Any, row1: Any, col0: Any, col1: Any) -> Any:
    """Loads rows ``row0`` to ``row1`` and columns ``col0`` to ``col1`` of an array into the tile. Elements of the tile
    that lie outside these rows and columns, or outside the array, keep their values."""
    t = _thread()
    row = row0 + t % 32
    end = _min(col1, arr.shape[static(len(arr.shape) - 1)])
    if t % 32 < _columns(tile) and row < _min(row1, arr.shape[static(len(arr.shape) - 2)]):
        for c in range(_columns(tile)):
            if col0 + c < end:
                tile[t, c] = arr[at, row, col0 + c]


@helper
def store(tile: Any, arr: Any, at: Any, row0: Any, row1: Any, col0: Any, col1: Any) -> Any:
    t = _thread()
    row = row0 + t % 32
    end = _min(col1, arr.shape[static(len(arr.shape) - 1)])
    if t % 32 < _columns(tile) and row < _min(row1, arr.shape[static(len(arr.shape) - 2)]):
        for c in range(_columns(tile)):
            if col0 + c < end:
                arr[at, row, col0 + c] = tile[t, c]


@helper
def add_outer(tile: Any, a: Any, row: Any) -> Any:
    """Adds the outer product of a column and a row to the tile. ``a`` is this thread's element of the column; ``row``
    is shared memory with one element for each thread, of which the row consists."""
    t = _thread()
    for c in range(_columns(tile)):
        tile[t, c] = tile[t, c] + a * row[_first() + c]


@helper
def add_outer_of_row(tile: Any, a: Any, arr: Any, at: Any, row: Any, col0: Any, col1: Any) -> Any:
    """Adds the outer product of the column ``a`` (this thread's element) and of the elements ``col0`` to ``col1`` of a
    row of an array to the tile; columns beyond the end of the array are skipped."""
    t = _thread()
    end = _min(col1, arr.shape[static(len(arr.shape) - 1)])
    for c in range(_columns(tile)):
        if col0 + c < end:
            tile[t, c] = tile[t, c] + a * arr[at, row, col0 + c]


@helper
def cholesky(tile: Any, eps: Any) -> Any:
    """Replaces the lower triangle of the tile by that of its Cholesky factor. If the square of a diagonal element of
    the factor would be below ``eps``, the element becomes the square root of ``eps``. Above the diagonal the tile then
    holds no meaningful numbers. The right-looking algorithm, see Golub and Van Loan, "Matrix Computations", 4.2."""
    t = _thread()
    r = t % 32
    for k in range(_columns(tile)):
        column = _shared(tile[t, k])
        root = _sqrt(_max(column[_first() + k], eps))
        if r == k:
            tile[t, k] = root
        if r > k:
            x = tile[t, k] / root
            tile[t, k] = x
            for c in range(k + 1, _columns(tile)):
                tile[t, c] = tile[t, c] - x * (column[_first() + c] / root)
        _sync()


@helper
def solve_triangular(lower: Any, b: Any) -> Any:
    """Replaces ``b`` by the solution x of x @ L.T = b, where L is the lower triangle of ``lower``; each thread computes
    a row of x."""
    t = _thread()
    for k in range(_columns(lower)):
        column = _shared(lower[t, k])
        x = b[t, k] / column[_first() + k]
        b[t, k] = x
        for c in range(k + 1, _columns(lower)):
            b[t, c] = b[t, c] - x * column[_first() + c]
        _sync()
