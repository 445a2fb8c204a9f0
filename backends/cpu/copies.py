"""Emits sums at indices read from data without atomics: each worker thread except the first adds to its own zeroed
copy of the array.

If the element that an addition goes to is known only from data (particles to a grid, the adjoint of a gather),
additions by several threads must be atomic. Plain additions are several times cheaper, and are enough if one thread
runs the launch. If several do, the kernel's entry requests copies of the elements that the sums can touch, provided
that the elements are few compared to the sums. The launching thread adds to the elements themselves. At the end the
copies are added to the elements, and zeroed. (Array privatization, as in Tu and Padua 1993, with the choice made at
each launch.)
"""

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.text import Function
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.backends.lower import sums
from quadrants_lab.backends.lower.sums import Target
from quadrants_lab.ir import nodes as N

# dtype -> the code by which runtime/copies.c knows how to add copies up
_KINDS = {"f32": 0, "f64": 1, "i32": 2, "u32": 2, "i64": 3, "u64": 3}
# at most so many bytes of copies for each sum: adding them up and zeroing them then takes as long as one atomic
# addition
_BYTES_A_SUM = 16
_MOST = 1 << 28  # the most bytes of copies

# an array that is summed into, the address of the first element that the sums may touch, its byte offset in a copy, and
# the number of elements
Reached = tuple[Target, str, str, str]


def request(body: CpuBody, task: N.Offload, total: str) -> list[Reached]:
    """Emits, into the kernel's entry and before the task, a request to the runtime for the workers' copies of
    arrays. ``total``: the number of iterations, an i64."""
    fn, shared, found = body.fn, sums.uniform(task), sums.copied(body.kernel, task)
    needed = {i for t in found for i in t.fixed}
    for s in reversed(shared.values()):
        needed.update(s.operands() if s.id in needed else ())
    block = tuple(s for s in shared.values() if s.id in needed)
    body.open(block)
    for s in block:
        body.statement(s)
    inside, size, reached = "true", "0", []
    for t in found:
        body.reach(t.buffer.name, t.buffer.ndim)
        first, shape = "0", [memory.extent(body, t.buffer, axis) for axis in range(t.buffer.ndim)]
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
    most = fn.extreme("umin", worth, str(_MOST))
    most = fn.let(f"select i1 {inside}, i64 {most}, i64 0")
    base = fn.call("ptr", "qd_copies", ("ptr", "%frame"), ("i64", size), ("i64", most))
    fn.put(f"store ptr {base}, ptr {body.at(L.COPIES_AT)}")
    fn.put(f"store i64 {size}, ptr {body.at(L.COPIES_STRIDE)}")
    return reached


def add(body: CpuBody, reached: list[Reached], helpers: str) -> None:
    """Emits, into the kernel's entry and after the task, the addition of the copies to the arrays' elements.
    ``helpers``: how many workers besides the launching thread took part, an i64."""
    fn = body.fn
    base = body.word(L.COPIES_AT, "ptr")
    none = fn.let(f"icmp eq ptr {base}, null")
    some = fn.let(f"icmp ne i64 {helpers}, 0")
    with fn.when(fn.let(f"select i1 {none}, i1 false, i1 {some}"), "copies", "added"):
        for t, to, place, count in reached:
            source = fn.let(f"getelementptr i8, ptr {base}, i64 {place}")
            fn.call(
                "void", "qd_add_copies", ("ptr", "%frame"), ("i64", str(_KINDS[t.buffer.dtype.name])), ("ptr", to),
                ("ptr", source), ("i64", count), ("i64", helpers),
            )  # fmt: skip


def choose(fn: Function, number: int) -> None:
    """Emits the chunk function of task ``number``, which only calls one of two others: the function with plain sums, or
    the function with atomic sums. In a short loop this saves a quarter of the time that a choice at each sum would
    take."""
    none = fn.let(f"icmp eq ptr {fn.word(L.COPIES_AT, 'ptr')}, null")
    together = fn.let("icmp sge i64 %worker, 0")
    fn.branch(fn.let(f"select i1 {none}, i1 {together}, i1 false"), "atomic", "plain")
    for name in ("plain", "atomic"):
        fn.start(name)
        ends = (("i64", "%begin"), ("i64", "%end"), ("i64", "%worker"))
        fn.call("void", f"task{number}_{name}", ("ptr", "%frame"), *ends)
        fn.put("ret void")
    fn.close()


def open(body: CpuBody, names: tuple[str, ...], known: str = "") -> None:
    """Emits code at the start of a chunk function (which runs a range of iterations), after the reads of its
    buffers ``names``: it finds out where this worker adds, and whether by plain additions, for `CpuBody.sums`.
    ``known``: "plain" or "atomic" in one of the two functions that `choose` calls, "serial" if one thread runs the
    whole task, else ""."""
    if known == "atomic":
        body.exclusive = ""
    if known == "serial":
        body.copies |= dict.fromkeys(names, ("true", ""))
        return
    if not names or known == "atomic":
        return
    fn = body.fn
    base = body.word(L.COPIES_AT, "ptr")
    none = fn.let(f"icmp eq ptr {base}, null")
    own = fn.let(f"or i1 {none}, {fn.let(f'icmp eq i64 {body.worker}, 0')}")
    copy = fn.let(f"mul i64 {fn.let(f'sub i64 {body.worker}, 1')}, {body.word(L.COPIES_STRIDE)}")
    plain = fn.let(f"select i1 {none}, i1 {body.exclusive}, i1 true")
    for n, name in enumerate(names):
        place = fn.let(f"add i64 {copy}, {body.word(L.COPIES_SHIFT + n * L.WORD)}")
        there = fn.let(f"getelementptr i8, ptr {base}, i64 {place}")
        to = fn.let(f"select i1 {own}, ptr {body.pointer(name)}, ptr {there}")
        body.copies[name] = "true" if known else plain, to
