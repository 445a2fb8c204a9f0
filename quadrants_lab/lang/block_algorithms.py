"""Implements scans, selections and radix sorts by blocks of threads: the part of `qd.algorithms` that runs on GPUs.

A block of 256 threads holds a span of elements in shared memory. Neighbouring threads load and store neighbouring
elements; between that, each thread has ``each`` elements in a row. Block totals are combined by doubling (Hillis and
Steele, Data parallel algorithms, 1986), and the totals of all blocks by one block, which goes over them span by span.
So a scan reads its input twice and writes its output once (Merrill and Grimshaw's reduce-then-scan). A sort sorts each
span by one digit and writes it to its places, so that neighbouring threads write to neighbouring places (Satish, Harris
and Garland, Designing efficient sorting algorithms for manycore GPUs, 2009).
"""

from __future__ import annotations

from typing import Any

from quadrants_lab.ir.types import DType, i32, u32, u64
from quadrants_lab.lang.annotations import Template
from quadrants_lab.lang.kernel import func
from quadrants_lab.lang.ops import OPERATIONS, simt_operations

static: Any = OPERATIONS["static"]
bit_cast: Any = OPERATIONS["bit_cast"]
cast: Any = OPERATIONS["cast"]
atomic_add: Any = OPERATIONS["atomic_add"]
loop_config: Any = OPERATIONS["loop_config"]
ndrange: Any = OPERATIONS["ndrange"]
_block: Any = simt_operations("block")
SharedArray, sync = _block["SharedArray"], _block["sync"]
THREADS = 256
_BITS = THREADS.bit_length() - 1
EACH = 16
SPAN = EACH * THREADS
SORTED_EACH = 8  # elements of a thread in a sort, which holds each element twice
SORTED = SORTED_EACH * THREADS
DIGITS = 256  # as many as a block has threads


def each_of(dtype: DType) -> int:
    """The number of elements for each thread, so that the span of a block takes about 16 KiB."""
    return EACH * 4 // max(dtype.nbytes, 4)


each_of.__qd_compile_time__ = True  # type: ignore[attr-defined]  # kernels can call it with constants


@func
def _slot(p: Any):
    """The index in shared memory of element p of a span. A gap after every 32 elements spreads the elements of one
    thread over the memory's banks."""
    return p + p // 32


