"""`privatize_atomics`: marks atomics on elements that no other iteration touches; they need not be atomic."""

from dataclasses import replace

from quadrants_lab.analysis.alias import aliased_atomic_buffers
from quadrants_lab.analysis.effects import places, touched
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import map_offloads, rewrite_in


def privatize_atomics(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that an Atomic is ``private`` only if two iterations never touch the same element: for each of the
    task's indices there is an axis along which every access of the task to that buffer uses just this index. Arrays
    that may share memory (`aliased_atomic_buffers`) have no private atomics. In serial tasks all atomics are
    private."""
    return map_offloads(kernel, lambda task: _task(kernel, task))


def _task(kernel: N.Kernel, task: N.Offload) -> N.Offload:
    own = {p.id for p in task.indices}
    at, atomics = places(task.body), touched(task.body, N.Atomic)
    shared = aliased_atomic_buffers(kernel, atomics)

    def alone(buffer: str) -> bool:
        if task.kind == "serial":
            return True
        if buffer in shared:
            return False
        first, *others = at[buffer]
        same = {i for axis, i in enumerate(first) if all(index[axis] == i for index in others)}
        return own <= same

    private = {b for b in atomics if alone(b)}

    def one(s: N.Stmt) -> N.Stmt:
        return replace(s, private=True) if isinstance(s, N.Atomic) and s.buffer in private and not s.private else s

    return rewrite_in(task, one) if private else task
