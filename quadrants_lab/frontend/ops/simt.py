"""Lowers `qd.simt`: the running thread and its block, barriers, shared memory, and operations on values of many
threads."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from typing import Any

from quadrants_lab.frontend.library import simt
from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.ops import tiles
from quadrants_lab.frontend.syntax import funcs
from quadrants_lab.frontend.values import Lit, Mem, Num, Obj, StructMem, Value
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.struct import type_of
from quadrants_lab.frontend.values.tile import SUBGROUP, of_threads, shared_array, thread, use_blocks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, i32


def _index(what: str) -> Lower:
    """The operation that returns an index or count of the running thread or its block; ``what`` is its name in
    `ir.nodes.Builtin`."""

    def lower(cx: Context, call: ast.Call) -> Value:
        use_blocks(cx, call)
        return Num(cx.b.add(N.Builtin(cx.b.fresh(), i32, what)), i32)

    return lower


def _sync(cx: Context, call: ast.Call, *mask: Value) -> Value:
    use_blocks(cx, call)
    cx.b.add(N.Barrier(cx.b.fresh()))
    return Obj(None)


def _fence(cx: Context, call: ast.Call) -> Value:
    """A memory fence emits nothing: a thread sees its own writes in order, and the writes of other threads after
    barriers."""
    return Obj(None)


def _first(cx: Context, call: ast.Call) -> Value:
    """The first thread of the running thread's subgroup."""
    use_blocks(cx, call)
    if cx.block_threads <= SUBGROUP:
        return Lit(0, call)
    own = thread(cx)
    return Num(cx.b.op("sub", own, cx.b.op("mod", own, cx.b.const(SUBGROUP, i32))), i32)


def _constant(value: Callable[[Context], int]) -> Lower:
    return lambda cx, call: Lit(value(cx), call)


def _shared_array(cx: Context, call: ast.Call, shape: Value, dtype: Value) -> Value:
    known = cx.known(shape, "QL1610", call, op="SharedArray")
    sizes = known if isinstance(known, (tuple, list)) else (known,)
    if not sizes or not all(type(n) is int and n > 0 for n in sizes):
        raise cx.fail("QL1713", call, shape=known)
    declared = type_of(cx, dtype.captured)
    if declared is None:
        raise cx.fail("QL1410", argument_node(call, 1), what=dtype.describe())
    use_blocks(cx, call)
    return _array_of(cx, tuple(sizes), declared, argument_node(call, 1))


def _array_of(cx: Context, sizes: tuple[int, ...], declared: Any, node: ast.expr) -> Mem | StructMem:
    """Shared memory whose elements have the declared dtype or type. A struct type has one array for each member."""
    if isinstance(declared, DType):
        return shared_array(cx, sizes, declared)
    kind = declared.__qd_type__
    if kind == "struct":
        members = {name: _array_of(cx, sizes, type_of(cx, of), node) for name, of in declared.members.items()}
        return StructMem(declared, members, "SharedArray")
    shape = tuple(declared.shape) if kind == "matrix" else ()
    dtype = type_of(cx, declared.dtype) if shape else None
    if dtype is None or None in shape:
        raise cx.fail("QL1718", node)
    return shared_array(cx, sizes, dtype, shape)


def _shared(cx: Context, call: ast.Call, value: Value) -> Value:
    """Shared memory with the value of each thread; the size is rounded up to whole subgroups."""
    number = value.number(cx, call)
    use_blocks(cx, call)
    dtype = cx.type_of(number)
    return of_threads(cx, cx.to(number, dtype), dtype)


def _arch_uses_spv(cx: Context, call: ast.Call, arch: Value) -> Value:
    return Lit(getattr(getattr(arch, "value", None), "name", "") in ("vulkan", "metal"), call)


# --- operations on the values of many threads -----------------------------------------------------------------------

# operations that combine two values: the func or Python function, and a function from a dtype to the neutral element
_OPERATIONS: dict[str, tuple[Any, Callable[[DType], float]]] = {
    "add": (simt.add, lambda t: 0),
    "mul": (simt.mul, lambda t: 1),
    "min": (min, lambda t: inf if t.is_float else t.limits[1]),
    "max": (max, lambda t: -inf if t.is_float else t.limits[0]),
    "and": (simt.both, lambda t: -1 if t.kind == "i" else t.limits[1]),
    "or": (simt.either, lambda t: 0),
    "xor": (simt.differs, lambda t: 0),
}
_REDUCED = ("add", "min", "max")  # the operations for which there are reductions
_SCAN: Any = {"inclusive": simt.inclusive, "exclusive": simt.exclusive}
_VOTES: Any = {"all_true": simt.all_true, "any_true": simt.any_true, "all_equal": simt.all_equal}
_MASKS: Any = {k: getattr(simt, f"lanemask_{k}") for k in ("lt", "le", "eq", "ge", "gt")}
_SHUFFLES: Any = {"sync": simt.shuffle, "up": simt.shuffle_up, "down": simt.shuffle_down, "xor": simt.shuffle_xor}
Size = Callable[[Context, ast.Call, "Value | None"], "int | None"]  # number of threads of a group; None: the block


