"""Sums at places from data without atomics: each worker thread but the first adds to a zeroed copy of its own.

What iterations add to elements that nobody can tell in advance (particles to a grid, the adjoint of a gather) takes an
atomic step each as long as threads may meet. A plain addition is several times cheaper. A launch that one thread runs
alone needs no more than that. Where several run, the entry asks for copies of the elements that the sums can reach, if
these are few beside the sums; the launching thread adds to the elements themselves, and in the end the copies are added
to them and are zero again. (Array privatization, as in Tu and Padua 1993, with the choice made at each launch.)
"""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import uses, walk

_KINDS = {
    "f32": 0,
    "f64": 1,
    "i32": 2,
    "u32": 2,
    "i64": 3,
    "u64": 3,
}  # by which function of the runtime they are added
_BYTES_A_SUM = 16  # of copies that a sum may cost: what is added up and zeroed in the time of an atomic step
_MOST = 1 << 28  # bytes of copies
_CHEAP = ("add", "sub", "mul", "cast")  # what an index that all iterations share may be made by


@dataclass(frozen=True, slots=True)
class Target:
    """A buffer to elements of which a task adds, and with which it does nothing else; ``fixed``: their indices along
    the first axes, which are the same in all iterations; ``sums``: how many additions there are in an iteration."""

    buffer: N.Buffer
    fixed: tuple[int, ...]
    sums: int


def targets(kernel: N.Kernel, task: N.Offload) -> tuple[Target, ...]:
    """Those of a task of a kernel; at most as many as a frame has room for."""
    used = uses(task.body)
    others: list[N.Load | N.Store | N.Atomic] = []
    sums: dict[str, list[N.Atomic]] = {}
    for s in walk(task.body):
        if (
            isinstance(s, N.Atomic)
            and s.op in ("add", "sub")
            and s.id not in used
            and s.index
            and not s.private
        ):
            sums.setdefault(s.buffer, []).append(s)
        elif isinstance(s, (N.Load, N.Store, N.Atomic)):
            others.append(s)
    shared = _shared(task)
    found = []
    for name, atomics in sums.items():
        buffer = kernel.buffers[name]
        if buffer.dtype.name not in _KINDS or any(
            _may_be(kernel, name, other) for other in sums if other != name
        ):
            continue  # two that are one array would have two copies of its elements
        fixed = atomics[0].index
        for a in atomics:
            same = [i == j and i in shared for i, j in zip(fixed, a.index, strict=False)]
            fixed = fixed[: [*same, False].index(False)]
        if all(_apart(s, name, fixed, shared) for s in others if _may_be(kernel, s.buffer, name)):
            found.append(Target(buffer, fixed, len(atomics)))
    return tuple(found[: L.COPIES])


def _may_be(kernel: N.Kernel, one: str, other: str) -> bool:
    """Whether two buffers may be the same memory: an ndarray may be passed for several arguments."""
    a, b = kernel.buffers[one], kernel.buffers[other]
    gradients = {buffer.grad for buffer in kernel.buffers.values()}
    arrays = (
        a.kind == b.kind == "ndarray" and a.dtype is b.dtype and (one in gradients) == (other in gradients)
    )
    return one == other or arrays


def _apart(
    s: N.Load | N.Store | N.Atomic, name: str, fixed: tuple[int, ...], shared: dict[int, N.Stmt]
) -> bool:
    """Whether the access never goes to an element of the buffer with the ``fixed`` indices: one of its own is another
    one by a constant, as ``t + 1`` is where sums go to ``t``."""

    def parts(id: int) -> tuple[int, int]:
        made = shared.get(id)
        if isinstance(made, N.Const):
            return N.NO_ID, int(made.value)
        if isinstance(made, N.Op) and made.prim in ("add", "sub"):
            (a, m), (b, n) = map(parts, made.args)
            if b == N.NO_ID:
                return a, m + n if made.prim == "add" else m - n
            if a == N.NO_ID and made.prim == "add":
                return b, m + n
        return id, 0

    pairs = [(parts(i), parts(j)) for i, j in zip(s.index, fixed, strict=False)]
    return s.buffer == name and any(a == b and m != n for (a, m), (b, n) in pairs)


def _shared(task: N.Offload) -> dict[int, N.Stmt]:
    """What is the same in all iterations and may be computed before them, in program order."""
    found: dict[int, N.Stmt] = {}
    for s in walk(task.body):
        cheap = isinstance(s, N.Op) and s.prim in _CHEAP and s.type.is_int and all(i in found for i in s.args)
        if isinstance(s, (N.Const, N.ArgLoad, N.ShapeOf)) or cheap:
            found[s.id] = s
    return found


# --- the code -------------------------------------------------------------------------------------------------------


