"""Implements `qd.algorithms`: reduce, scan, select, reduce by key and sort, as funcs to call at the top level of a
kernel.

They are written in the kernel language and run on every backend. Each outermost loop is a task: tiles of 256 elements
run in parallel, each in order, then rows of 512 tiles, and a serial task combines one number from each row. The funcs
use the elements 0 to ``n - 1`` of ``arr``. They count indices from 0 in all their arguments, which can therefore not be
fields with an offset. ``scratch`` has at least as many slots as the function named ``..._scratch_slots`` returns, of
u32, or of u64 if the elements have 64 bits; these are never more than in Quadrants. ``log256_max_n`` is accepted and
has no effect.

Sorting is a radix sort from the least significant digit (Knuth, The Art of Computer Programming 3, 5.2.5). It is stable
for keys of equal bits. Reals have the total order of IEEE 754: -0 before 0, and NaN at the end that its sign says.
"""

from __future__ import annotations

from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.frontend.library import ops
from quadrants_lab.ir.types import f32, f64, i32, i64, u32, u64
from quadrants_lab.lang import block_algorithms as blocks
from quadrants_lab.lang.annotations import Template
from quadrants_lab.lang.block_algorithms import bit_cast, cast, loop_config, static
from quadrants_lab.lang.custom_gradients import has_derivative, no_derivative
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.fields import ndarray
from quadrants_lab.lang.kernel import func, kernel
from quadrants_lab.lang.ops import OPERATIONS
from quadrants_lab.lang.tensor import Tensor
from quadrants_lab.runtime.interop import by_cupy
from quadrants_lab.runtime.session import current

__all__ = [
    "PrefixSumExecutor", "exclusive_scan_add", "exclusive_scan_max", "exclusive_scan_min",
    "exclusive_scan_scratch_slots", "parallel_sort", "reduce_add", "reduce_by_key_add", "reduce_by_key_scratch_slots",
    "reduce_max", "reduce_min", "reduce_scratch_slots", "select", "select_scratch_slots", "sort", "sort_scratch_slots",
]  # fmt: skip

static_assert: Any = OPERATIONS["static_assert"]
atomic_min: Any = OPERATIONS["atomic_min"]
atomic_max: Any = OPERATIONS["atomic_max"]
(_only,) = ops("only")
__qd_asserts__ = True  # asserts of this module are checked in every session
TILE = 256
ROW = 512  # tiles
DIGITS = 256
_NAN = float("nan")  # the neutral element of min and max, which ignore it
_LEAST = {t: -float("inf") if t.is_float else t.limits[0] for t in (f32, f64, i32, i64, u32, u64)}
_GREATEST = {t: float("inf") if t.is_float else t.limits[1] for t in _LEAST}


def by_blocks() -> bool:
    """Whether the session's device runs the threads of a block at once, so that they can share the work of a tile."""
    return current().backend.CAPABILITIES.blocks


by_blocks.__qd_compile_time__ = True  # type: ignore[attr-defined]