def _inlined(cx: Context, call: ast.Call, fn: Any, *args: Value | Any) -> Value:
    """Inlines a function of the library."""
    use_blocks(cx, call)
    values = [a if isinstance(a, (Num, Lit, Mem, Obj)) else cx.wrap(a, str(a), call) for a in args]
    return funcs.inline(cx, call, fn.source, values, {}, hidden=True)


def _plain(fn: Any, *more: Any) -> Lower:
    """The lowering of an operation by a function of the library, which gets the same arguments, followed by the
    constants ``more``."""
    return lambda cx, call, *args: _inlined(cx, call, fn, *args, *more)


def _int(cx: Context, call: ast.Call, value: Value, what: str) -> int:
    """An integer that must be known at compile time."""
    known = cx.known(value, "QL1610", call, op=what)
    if type(known) is not int:
        raise cx.fail("QL1610", call, op=what)
    return known


def _tile(cx: Context, call: ast.Call, log2_size: Value | None = None) -> int | None:
    """The number of threads of a part of a subgroup; None if that is the whole block."""
    log2 = 5 if log2_size is None else _int(cx, call, log2_size, "a subgroup's operation")
    if not 0 <= log2 <= 5:
        raise cx.fail("QL1714", call, what=f"2 ** {log2} threads", where=f"a subgroup of {SUBGROUP}")
    return 1 << log2 if 1 << log2 < cx.block_threads else None


def _whole(cx: Context, call: ast.Call, block_dim: Value | None) -> None:
    """Returns None, which stands for the whole block. Raises QL1714 if ``block_dim`` is not the block's size."""
    assert block_dim is not None
    size = _int(cx, call, block_dim, "a block's operation")
    if size != cx.block_threads:
        raise cx.fail("QL1714", call, what=f"{size} threads", where=f"a block of {cx.block_threads}")


def _numbers(cx: Context, call: ast.Call, values: tuple[Value, ...]) -> list[Num]:
    return [cx.num(v.number(cx, argument_node(call, k))) for k, v in enumerate(values)]


def _combining(fn: Any, name: str, size: Size, many: int = 1) -> Lower:
    """A reduction or scan of ``many`` values by the operation ``name`` of the table; the next argument, if there is
    one, gives the size of the group."""
    operation, neutral = _OPERATIONS[name]

    def lower(cx: Context, call: ast.Call, *args: Value) -> Value:
        threads = size(cx, call, args[many] if len(args) > many else None)
        values = _numbers(cx, call, args[:many])
        more: tuple[Value, ...] = (Obj(operation, name),)
        if fn is simt.exclusive:
            t = values[0].type
            cx.at(call)
            more = (*more, Num(cx.const(neutral(t), t), t))
        return _inlined(cx, call, fn, *values, threads, *more)

    return lower


def _generic(fn: Any) -> Lower:
    """The lowering of a reduction or scan of a block whose operation is a func that the user passes."""

    def lower(cx: Context, call: ast.Call, value: Value, block_dim: Value, op: Value, *more: Value) -> Value:
        _whole(cx, call, block_dim)
        return _inlined(cx, call, fn, *_numbers(cx, call, (value,)), None, op, *more[:-1])

    return lower


def _tiled(fn: Any, many: int = 1) -> Lower:
    """The lowering of an operation by a function of the library that takes ``many`` values and the size of the group; a
    call may leave the size out."""
    return lambda cx, call, *args: _inlined(cx, call, fn, *args[:many], _tile(cx, call, *args[many:]))


def _radix(cx: Context, call: ast.Call, key: Value, block_dim: Value, *rest: Value) -> Value:
    _whole(cx, call, block_dim)
    return _inlined(cx, call, simt.radix_rank, key, *rest)


def _masked(fn: Any, neutral: int) -> Lower:
    """The lowering of a vote in which only the lanes in a mask take part; the other lanes count as ``neutral``."""

    def lower(cx: Context, call: ast.Call, mask: Value, predicate: Value) -> Value:
        return _inlined(cx, call, fn, _inlined(cx, call, simt.counted, mask, predicate, neutral), SUBGROUP)

    return lower