def ask(
    body: CpuBody, task: N.Offload, found: tuple[Target, ...], total: str
) -> list[tuple[Target, str, str, str]]:
    """In the entry, before the task: asks for copies. Returns, for `add`, of each target the address of the first
    element that it may reach, where in a copy that is, and how many elements follow."""
    fn, shared = body.fn, _shared(task)
    needed = {i for t in found for i in t.fixed}
    for s in reversed(shared.values()):
        needed.update(s.operands() if s.id in needed else ())
    block = tuple(s for s in shared.values() if s.id in needed)
    body.open(block)
    for s in block:
        body.statement(s)
    inside, size, reached = "true", "0", []
    for t in found:
        body._open_buffer(t.buffer.name, t.buffer.ndim)
        first, shape = "0", [_extent(body, t.buffer, axis) for axis in range(t.buffer.ndim)]
        for i, extent in zip(t.fixed, shape, strict=False):
            place = memory.widen(body, i)
            first = fn.let(f"add i64 {fn.let(f'mul i64 {first}, {extent}')}, {place}")
            inside = fn.let(f"and i1 {inside}, {fn.let(f'icmp ult i64 {place}, {extent}')}")
        count = "1"
        for extent in shape[len(t.fixed) :]:
            count = fn.let(f"mul i64 {count}, {extent}")
        first = fn.let(f"mul i64 {first}, {fn.let(f'mul i64 {count}, {t.buffer.dtype.nbytes}')}")
        at = fn.let(f"getelementptr i8, ptr {body.pointer(t.buffer.name)}, i64 {first}")
        reached.append((t, at, size, count))
        n = len(reached) - 1
        fn.put(f"store i64 {fn.let(f'sub i64 {size}, {first}')}, ptr {body.at(L.COPIES_SHIFT + n * L.WORD)}")
        nbytes = fn.let(f"mul i64 {count}, {t.buffer.dtype.nbytes}")
        lines = fn.let(f"and i64 {fn.let(f'add i64 {nbytes}, 63')}, -64")
        size = fn.let(f"add i64 {size}, {lines}")
    worth = fn.let(f"mul i64 {total}, {_BYTES_A_SUM * sum(t.sums for t in found)}")
    most = fn.call("i64", "llvm.umin.i64", ("i64", worth), ("i64", str(_MOST)))
    most = fn.let(f"select i1 {inside}, i64 {most}, i64 0")
    base = fn.call("ptr", "qd_copies", ("ptr", "%frame"), ("i64", size), ("i64", most))
    fn.put(f"store ptr {base}, ptr {body.at(L.COPIES_AT)}")
    fn.put(f"store i64 {size}, ptr {body.at(L.COPIES_STRIDE)}")
    return reached


def add(body: CpuBody, reached: list[tuple[Target, str, str, str]], helpers: str) -> None:
    """In the entry, behind the task, in which so many workers but the first took part: adds up their copies."""
    fn = body.fn
    base = body.word(L.COPIES_AT, "ptr")
    none = fn.let(f"icmp eq ptr {base}, null")
    some = fn.let(f"icmp ne i64 {helpers}, 0")
    adding, done = fn.label("copies"), fn.label("added")
    fn.branch(fn.let(f"select i1 {none}, i1 false, i1 {some}"), adding, done)
    fn.start(adding)
    for t, to, place, count in reached:
        source = fn.let(f"getelementptr i8, ptr {base}, i64 {place}")
        fn.call(
            "void", "qd_add_copies", ("ptr", "%frame"), ("i64", str(_KINDS[t.buffer.dtype.name])), ("ptr", to),
            ("ptr", source), ("i64", count), ("i64", helpers),
        )  # fmt: skip
    fn.jump(done)
    fn.start(done)


def worker(body: CpuBody) -> None:
    """At the start of a chunk function: which worker it runs on, and whether that is alone (`qd_parallel`)."""
    fn = body.fn
    body.alone = fn.let("icmp slt i64 %worker, 0")
    body.worker = fn.call("i64", "llvm.smax.i64", ("i64", "%worker"), ("i64", "0"))


def open(body: CpuBody, found: tuple[Target, ...]) -> None:
    """In a chunk function, once buffers are open: where the worker adds to."""
    if not found:
        return
    fn = body.fn
    base = body.word(L.COPIES_AT, "ptr")
    none = fn.let(f"icmp eq ptr {base}, null")
    own = fn.let(f"or i1 {none}, {fn.let(f'icmp eq i64 {body.worker}, 0')}")
    copy = fn.let(f"mul i64 {fn.let(f'sub i64 {body.worker}, 1')}, {body.word(L.COPIES_STRIDE)}")
    plain = fn.let(f"select i1 {none}, i1 {body.alone}, i1 true")
    for n, t in enumerate(found):
        place = fn.let(f"add i64 {copy}, {body.word(L.COPIES_SHIFT + n * L.WORD)}")
        there = fn.let(f"getelementptr i8, ptr {base}, i64 {place}")
        name = t.buffer.name
        to = fn.let(f"select i1 {own}, ptr {body.pointers[name]}, ptr {there}")
        body.copies[name] = plain, to


def _extent(body: CpuBody, buffer: N.Buffer, axis: int) -> str:
    if buffer.shape is not None:
        return str(buffer.shape[axis])
    body._open_extent(buffer.name, axis)
    return body.extent(buffer.name, axis)
