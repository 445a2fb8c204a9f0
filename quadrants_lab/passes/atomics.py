"""Finds atomics on elements that no other iteration accesses: they need not be atomic. `privatize_atomics` marks
them; `plain_atomics` replaces them by a load, an operation and a store before a kernel is differentiated."""

from collections.abc import Iterator
from dataclasses import replace

from quadrants_lab.analysis.effects import aliased_atomic_buffers, places, touched
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import find, map_offloads, rewrite_in, rewritten, rules, types_of, uses, walk


def privatize_atomics(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that an Atomic is marked ``private`` only if two iterations never access the same element: for each of
    the task's indices there is an axis along which every access of the task to that buffer uses just this index. Arrays
    that may share memory (`aliased_atomic_buffers`) have no private atomics. In serial tasks all atomics are private.
    """
    return map_offloads(kernel, lambda task: _task(kernel, task))


def _task(kernel: N.Kernel, task: N.Offload) -> N.Offload:
    own = {p.id for p in task.indices}
    at, atomics = places(task.body), touched(task.body, N.Atomic)
    shared = aliased_atomic_buffers(kernel, atomics)

    def one_iteration_each(buffer: str) -> bool:
        if task.kind == "serial":
            return True
        if buffer in shared:
            return False
        first, *others = at[buffer]
        return own <= {i for axis, i in enumerate(first) if all(index[axis] == i for index in others)}

    private = {b for b in atomics if one_iteration_each(b)}

    def marked(s: N.Atomic) -> N.Stmt:
        return replace(s, private=True) if s.buffer in private and not s.private else s

    return rewrite_in(task, rules({N.Atomic: marked})) if private else task


_SUMS = ("add", "sub")


def plain_atomics(kernel: N.Kernel) -> N.Kernel:
    """Guarantees, for a kernel that will be differentiated, that a private Atomic (`privatize_atomics`) is a sum whose
    old value nothing reads, or a minimum or maximum on a buffer that its task accesses in no other way. Any other
    private atomic becomes a load, an operation and a store, because its result or derivative depends on the order of
    the accesses to its element; this order is known, since a single iteration makes all of them."""
    if not any(b.grad or b.dual for b in kernel.buffers.values()):
        return kernel
    marked = privatize_atomics(kernel)
    chosen = {s.id for task in marked.body for s in _ordered(task)}
    if not chosen:
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))
    made = rewritten(marked, lambda s: b.made(_plain, b, s) if s.id in chosen else s, b)
    loops = (s for s in find(marked.body, N.For) if s.threads)
    ordered = {loop.id for loop in loops if any(s.id in chosen for s in walk(loop.body))}
    return rewritten(made, rules({N.For: lambda s: replace(s, threads=False) if s.id in ordered else s}))


def _ordered(task: N.Stmt) -> Iterator[N.Atomic]:
    """The private atomics of a task whose result or derivative depends on the order of accesses."""
    used, others = uses((task,)), _also_used_otherwise(task)
    for s in find((task,), N.Atomic):
        if s.private:
            free = _SUMS if s.buffer in others else (*_SUMS, *N.MINMAX)
            if s.id in used or s.op not in free:
                yield s


def _also_used_otherwise(task: N.Stmt) -> set[str]:
    """The buffers with an atomic minimum or maximum that the task also accesses in another way."""
    kinds: dict[str, set[str]] = {}
    for s in find((task,), N.Access):
        kinds.setdefault(s.buffer, set()).add(s.atomic or type(s).__name__)
    return {buffer for buffer, found in kinds.items() if len(found) > 1 and found & {*N.MINMAX}}


def _plain(b: Builder, s: N.Atomic) -> None:
    """Emits the load, the operation and the store; the load gets the id of the atomic, which is its old value."""
    b.span = s.span
    b.add(N.Load(s.id, s.type, s.buffer, s.index, name=s.name))
    if s.op == "exchange":
        value = s.value
    elif s.op == "cas":
        value = b.op("select", b.op("eq", s.id, s.expected), s.value, s.id)
    else:
        value = b.op(s.op, s.id, s.value)
    b.add(N.Store(b.fresh(), s.buffer, s.index, value))
