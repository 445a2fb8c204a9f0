"""Implements operations on the values of all threads of a group: a block, a subgroup, or a part of a subgroup.

Values are exchanged through shared memory, so each operation is a barrier, and results are the same on all backends. In
scans one thread of each group combines the values in the order of the threads.
"""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library import helper, ops, static
from quadrants_lab.ir.types import i32 as _i32, u32 as _u32, u64 as _u64

# simt.shared: shared memory that holds the value of each thread
_sync, _thread, _threads, _shared, _half = ops("block.sync block.thread_idx simt.threads simt.shared simt.half")

add = helper(lambda a, b: a + b)
mul = helper(lambda a, b: a * b)
both = helper(lambda a, b: a & b)
either = helper(lambda a, b: a | b)
differs = helper(lambda a, b: a ^ b)

lane = helper(lambda: _thread() % 32)
elect = helper(lambda: _i32(_thread() % 32 == 0))
shuffle_up = helper(lambda value, offset: shuffle(value, _thread() % 32 - _i32(offset)))
shuffle_down = helper(lambda value, offset: shuffle(value, _thread() % 32 + _i32(offset)))
shuffle_xor = helper(lambda value, mask: shuffle(value, (_thread() % 32) ^ _i32(mask)))
broadcast_first = helper(lambda value: shuffle(value, 0))

lanemask_lt = helper(lambda lane_id: (_u32(1) << _u32(lane_id)) - _u32(1))
lanemask_eq = helper(lambda lane_id: _u32(1) << _u32(lane_id))
lanemask_le = helper(lambda lane_id: lanemask_lt(lane_id) | lanemask_eq(lane_id))
lanemask_gt = helper(lambda lane_id: ~lanemask_le(lane_id))
lanemask_ge = helper(lambda lane_id: ~lanemask_lt(lane_id))

all_true = helper(lambda predicate, size: reduced(_i32(predicate != 0), size, min))
any_true = helper(lambda predicate, size: reduced(_i32(predicate != 0), size, max))
count_true = helper(lambda predicate, size: reduced(_i32(predicate != 0), size, add))
ballot = helper(lambda predicate: reduced(_u64(predicate != 0) << _u64(_thread() % 32), 32, either))
active_mask = helper(lambda: ballot_first_n(1, 32))
match_all = helper(lambda value: _u32(4294967295) if all_equal(value, 32) != 0 else _u32(0))
unique = helper(lambda value: _i32(match_any(value) == lanemask_eq(_thread() % 32)))
# the vote of a lane: 1 if its predicate is not 0, else 0; ``neutral`` for lanes outside of the mask
counted = helper(
    lambda mask, predicate, neutral:
    _i32(predicate != 0) if (_u32(mask) >> _u32(_thread() % 32)) & _u32(1) != _u32(0) else neutral
)  # fmt: skip

# the first thread of this thread's group of ``size`` threads, and the end of the group; if ``size`` is None, the group
# is the whole block
_first = helper(lambda size: 0 if static(size is None) else _thread() - _thread() % size)
_end = helper(lambda size: _threads() if static(size is None) else min(_first(size) + size, _threads()))


@helper
def shuffle(value: Any, index: Any) -> Any:
    """The value of lane ``index`` of the subgroup; the thread's own value if there is no such lane."""
    shared = _shared(value)
    t = _thread()
    k = _i32(index)
    found = value
    if k >= 0 and k < 32 and t - t % 32 + k < _threads():
        found = shared[t - t % 32 + k]
    _sync()
    return found


@helper
def _scan(shared: Any, value: Any, size: Any, fn: Any, heads: Any) -> Any:
    """Replaces the shared values, one for each thread, by their inclusive scan with the operation ``fn`` in each group.
    If ``heads`` is given, the scan begins again at each thread for which ``heads`` is not 0."""
    t = _thread()
    if t == _first(size):
        total = value
        for k in range(t + 1, _end(size)):
            if static(heads is None):
                total = fn(total, shared[k])
            else:
                total = shared[k] if heads[k] != 0 else fn(total, shared[k])
            shared[k] = total
    _sync()