def _unmasked(fn: Any) -> Lower:
    return lambda cx, call, mask, *args: _inlined(cx, call, fn, *args)


def _pair(name: str, params: tuple[str, ...], lower: Lower, doc: str) -> Iterator[Builtin]:
    """The two rows of an operation in the table: one for a whole subgroup, one for a part of a subgroup."""
    yield Builtin(f"subgroup.{name}", params, lower, doc)
    yield Builtin(f"subgroup.{name}_tiled", (*params, "log2_size"), lower, doc)


def _families() -> Iterator[Builtin]:
    of_block = ("value", "block_dim", "dtype")
    for op in _OPERATIONS:
        for kind, fn in _SCAN.items():
            doc = f"{op} of the values of the group's threads {'up to' if kind == 'inclusive' else 'before'} this one."
            yield from _pair(f"{kind}_{op}", ("value",), _combining(fn, op, _tile), doc)
            if op in _REDUCED:
                yield Builtin(f"block.{kind}_{op}", of_block, _combining(fn, op, _whole), doc)
    for op in _REDUCED:
        doc = f"{op} of the values of the group's threads, in each of them."
        for kind in ("reduce", "reduce_all"):
            yield from _pair(f"{kind}_{op}", ("value",), _combining(simt.reduced, op, _tile), doc)
            yield Builtin(f"block.{kind}_{op}", of_block, _combining(simt.reduced, op, _whole), doc)
        doc = f"As inclusive_{op}, begun again where head_flag is not 0."
        lower = _combining(simt.segmented, op, _tile, 2)
        yield from _pair(f"segmented_reduce_{op}", ("value", "head_flag"), lower, doc)
    for kind, fn in _VOTES.items():
        param = "value" if kind == "all_equal" else "predicate"
        yield from _pair(kind, (param,), _tiled(fn), f"1 where this holds: {kind.replace('_', ' ')}; else 0.")
    for kind, fn in _MASKS.items():
        doc = f"A bit for each lane k with k {kind} lane_id."
        yield Builtin(f"subgroup.lanemask_{kind}", ("lane_id",), _plain(fn), doc)
    for kind, fn in _SHUFFLES.items():
        for t in ("i32", "f32") if kind != "xor" else ("i32",):
            doc = "As the shuffles of subgroups; the mask must have all lanes."
            yield Builtin(f"warp.shfl_{kind}_{t}", ("mask", "val", "offset"), _unmasked(fn), doc)
    doc = "The pair of this lane when those of the subgroup, or of the part of it, are sorted."
    yield from _pair("bitonic_sort_kv", ("key", "value"), _tiled(simt.sorted_pairs, 2), doc)