@func
def _padded(each: Template, dtype: Any):
    return SharedArray(static(each * THREADS + each * THREADS // 32), dtype)


@func
def add(a: Any, b: Any):
    return a + b


@func
def _combine(op: Any, sums: Any, t: Any):
    """Replaces the values in ``sums``, of which each thread has written one, by their inclusive scan with the operation
    ``op``."""
    sync()
    for bit in static(range(_BITS)):
        mine = sums[t]
        if t >= static(1 << bit):
            mine = op(sums[t - static(1 << bit)], mine)
        sync()
        sums[t] = mine
        sync()


@func
def _scan_span(op: Any, start: Any, held: Any, sums: Any, t: Any, each: Template, inclusive: Template):
    """Replaces the values of a span by their scan, which begins with ``start``. Returns the combination of all
    values."""
    sync()
    s = held[_slot(t * each)]
    for k in range(1, each):
        s = op(s, held[_slot(t * each + k)])
    sums[t] = s
    _combine(op, sums, t)
    before = start
    if t > 0:
        before = op(start, sums[t - 1])
    total = op(start, sums[static(THREADS - 1)])
    for k in range(each):
        at = _slot(t * each + k)
        after = op(before, held[at])
        if static(inclusive):
            held[at] = after
        else:
            held[at] = before
        before = after
    sync()
    return total


@func
def _scan_totals(op: Any, identity: Template, scratch: Any, at: Any, count: Any, dtype: Any) -> None:
    """Replaces the totals of ``count`` spans, which are in ``scratch`` from index ``at`` on, by their inclusive scan.
    One block of threads does this."""
    each = static(each_of(dtype))
    loop_config(block_dim=THREADS)
    for _, t in ndrange(1, THREADS):
        held, sums = _padded(each, dtype), SharedArray(THREADS, dtype)
        start = dtype(identity)
        for row in range((count + static(each * THREADS - 1)) // static(each * THREADS)):
            first = row * static(each * THREADS)
            for k in range(each):
                p = k * THREADS + t
                held[_slot(p)] = dtype(identity)
                if p < count - first:
                    held[_slot(p)] = bit_cast(scratch[at + first + p], dtype)
            start = _scan_span(op, start, held, sums, t, each, True)
            for k in range(each):
                p = k * THREADS + t
                if p < count - first:
                    scratch[at + first + p] = bit_cast(held[_slot(p)], scratch.dtype)
            sync()


@func
def scan(
    op: Any, identity: Template, arr: Any, out: Any, scratch: Any, at: Any, n: Any, dtype: Any, inclusive: Template
) -> None:
    """The scan that `algorithms._scan` describes. It uses ``scratch`` from index ``at`` on for the totals of all spans
    but the last."""
    each = static(each_of(dtype))
    spans = (n + static(each * THREADS - 1)) // static(each * THREADS)
    loop_config(block_dim=THREADS)
    for span, t in ndrange(spans, THREADS):
        sums = SharedArray(THREADS, dtype)
        first = span * static(each * THREADS)
        s = dtype(identity)
        for k in range(each):
            if k * THREADS + t < n - first:
                s = op(s, arr[first + k * THREADS + t])
        sums[t] = s
        _combine(op, sums, t)
        if t == 0 and span < spans - 1:
            scratch[at + span] = bit_cast(sums[static(THREADS - 1)], scratch.dtype)
    _scan_totals(op, identity, scratch, at, spans - 1, dtype)
    loop_config(block_dim=THREADS)
    for span, t in ndrange(spans, THREADS):
        held, sums = _padded(each, dtype), SharedArray(THREADS, dtype)
        first = span * static(each * THREADS)
        for k in range(each):
            p = k * THREADS + t
            held[_slot(p)] = dtype(identity)
            if p < n - first:
                held[_slot(p)] = arr[first + p]
        start = dtype(identity)
        if span > 0:
            start = bit_cast(scratch[at + span - 1], dtype)
        _scan_span(op, start, held, sums, t, each, inclusive)
        for k in range(each):
            p = k * THREADS + t
            if p < n - first:
                out[first + p] = held[_slot(p)]


# --- select and reduce by key ---------------------------------------------------------------------------------------


@func
def count(counts: Any, arr: Any, scratch: Any, n: Any, total: Any) -> None:
    """Counts the indices i for which ``counts(arr, i)`` is true. ``scratch[s]`` gets their number from 0 to the end of
    span s, and ``total[0]`` the number of all."""
    spans = (n + static(SPAN - 1)) // SPAN
    loop_config(block_dim=THREADS)
    for span, t in ndrange(spans, THREADS):
        sums = SharedArray(THREADS, u32)
        found = cast(0, u32)
        for k in range(EACH):
            if k * THREADS + t < n - span * SPAN and counts(arr, span * SPAN + k * THREADS + t):
                found += cast(1, u32)
        sums[t] = found
        _combine(add, sums, t)
        if t == 0:
            scratch[span] = cast(sums[static(THREADS - 1)], scratch.dtype)
    _scan_totals(add, 0, scratch, 0, spans, scratch.dtype)
    total[0] = cast(scratch[spans - 1], total.dtype) if spans > 0 else cast(0, total.dtype)


@func
def _ranked(counts: Any, arr: Any, scratch: Any, span: Any, t: Any, n: Any, inclusive: Template):
    """For each element of a span the number of counted elements before it in the array; with ``inclusive``, the element
    itself is counted, too."""
    held, sums = _padded(EACH, i32), SharedArray(THREADS, i32)
    for k in range(EACH):
        p = k * THREADS + t
        held[_slot(p)] = 0
        if p < n - span * SPAN and counts(arr, span * SPAN + p):
            held[_slot(p)] = 1
    start = 0
    if span > 0:
        start = cast(scratch[span - 1], i32)
    _scan_span(add, start, held, sums, t, EACH, inclusive)
    return held


@func
def select(counts: Any, flags: Any, arr: Any, out: Any, scratch: Any, n: Any) -> None:
    """Copies the counted elements to the front of ``out``. Runs after `count`."""
    loop_config(block_dim=THREADS)
    for span, t in ndrange((n + static(SPAN - 1)) // SPAN, THREADS):
        held = _ranked(counts, flags, scratch, span, t, n, False)
        for k in range(EACH):
            p = k * THREADS + t
            if p < n - span * SPAN and counts(flags, span * SPAN + p):
                out[held[_slot(p)]] = arr[span * SPAN + p]


@func
def add_runs(
    begins: Any, keys: Any, values: Any, keys_out: Any, values_out: Any, scratch: Any, n: Any, dtype: Any
) -> None:
    """Adds each value to the sum of its run of equal keys. Runs after `count` of the elements that begin a run. A
    thread first adds up its own values of a run and then adds the sum to memory."""
    loop_config(block_dim=THREADS)
    for span, t in ndrange((n + static(SPAN - 1)) // SPAN, THREADS):
        held = _ranked(begins, keys, scratch, span, t, n, True)
        left = n - span * SPAN
        for k in range(EACH):
            p = k * THREADS + t
            if p < left and begins(keys, span * SPAN + p):
                keys_out[held[_slot(p)] - 1] = keys[span * SPAN + p]
        run, s = -1, cast(0, dtype)
        for k in range(EACH):
            p = t * EACH + k
            if p < left:
                now = held[_slot(p)] - 1
                if now != run:
                    if run >= 0:
                        values_out[run] += s
                    run, s = now, cast(0, dtype)
                s += cast(values[span * SPAN + p], dtype)
        if run >= 0:
            values_out[run] += s


# --- sort -----------------------------------------------------------------------------------------------------------


@func
def sort_pass(
    digit: Any, keys: Any, to_keys: Any, values: Any, to_values: Any, counts: Any, n: Any, dtype: Any,
    has_values: Template, shift: Any,
) -> None:  # fmt: skip
    """Sorts the pairs stably by the digit ``digit(key, dtype, shift)``. ``counts`` has room for 256 counts of each span
    and for the totals of their `scan`."""
    spans = (n + static(SORTED - 1)) // SORTED
    loop_config(block_dim=THREADS)
    for span, t in ndrange(spans, THREADS):
        found = SharedArray(DIGITS, u32)
        found[t] = cast(0, u32)
        sync()
        for k in range(SORTED_EACH):
            if k * THREADS + t < n - span * SORTED:
                atomic_add(found[digit(keys[span * SORTED + k * THREADS + t], dtype, shift)], cast(1, u32))
        sync()
        counts[t * spans + span] = cast(found[t], counts.dtype)
    scan(add, 0, counts, counts, counts, spans * DIGITS, spans * DIGITS, counts.dtype, False)
    loop_config(block_dim=THREADS)
    for span, t in ndrange(spans, THREADS):
        held, places = SharedArray(static((2, SORTED + SORTED // 32)), u32), SharedArray(DIGITS, i32)
        sums = SharedArray(THREADS, u64)
        left = n - span * SORTED
        for k in range(SORTED_EACH):
            p = k * THREADS + t
            d = i32(static(DIGITS - 1))  # elements beyond the end get the last digit
            if p < left:
                d = digit(keys[span * SORTED + p], dtype, shift)
            held[0, _slot(p)] = cast(d << 16 | p, u32)
        for split in range(4):
            _split(held, sums, t, split)
        for k in range(SORTED_EACH):  # finds the first position of each digit in the span
            p = k * THREADS + t
            d = cast(held[0, _slot(p)] >> 16, i32)
            if p == 0 or d != cast(held[0, _slot(max(p, 1) - 1)] >> 16, i32):
                places[d] = cast(counts[d * spans + span], i32) - p
        sync()
        for k in range(SORTED_EACH):
            p = k * THREADS + t
            d, source = cast(held[0, _slot(p)] >> 16, i32), cast(held[0, _slot(p)] & 65535, i32)
            if source < left:
                to_keys[places[d] + p] = keys[span * SORTED + source]
                if static(has_values):
                    to_values[places[d] + p] = values[span * SORTED + source]


@func
def _split(held: Any, sums: Any, t: Any, split: Any):
    """Sorts a span stably by two bits; reads one half of ``held`` and writes the other. Each thread counts how often
    the four values of the two bits occur; its four counts are packed into one number, 16 bits each."""
    sync()
    bits, now, own = cast(16 + 2 * split, u32), split % 2, cast(0, u64)
    for k in range(SORTED_EACH):
        own += cast(1, u64) << cast((held[now, _slot(t * SORTED_EACH + k)] >> bits & 3) * 16, u64)
    sums[t] = own
    _combine(add, sums, t)
    total = sums[static(THREADS - 1)]
    place = sums[t] - own + (total << 16) + (total << 32) + (total << 48)
    for k in range(SORTED_EACH):
        mine = held[now, _slot(t * SORTED_EACH + k)]
        at = cast((mine >> bits & 3) * 16, u64)
        held[1 - now, _slot(cast((place >> at) & 65535, i32))] = mine
        place += cast(1, u64) << at
    sync()
