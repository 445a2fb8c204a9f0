"""The pass `reverse`: an offloaded forward kernel to the kernel of its gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from quadrants_lab.autodiff.activity import active_values
from quadrants_lab.autodiff.adjoint import AdjointBuilder
from quadrants_lab.autodiff.extremes import extreme_atomics, settle
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.record import Demand, Plan, record
from quadrants_lab.autodiff.scopes import Scopes, scopes_of
from quadrants_lab.autodiff.segments import Segment, home
from quadrants_lab.autodiff.slice import Slicer, export_from_ifs
from quadrants_lab.autodiff.temporaries import temporaries
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import types_of, walk


def reverse(kernel: N.Kernel) -> N.Kernel:
    """The reverse-mode derivative: adds to the gradients of inputs what those of the outputs imply.

    First come the tasks that recompute the launch temporaries which the reverse reads, then the adjoint of each task,
    in opposite order. Each adjoint holds the stacks, the forward slice with its pushes, and, guarded where it has
    stacks, the reverse code. Values keep their ids in the forward slice; reverse code names what it is the adjoint of.
    """
    if not has_gradients(kernel):
        raise QuadrantsRuntimeError(
            f"kernel {kernel.name} reads and writes nothing that has a gradient",
            code="QL0400",
            help="make the fields to differentiate with needs_grad=True",
        )
    made = _adjoints(kernel)
    tasks = tuple(t for t, _ in made.tasks)
    prologue = temporaries(made.kernel, tasks, made.b)
    return replace(made.kernel, body=(*prologue, *tasks), next_id=made.b.next_id, mode="reverse")


def forward_slices(kernel: N.Kernel) -> N.Kernel:
    """For the counting slice of a kernel with checkpointed loops: the tasks of `reverse` without reverse code. All that
    is pushed is pushed on the way forwards, on stacks of the same ids; an empty AdStackGuard stands behind each run of
    a segment."""
    made = _adjoints(kernel)
    tasks = tuple(count() for _, count in made.tasks if count is not None)
    prologue = temporaries(made.kernel, tasks, made.b)
    return replace(made.kernel, body=(*prologue, *tasks), next_id=made.b.next_id, mode="count")


@dataclass(slots=True)
class _Adjoints:
    """``kernel``: the prepared one; ``tasks``: those of the reverse, and what makes the slice of each that counts."""

    kernel: N.Kernel
    b: Builder
    tasks: list[tuple[N.Offload, Callable[[], N.Offload] | None]]


def _adjoints(kernel: N.Kernel) -> _Adjoints:
    kernel = prepared(kernel)
    with_grad = {b.name for b in kernel.buffers.values() if b.grad}
    active = active_values(kernel)
    made = _Adjoints(kernel, Builder(kernel.next_id, types_of(kernel.body)), [])
    for task in reversed(kernel.body):
        assert isinstance(task, N.Offload)
        adjoint = _reverse_task(made.b, kernel, task, active)
        if adjoint is not None:
            made.tasks.append(adjoint)
            extremes = extreme_atomics(task, with_grad)
            if extremes:
                adjoints = {name: buffer.grad for name, buffer in kernel.buffers.items()}
                made.tasks.append((settle(made.b, task, kernel.buffers, extremes, adjoints), None))
    return made


def has_gradients(kernel: N.Kernel) -> bool:
    """Whether the kernel touches memory that has a gradient."""
    return any(b.grad and b.kind != "temp" for b in kernel.buffers.values())


def written_buffers(kernel: N.Kernel) -> set[str]:
    return {s.buffer for s in walk(kernel.body) if isinstance(s, (N.Store, N.Atomic))}


def plan_task(kernel: N.Kernel, task: N.Offload, active: set[int]) -> tuple[Scopes, Plan]:
    """What is kept and what is recomputed for one task of a prepared kernel; the panes ask this too."""
    scopes = scopes_of(task)
    with_grad = {b.name for b in kernel.buffers.values() if b.grad}
    read_only = set(kernel.buffers) - written_buffers(kernel)
    return scopes, record(task, scopes, active, with_grad, read_only)


def _reverse_task(
    b: Builder, kernel: N.Kernel, task: N.Offload, active: set[int]
) -> tuple[N.Offload, Callable[[], N.Offload]] | None:
    scopes, plan = plan_task(kernel, task, active)
    if not plan.reversed:
        return None
    allocas = [_alloca(b, scopes, v, plan.demand[v]) for v in plan.stash]
    stacks = {a.primal: a.id for a in allocas}
    homes = {v: home(scopes.of[v], plan.segments) for v in plan.stash}
    starts = {s.loop.id: [(v, _start(b, scopes, s, v)) for v in s.starts] for s in plan.segments.values()}
    ids = {loop: [(v, a.id) for v, a in kept] for loop, kept in starts.items()}
    slicer = Slicer(b, stacks, ids, homes)
    allocas += [a for kept in starts.values() for _, a in kept]
    ahead = slicer.block(task.body[:-1], None, N.NO_ID)
    ahead, env = export_from_ifs(ahead, plan.export, scopes, b)
    builder = AdjointBuilder(b, scopes, plan, active, kernel.buffers, slicer, env)
    code = builder.task(task)
    if allocas:
        end = N.Yield(b.fresh(), ())
        code = (N.AdStackGuard(b.fresh(), (*code, end), span=task.span),)
    body = (*allocas, *ahead, *code, N.Yield(b.fresh(), (), span=task.span))

    def counting() -> N.Offload:
        ahead = Slicer(b, stacks, ids, homes, counts=True).block(task.body[:-1], None, N.NO_ID)
        return replace(task, body=(*allocas, *ahead, N.Yield(b.fresh(), ())), adjoint_of=task.id)

    return replace(task, id=b.fresh(), bounds=task.bounds, body=body, adjoint_of=task.id), counting


def _start(b: Builder, scopes: Scopes, s: Segment, v: int) -> N.AdStackAlloca:
    line = f" at line {s.loop.span.line}" if s.loop.span else ""
    reason = f"start of each segment of the checkpointed loop{line}"
    return N.AdStackAlloca(
        b.fresh(), scopes.types[v], name=scopes.names[v], primal=v, reason=reason, span=s.loop.span
    )


def _alloca(b: Builder, scopes: Scopes, v: int, demand: Demand) -> N.AdStackAlloca:
    stmt = scopes.defs[v]
    line = f" at line {demand.by.span.line}" if demand.by.span else ""
    return N.AdStackAlloca(
        b.fresh(), scopes.types[v], name=scopes.names[v], primal=v, reason=demand.why + line, span=stmt.span
    )