def _tiles(n: int) -> int:
    return max(1, -(-n // TILE))


def reduce_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    return _tiles(n)


reduce_scratch_slots.__qd_compile_time__ = True  # type: ignore[attr-defined]  # kernels can call it with constants
exclusive_scan_scratch_slots = select_scratch_slots = reduce_by_key_scratch_slots = reduce_scratch_slots


def sort_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    """The slots of scratch memory that `sort` needs for n elements: one count for each digit and tile."""
    return _tiles(n) * DIGITS


sort_scratch_slots.__qd_compile_time__ = True  # type: ignore[attr-defined]


@func
def _require(scratch: Any, slots: Any, n: Any) -> None:
    """Raises an error in a launch that has less scratch memory than ``slots``: it would write outside of it."""
    assert scratch.shape[0] >= slots, (
        f"scratch has {scratch.shape[0]} slots, {slots} are needed for {n} elements: qd.algorithms.*_scratch_slots(n)"
    )


# --- reduce ---------------------------------------------------------------------------------------------------------


@func
def reduce_add(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any = 0) -> None:
    """``out[0] = sum(arr[:n])``. The order of summation is not serial, so the rounding of reals can differ."""
    s = cast(0, dtype)
    for i in range(n):
        s += arr[i]
    out[0] = s


@func
def _extreme(op: Any, empty: Template, arr: Any, out: Any, n: Any, dtype: Any) -> None:
    """Sets ``out[0]`` to the extreme of the first n elements; ``op`` is `atomic_min` or `atomic_max`. If n is 0, the
    result is ``empty``."""
    s = dtype(static(_NAN if dtype.is_float else empty))
    for i in range(n):
        op(s, arr[i])
    out[0] = s if n > 0 else dtype(empty)


@func
def reduce_min(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any = 0) -> None:
    """``out[0] = min(arr[:n])``; the greatest number of the dtype if n is 0."""
    static_assert(static(dtype in _LEAST), f"reduce_min takes numbers of 32 or 64 bits, not {dtype.name}")
    _extreme(atomic_min, static(_GREATEST[dtype]), arr, out, n, dtype)


@func
def reduce_max(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any = 0) -> None:
    """``out[0] = max(arr[:n])``; the least number of the dtype if n is 0."""
    static_assert(static(dtype in _LEAST), f"reduce_max takes numbers of 32 or 64 bits, not {dtype.name}")
    _extreme(atomic_max, static(_LEAST[dtype]), arr, out, n, dtype)


# --- scan -----------------------------------------------------------------------------------------------------------


@func
def _summed(op: Any, scratch: Any, tiles: Any, dtype: Any) -> None:
    """An inclusive scan in place: ``scratch[t] = op(scratch[0], ..., scratch[t])``. It scans each row, then the last
    elements of the rows, and combines these with the elements of the next row."""
    rows = (tiles + static(ROW - 1)) // ROW
    for r in range(rows):
        s = bit_cast(scratch[r * ROW], dtype)
        for t in range(r * ROW + 1, min(tiles, r * ROW + ROW)):
            s = op(s, bit_cast(scratch[t], dtype))
            scratch[t] = bit_cast(s, scratch.dtype)
    loop_config(serialize=True)
    for r in range(1, rows):
        last = min(tiles, r * ROW + ROW) - 1
        s = op(bit_cast(scratch[r * ROW - 1], dtype), bit_cast(scratch[last], dtype))
        scratch[last] = bit_cast(s, scratch.dtype)
    for t in range(ROW, tiles - 1):
        if t % ROW != static(ROW - 1):
            before = bit_cast(scratch[t // ROW * ROW - 1], dtype)
            scratch[t] = bit_cast(op(before, bit_cast(scratch[t], dtype)), scratch.dtype)


@func
def _scan(
    op: Any, identity: Template, arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, inclusive: Template = False
) -> None:
    """``out[i] = op(arr[0], ..., arr[i - 1])``; with ``inclusive``, arr[i] too. ``out`` can be ``arr``."""
    tiles = (n + static(TILE - 1)) // TILE
    _require(scratch, tiles, n)
    if static(by_blocks()):
        blocks.scan(op, identity, arr, out, scratch, 0, n, dtype, inclusive)
    else:
        for t in range(tiles):
            s = dtype(identity)
            for i in range(t * TILE, min(n, t * TILE + TILE)):
                s = op(s, arr[i])
            scratch[t] = bit_cast(s, scratch.dtype)
        _summed(op, scratch, tiles, dtype)
        for t in range(tiles):
            s = dtype(identity)
            if t > 0:
                s = bit_cast(scratch[t - 1], dtype)
            for i in range(t * TILE, min(n, t * TILE + TILE)):
                here = arr[i]
                if static(inclusive):
                    s = op(s, here)
                    out[i] = s
                else:
                    out[i] = s
                    s = op(s, here)


@func
def exclusive_scan_add(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any = 0) -> None:
    """``out[i] = sum(arr[:i])``"""
    static_assert(static(dtype in _LEAST), f"exclusive_scan_add takes numbers of 32 or 64 bits, not {dtype.name}")
    _scan(blocks.add, 0, arr, out, scratch, n, dtype)


@func
def exclusive_scan_min(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any = 0) -> None:
    """``out[i] = min(arr[:i])``; ``out[0]`` is the greatest number of the dtype."""
    static_assert(static(dtype in _LEAST), f"exclusive_scan_min takes numbers of 32 or 64 bits, not {dtype.name}")
    _scan(min, static(_GREATEST[dtype]), arr, out, scratch, n, dtype)


@func
def exclusive_scan_max(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any = 0) -> None:
    """``out[i] = max(arr[:i])``; ``out[0]`` is the least number of the dtype."""
    static_assert(static(dtype in _LEAST), f"exclusive_scan_max takes numbers of 32 or 64 bits, not {dtype.name}")
    _scan(max, static(_LEAST[dtype]), arr, out, scratch, n, dtype)


# --- select and reduce by key ---------------------------------------------------------------------------------------


@func
def _count(counts: Any, arr: Any, scratch: Any, n: Any, total: Any) -> None:
    """Counts the indices i for which ``counts(arr, i)`` is true. ``scratch[t]`` gets their number from 0 to the end of
    tile t, and ``total[0]`` the number of all."""
    tiles = (n + static(TILE - 1)) // TILE
    _require(scratch, tiles, n)
    if static(by_blocks()):
        blocks.count(counts, arr, scratch, n, total)
    else:
        for t in range(tiles):
            found = cast(0, u32)
            for i in range(t * TILE, min(n, t * TILE + TILE)):
                if counts(arr, i):
                    found += 1
            scratch[t] = found
        _summed(blocks.add, scratch, tiles, scratch.dtype)
        total[0] = cast(scratch[tiles - 1], total.dtype) if tiles > 0 else cast(0, total.dtype)


@func
def _count_before(scratch: Any, t: Any):
    """The number of counted indices before tile t, read from the result of `_count`."""
    found = 0
    if t > 0:
        found = cast(scratch[t - 1], i32)
    return found


@func
def _is_set(flags: Any, i: Any):
    return flags[i] != 0


@func
def select(arr: Any, flags: Any, out: Any, num_out: Any, scratch: Any, n: Any, log256_max_n: Any = 0) -> None:
    """Copies the ``arr[i]`` whose ``flags[i]`` is not 0 to the front of ``out``, in order; ``num_out[0]``: their
    number."""
    _count(_is_set, flags, scratch, n, num_out)
    if static(by_blocks()):
        blocks.select(_is_set, flags, arr, out, scratch, n)
    else:
        for t in range((n + static(TILE - 1)) // TILE):
            at = _count_before(scratch, t)
            for i in range(t * TILE, min(n, t * TILE + TILE)):
                if flags[i] != 0:
                    out[at] = arr[i]
                    at += 1


@func
def _begins(keys: Any, i: Any):
    """Whether a run of equal keys begins at i."""
    new = True
    if i > 0:
        new = keys[i] != keys[i - 1]
    return new


@func
def reduce_by_key_add(
    keys_in: Any, values_in: Any, keys_out: Any, values_out: Any, num_runs: Any, scratch: Any, n: Any, value_dtype: Any,
    log256_max_n: Any = 0,
) -> None:  # fmt: skip
    """The key of each run of equal keys and the sum of its values; ``num_runs[0]``: the number of runs."""
    _count(_begins, keys_in, scratch, n, num_runs)
    for i in range(num_runs[0]):
        values_out[i] = cast(0, value_dtype)
    if static(by_blocks()):
        blocks.add_runs(_begins, keys_in, values_in, keys_out, values_out, scratch, n, value_dtype)
    else:
        for t in range((n + static(TILE - 1)) // TILE):
            at = _count_before(scratch, t) - 1
            for i in range(t * TILE, min(n, t * TILE + TILE)):
                if _begins(keys_in, i):
                    at += 1
                    keys_out[at] = keys_in[i]
                values_out[at] += values_in[i]


# --- sort -----------------------------------------------------------------------------------------------------------


@func
def _digit(key: Any, dtype: Any, shift: Any):
    """Eight bits of the key from bit ``shift`` on, after the key was mapped to an unsigned integer so that the order of
    keys is kept."""
    unsigned = static(u64 if dtype.bits == 64 else u32)
    bits = bit_cast(key, unsigned)
    top = unsigned(static(1 << (dtype.bits - 1)))
    if static(dtype.kind == "i"):
        bits = bits ^ top
    elif static(dtype.kind == "f"):
        bits = ~bits if bits & top else bits | top
    return cast((bits >> cast(shift, unsigned)) & 255, i32)


@func
def _pass(
    keys: Any, to_keys: Any, values: Any, to_values: Any, counts: Any, n: Any, dtype: Any, has_values: Template,
    shift: Any,
) -> None:  # fmt: skip
    """Sorts the pairs stably by one digit of the keys."""
    if static(by_blocks()):
        blocks.sort_pass(_digit, keys, to_keys, values, to_values, counts, n, dtype, has_values, shift)
    else:
        tiles = (n + static(TILE - 1)) // TILE
        for d in range(tiles * DIGITS):
            counts[d] = cast(0, u32)
        for t in range(tiles):
            for i in range(t * TILE, min(n, t * TILE + TILE)):
                d = _digit(keys[i], dtype, shift)
                counts[d * tiles + t] = counts[d * tiles + t] + 1
        # the position after the last key of the tile with this digit
        _summed(blocks.add, counts, tiles * DIGITS, counts.dtype)
        for t in range(tiles):
            for i in range(min(n, t * TILE + TILE) - 1, t * TILE - 1, -1):
                d = _digit(keys[i], dtype, shift)
                at = cast(counts[d * tiles + t], i32) - 1
                counts[d * tiles + t] = cast(at, u32)
                to_keys[at] = keys[i]
                if static(has_values):
                    to_values[at] = values[i]


@func
def sort(
    keys: Any, tmp_keys: Any, values: Any, tmp_values: Any, scratch: Any, n: Any, key_dtype: Any, has_values: Template,
    end_bit: Template, log256_max_n: Any = 0,
) -> None:  # fmt: skip
    """Sorts keys, and with ``has_values`` their values too, stably by the lowest ``end_bit`` bits, a multiple of 16.
    ``tmp_keys`` and ``tmp_values`` have the same sizes as ``keys`` and ``values``; ``n`` is a number, or an array or
    field that holds it."""
    static_assert(static(key_dtype in _LEAST), f"sort takes numbers of 32 or 64 bits, not {key_dtype.name}")
    static_assert(static(end_bit % 16 == 0 and end_bit <= key_dtype.bits), "end_bit is a multiple of 16 within the key")
    size = _only(n)
    _require(scratch, (size + static(TILE - 1)) // TILE * DIGITS, size)
    for p in static(range(0, end_bit, 16)):
        _pass(keys, tmp_keys, values, tmp_values, scratch, size, key_dtype, has_values, p)
        _pass(tmp_keys, keys, tmp_values, values, scratch, size, key_dtype, has_values, p + 8)


@kernel
def _sort_by_two_digits(
    keys: Tensor, tmp: Tensor, values: Tensor, tmp_values: Tensor, scratch: Tensor, n: i32, shift: i32, dtype: Template,
    pairs: Template,
) -> None:  # fmt: skip
    _pass(keys, tmp, values, tmp_values, scratch, n, dtype, pairs, shift)
    _pass(tmp, keys, tmp_values, values, scratch, n, dtype, pairs, shift + 8)


@kernel
def _invert(keys: Tensor, n: i32, dtype: Template) -> None:
    """Inverts all bits except the sign of each negative real key. The bits, read as signed integers, then have the
    order of the real numbers. A second call restores the keys."""
    signed = static(i64 if dtype.bits == 64 else i32)
    for k in range(n):
        bits = bit_cast(keys[k], signed)
        keys[k] = bit_cast(bits ^ ((bits >> static(dtype.bits - 1)) & signed(static(signed.limits[1]))), dtype)


def _plain(x: Any) -> bool:
    """Whether ``x`` is a field or ndarray of numbers whose indices begin at 0."""
    return isinstance(x, Dense) and not x.element_shape and not any(x.offset)


def _wrong(what: str, x: Any) -> QuadrantsRuntimeTypeError:
    offset = f" with the offset {x.offset}" if isinstance(x, Dense) and any(x.offset) else ""
    return QuadrantsRuntimeTypeError(f"{what}, not {x!r}{offset}", code="QL2055")


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sorts a field or ndarray of one axis, and with it ``values``, numbers of the same shape. Neither can have an
    offset."""
    if not _plain(keys) or len(keys.shape) != 1 or keys.dtype not in _LEAST:
        raise _wrong("parallel_sort sorts numbers of 32 or 64 bits along one axis, from index 0 on", keys)
    if values is not None and (not _plain(values) or values.shape != keys.shape):
        raise _wrong(f"parallel_sort sorts numbers with {keys!r} that have its shape and no offset", values)
    if any(x is not None and has_derivative(x) for x in (keys, values)):
        no_derivative("parallel_sort")
    n, pairs = keys.shape[0], values is not None
    given = [keys._live(), values._live()] if pairs else [keys._live()]
    if by_cupy.can_compute(*given):
        if not keys.dtype.is_float:
            by_cupy.sort(*given)
            return
        _invert(keys, n, keys.dtype)
        try:
            by_cupy.sort(*given)
        finally:  # restores the keys even if there was no memory for the sort
            _invert(keys, n, keys.dtype)
        return
    tmp = ndarray(keys.dtype, n)
    tmp_values = ndarray(values.dtype, n) if pairs else ndarray(keys.dtype, 1)
    scratch = ndarray(u32, sort_scratch_slots(n))
    for shift in range(0, keys.dtype.bits, 16):
        _sort_by_two_digits(
            keys, tmp, values if pairs else tmp_values, tmp_values, scratch, n, shift, keys.dtype, pairs
        )


@kernel
def _inclusive(arr: Tensor, scratch: Tensor, n: i32) -> None:
    _scan(blocks.add, 0, arr, arr, scratch, n, i32, True)


class PrefixSumExecutor:
    """Computes inclusive prefix sums of ``length`` i32, from index 0 on, in place."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.scratch = ndarray(u32, _tiles(length))

    def run(self, input_arr: Any) -> None:
        if not _plain(input_arr) or input_arr.shape != (self.length,) or input_arr.dtype is not i32:
            raise _wrong(f"this PrefixSumExecutor sums {self.length} i32, from index 0 on", input_arr)
        _inclusive(input_arr, self.scratch, self.length)


def __getattr__(name: str) -> object:
    return missing_attribute("qd.algorithms", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
