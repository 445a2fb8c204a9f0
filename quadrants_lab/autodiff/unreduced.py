"""The stacks that the reverse would need if nothing were recomputed or narrowed: the "before" of the launch report."""

from dataclasses import dataclass, replace

from quadrants_lab.autodiff.activity import active_values
from quadrants_lab.autodiff.checkpointing import demands, reversed_statements
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.scopes import scopes_of
from quadrants_lab.autodiff.slice import Slicer
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import types_of


@dataclass(slots=True)
class Unreduced:
    """The forward slices, with a stack for each value in a loop that the reverse needs, but without reverse code.
    ``home`` maps each value to the key of its scope."""

    kernel: N.Kernel
    home: dict[int, tuple[int, int]]


def unreduced(forward: N.Kernel) -> Unreduced:
    """The unreduced stacks of an offloaded forward kernel. Loop indices, constants and arguments need none."""
    kernel = prepared(forward)
    active = active_values(kernel)
    with_grad = {b.name for b in kernel.buffers.values() if b.grad}
    b = Builder(kernel.next_id, types_of(kernel.body))
    tasks: list[N.Stmt] = []
    home: dict[int, tuple[int, int]] = {}
    for task in kernel.tasks:
        scopes = scopes_of(task)
        home.update((v, scope.key) for v, scope in scopes.of.items())
        rev = reversed_statements(task.body, active, with_grad)
        needed = dict.fromkeys(d.value for d in demands(task.body, rev, active))
        kept = [v for v in needed if scopes.of[v].loops and not scopes.is_available(v)]
        allocas = [N.AdStackAlloca(b.fresh(), scopes.types[v], name=scopes.names[v], primal=v) for v in kept]
        slicer = Slicer(b, {a.primal: a.id for a in allocas}, {}, {})
        ahead = slicer.block(task.body[:-1], None, N.NO_ID)
        tasks.append(replace(task, body=(*allocas, *ahead, N.Yield(b.fresh(), ()))))
    return Unreduced(replace(kernel, body=tuple(tasks), next_id=b.next_id), home)