@helper
def reduced(value: Any, size: Any, fn: Any) -> Any:
    """The values of the group combined by ``fn`` in a tree, for operations that may be reordered."""
    shared = _shared(value)
    t = _thread()
    stride = _half() if static(size is None) else size // 2
    while stride > 0:
        if static(size is None):
            if t < min(stride, _threads() - stride):
                shared[t] = fn(shared[t], shared[t + stride])
        else:
            if t % size < stride and t + stride < _threads():
                shared[t] = fn(shared[t], shared[t + stride])
        _sync()
        stride //= 2
    found = shared[_first(size)]
    _sync()
    return found


@helper
def folded(value: Any, size: Any, fn: Any) -> Any:
    """The values of the group combined by ``fn`` in the order of the threads."""
    shared = _shared(value)
    _scan(shared, value, size, fn, None)
    found = shared[_end(size) - 1]
    _sync()
    return found


@helper
def inclusive(value: Any, size: Any, fn: Any) -> Any:
    shared = _shared(value)
    _scan(shared, value, size, fn, None)
    found = shared[_thread()]
    _sync()
    return found


@helper
def exclusive(value: Any, size: Any, fn: Any, identity: Any) -> Any:
    shared = _shared(value)
    _scan(shared, value, size, fn, None)
    t = _thread()
    found = identity if t == _first(size) else shared[t - 1]
    _sync()
    return found


@helper
def segmented(value: Any, head_flag: Any, size: Any, fn: Any) -> Any:
    """The inclusive scan of the threads' values in each group; it begins again at each thread whose flag is not 0."""
    shared = _shared(value)
    _scan(shared, value, size, fn, _shared(head_flag))
    found = shared[_thread()]
    _sync()
    return found


@helper
def all_equal(value: Any, size: Any) -> Any:
    shared = _shared(value)
    same = value == shared[_first(size)]
    _sync()
    return all_true(same, size)


@helper
def ballot_first_n(predicate: Any, n: Any) -> Any:
    k = _thread() % 32
    return reduced(_u32(k < n and predicate != 0) << _u32(k), 32, either)


@helper
def match_any(value: Any) -> Any:
    """A mask with a bit for each lane of the subgroup: 1 where the lane's value equals that of this thread."""
    shared = _shared(value)
    t = _thread()
    first = t - t % 32
    found = _u32(0)
    for k in range(min(32, _threads() - first)):
        if shared[first + k] == value:
            found |= _u32(1) << _u32(k)
    _sync()
    return found


@helper
def sorted_pairs(key: Any, value: Any, size: Any) -> Any:
    """The pair at this thread's position when the pairs of its group are sorted by key, then by value."""
    keys = _shared(key)
    values = _shared(value)
    t = _thread()
    first = _first(size)
    rank = 0
    for k in range(first, _end(size)):
        less = keys[k] < key or (keys[k] == key and values[k] < value)
        same = keys[k] == key and values[k] == value
        if less or (same and k < t):
            rank += 1
    _sync()
    keys[first + rank] = key
    values[first + rank] = value
    _sync()
    a = keys[t]
    b = values[t]
    _sync()
    return a, b


@helper
def radix_rank(key: Any, radix_bits: Any, bit_start: Any, num_bits: Any, bins: Any, excl_prefix: Any) -> Any:
    """The position that this thread's key has when the block's keys are sorted stably by one digit: ``num_bits`` bits
    from bit ``bit_start`` on. Writes how often each digit occurs to ``bins``, and the number of smaller digits to
    ``excl_prefix``."""
    digit = _i32((_u32(key) >> _u32(bit_start)) & ((_u32(1) << _u32(num_bits)) - _u32(1)))
    digits = _shared(digit)
    t = _thread()
    if t == 0:
        for d in range(bins.shape[0]):
            bins[d] = 0
        for k in range(_threads()):
            d = digits[k]
            digits[k] = bins[d]
            bins[d] = bins[d] + 1
        total = 0
        for d in range(bins.shape[0]):
            excl_prefix[d] = total
            total += bins[d]
    _sync()
    rank = excl_prefix[digit] + digits[t]
    _sync()
    return rank