_BLOCK: tuple[Builtin, ...] = (
    Builtin("SharedArray", ("shape", "dtype"), _shared_array,
            "Memory that the threads of a block share; zero when the block begins."),
    Builtin("sync", (), _sync, "No thread of the block goes on before all of them are here."),
    Builtin("mem_fence", (), _fence, "Does nothing: writes are seen in order, and behind sync()."),
    Builtin("mem_sync", (), _sync, "The same as sync()."),
    Builtin("thread_idx", (), _index("thread"), "The number of the thread within its block."),
    Builtin("global_thread_idx", (), _index("number"), "The number of the thread within the loop."),
    Builtin("arch_uses_spv", ("arch",), _arch_uses_spv, "Whether the arch runs SPIR-V."),
    Builtin("reduce", ("value", "block_dim", "op", "dtype"), _generic(simt.folded),
            "The values of the block's threads combined by op, in each of them."),
    Builtin("reduce_all", ("value", "block_dim", "op", "dtype"), _generic(simt.folded), "The same as reduce."),
    Builtin("inclusive_scan", ("value", "block_dim", "op", "dtype"), _generic(simt.inclusive),
            "The values of the block's threads up to this one, combined by op."),
    Builtin("exclusive_scan", ("value", "block_dim", "op", "identity", "dtype"), _generic(simt.exclusive),
            "The values of the block's threads before this one, combined by op; identity in the first."),
    Builtin("sync_all_nonzero", ("predicate",), _plain(simt.all_true, None), "1 if it is not 0 in all threads."),
    Builtin("sync_any_nonzero", ("predicate",), _plain(simt.any_true, None), "1 if it is not 0 in some thread."),
    Builtin("sync_count_nonzero", ("predicate",), _plain(simt.count_true, None), "In how many threads it is not 0."),
    Builtin("radix_rank_match_atomic_or",
            ("key", "block_dim", "radix_bits", "bit_start", "num_bits", "bins", "excl_prefix"), _radix,
            "The thread's place when the block's keys are sorted by a digit; bins: how often each is there."),
)
_TOP = (Builtin("global_thread_idx", (), _index("number"), "The same as simt.block.global_thread_idx()."),)
_GRID: tuple[Builtin, ...] = (
    Builtin("mem_fence", (), _fence, "Does nothing: threads of different blocks meet in atomics alone."),
    Builtin("memfence", (), _fence, "The same as mem_fence()."),
    Builtin("arch_uses_spv", ("arch",), _arch_uses_spv, "Whether the arch runs SPIR-V."),
)
_SUBGROUP: tuple[Builtin, ...] = (
    Builtin("group_size", (), _constant(lambda cx: SUBGROUP), "The number of threads of a subgroup: 32."),
    Builtin("log2_group_size", (), _constant(lambda cx: SUBGROUP.bit_length() - 1), "5."),
    Builtin("sync", (), _sync, "The same as block.sync()."),
    Builtin("barrier", (), _sync, "The same as block.sync()."),
    Builtin("mem_fence", (), _fence, "Does nothing, as block.mem_fence()."),
    Builtin("memory_barrier", (), _fence, "The same as mem_fence()."),
    Builtin("invocation_id", (), _plain(simt.lane), "The number of the thread within its subgroup."),
    Builtin("elect", (), _plain(simt.elect), "1 in the first thread of a subgroup, else 0."),
    Builtin("shuffle", ("value", "index"), _plain(simt.shuffle), "The value of that lane; else the own one."),
    Builtin("shuffle_up", ("value", "offset"), _plain(simt.shuffle_up), "The value of the lane so many below."),
    Builtin("shuffle_down", ("value", "offset"), _plain(simt.shuffle_down), "The value of the lane so many above."),
    Builtin("shuffle_xor", ("value", "mask"), _plain(simt.shuffle_xor), "The value of lane invocation_id() ^ mask."),
    Builtin("broadcast", ("value", "index"), _plain(simt.shuffle), "The value of that lane."),
    Builtin("broadcast_first", ("value",), _plain(simt.broadcast_first), "The value of lane 0."),
    Builtin("ballot", ("predicate",), _plain(simt.ballot), "A bit, of a u64, for each lane in which it is not 0."),
    Builtin("ballot_full_subgroup", ("predicate",), _plain(simt.ballot), "The same as ballot."),
    Builtin("ballot_first_n", ("predicate", "n"), _plain(simt.ballot_first_n), "A u32 with a bit for each of n lanes."),
)
_WARP: tuple[Builtin, ...] = (
    Builtin("sync", ("mask",), _sync, "The same as block.sync()."),
    Builtin("active_mask", (), _plain(simt.active_mask), "A bit for each lane of the subgroup that there is."),
    Builtin("ballot", ("predicate",), _plain(simt.ballot_first_n, SUBGROUP), "A u32: lanes where it is not 0."),
    Builtin("all_nonzero", ("mask", "predicate"), _masked(simt.all_true, 1), "1 if not 0 in all lanes of the mask."),
    Builtin("any_nonzero", ("mask", "predicate"), _masked(simt.any_true, 0), "1 if not 0 in some lane of the mask."),
    Builtin("unique", ("mask", "predicate"), _unmasked(simt.unique), "1 if no other lane has the same value."),
    Builtin("match_any", ("mask", "value"), _unmasked(simt.match_any), "The lanes that have this one's value."),
    Builtin("match_all", ("mask", "val"), _unmasked(simt.match_all), "All lanes if they have the same value."),
)
_OWN: tuple[Builtin, ...] = (
    Builtin("shared", ("value",), _shared, ""),
    Builtin("threads", (), _index("threads"), ""),
    Builtin("first", (), _first, ""),
    Builtin("half", (), _constant(lambda cx: 1 << (cx.block_threads - 1).bit_length() >> 1), ""),
)


def _named(prefix: str, rows: tuple[Builtin, ...], home: str = "") -> Iterator[Builtin]:
    """The rows under their full names, in ``qd.simt.PREFIX`` unless ``home`` says otherwise."""
    return (replace(r, name=f"{prefix}.{r.name}", home=home or f"simt.{prefix}") for r in rows)


ROWS: tuple[Builtin, ...] = (
    *(replace(r, home=f"simt.{r.name.partition('.')[0]}") for r in _families()),
    *_named("block", _BLOCK), *_named("grid", _GRID), *_named("subgroup", _SUBGROUP), *_named("warp", _WARP),
    *_named("simt", _OWN, "library"), *tiles.ROWS, *_TOP,
)  # fmt: skip
