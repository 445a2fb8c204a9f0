"""The pass `reverse` makes the gradient of an offloaded forward kernel."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.boxes import size_types
from quadrants_lab.analysis.dependence import other_iterations
from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff.adjoint import AdjointBuilder
from quadrants_lab.autodiff.checkpointing import StashPlan, stash_plan
from quadrants_lab.autodiff.derivative_expressions import active_values
from quadrants_lab.autodiff.diagnostics import refusal, warn, warning
from quadrants_lab.autodiff.keeps import (
    NOTHING,
    Keeps,
    copied,
    restored_temporaries,
    set_changed,
    without_checkpoints,
)
from quadrants_lab.autodiff.minmax_atomics import MinmaxAtomics, minmax_atomics, winners_of
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.scopes import Scopes, scopes_of
from quadrants_lab.autodiff.slice import Slicer, again, export_from_ifs
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import computed_from
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import find, reached, rename, rewrite, rewrite_in, types_of


def reverse(kernel: N.Kernel, keeps: Keeps = NOTHING) -> N.Kernel:
    """The reverse-mode derivative: it takes the gradients of the outputs and adds to the gradients of the inputs.

    First come the tasks that recompute the launch temporaries which the reverse reads, then the adjoint of each task,
    in reverse order. An adjoint holds the stacks, the forward slice with its pushes, and the reverse code, in front of
    which an AdStackGuard checks the capacity of the stacks. Values keep their ids in the forward slice; a statement of
    the reverse code names the statement that it is the adjoint of. ``keeps`` says which overwritten values the forward
    kernel kept: tasks between the adjoints copy these values back to the buffers step by step, and the last tasks give
    the buffers the values again that they had after the forward launch.
    """
    if not has_gradients(kernel):
        nothing = warning(
            "QL0400",
            f"the gradient of kernel {kernel.name} does nothing: it reads and writes nothing that has a gradient",
            (),
            "make the fields to differentiate with needs_grad=True",
            kernel.span,
        )
        warn([nothing])
        return replace(kernel, body=(), mode="reverse")
    made = _adjoints(kernel, keeps)
    return _assembled(made, keeps, [(number, made_by) for number, made_by, _ in made.tasks], "reverse")


def value_and_gradient(kernel: N.Kernel) -> N.Kernel:
    """The forward kernel and its reverse-mode derivative as one kernel: the forward tasks, then the tasks of
    `reverse`. The first task of `reverse` also does the work of the last forward task: each iteration goes on to its
    reverse code at once. Only for kernels whose gradient does not depend on results of other iterations
    (`runtime.compile.derivatives`)."""
    last = len(kernel.tasks) - 1
    made = _adjoints(kernel, NOTHING, whole=last)
    merged = any(number == last for number, _, _ in made.tasks)
    first = made.kernel.body[: last if merged else last + 1]
    body = (*rename(first, made.b.fresh, {}), *(task for _, task, _ in made.tasks))
    return replace(made.kernel, body=body, next_id=made.b.next_id, mode="both")


def forward_slices(kernel: N.Kernel, keeps: Keeps = NOTHING) -> N.Kernel:
    """The tasks of `reverse` without reverse code, for counting the pushes of a kernel with checkpointed loops. All
    pushes are in the forward slices, to stacks with the same ids, and an empty AdStackGuard stands after each run of a
    segment."""
    made = _adjoints(kernel, keeps)
    return _assembled(made, keeps, [(number, count()) for number, _, count in made.tasks if count is not None], "count")


_Task = tuple[int, N.Offload, Callable[[], N.Offload] | None]


@dataclass(slots=True)
class _Adjoints:
    """The prepared kernel, and the adjoints of its tasks. Each entry has the number of a forward task, the adjoint of
    that task, and a function that makes the adjoint's counting slice (the forward slice as `counting` reads it), or
    None."""

    kernel: N.Kernel
    b: Builder
    tasks: list[_Task]


def _adjoints(kernel: N.Kernel, keeps: Keeps, whole: int = -1) -> _Adjoints:
    """The adjoints of all tasks. ``whole`` is the number of the task whose adjoint also does the work of the task. The
    memory that blocks share is lost after a launch, so adjoints repeat the writes to it."""
    blocks = frozenset(b.name for b in kernel.buffers.values() if b.role == "block")
    again = [keeps.repeats(n) or blocks & touched((t,), N.Write) for n, t in enumerate(kernel.body)]
    unsegmented = tuple(without_checkpoints(t) if r else t for t, r in zip(kernel.tasks, again, strict=True))
    kernel = prepared(replace(kernel, body=unsegmented))
    with_grad = {b.name for b in kernel.buffers.values() if b.grad}
    active, written = active_values(kernel), touched(kernel.body, N.Write)
    b = Builder(kernel.next_id, types_of(kernel.body))
    tasks: list[_Task] = []
    forward = kernel.tasks
    minmax = {n: found for n, t in enumerate(forward) if (found := minmax_atomics(t, with_grad))}
    info = Accesses(kernel) if minmax else None
    colliding = colliding_stores(kernel)
    for number, task in reversed(list(enumerate(forward))):
        repeated = keeps.repeats(number) | blocks
        winners = winners_of(info, number, minmax[number]) if info is not None and number in minmax else {}
        buffers = {**kernel.buffers, **{w.counts.name: w.counts for w in winners.values()}}
        around = MinmaxAtomics(b, buffers, kernel.args, winners, repeated)
        adjoint = _reverse_task(b, kernel, task, active, written, around, colliding, number == whole)
        if adjoint is None:
            continue
        if not winners:
            tasks.append((number, *adjoint))
            continue
        kernel = replace(kernel, buffers=buffers)
        counted = around.counted(task, minmax[number])
        settled = around.settled({name: buffer.grad for name, buffer in buffers.items()})
        tasks += ((number, t, None) for t in (*around.cleared(), counted))
        tasks.append((number, *adjoint))
        tasks += ((number, t, None) for t in settled)
    return _Adjoints(kernel, b, tasks)


def _assembled(made: _Adjoints, keeps: Keeps, tasks: list[tuple[int, N.Offload]], mode: str) -> N.Kernel:
    """The kernel made of ``tasks``, the adjoints in reverse order of the forward tasks, and of tasks in between that
    copy overwritten values back to their buffers."""
    b, kernel = made.b, made.kernel
    buffers = {**kernel.buffers, **keeps.scratch(kernel.buffers, gradient=True)}
    sizes = size_types(kernel.args, buffers)
    body: list[N.Stmt] = [copied(b, s, sizes, buffers, s.buffer, s.final) for s in keeps.saved]
    if keeps.saved:
        body.append(set_changed(b, buffers, 1))
    needed = tuple(task for _, task in tasks)
    body += temporaries(kernel, needed, b, keeps)
    for number in reversed(range(len(kernel.body))):
        for n, task in tasks:
            if n == number:
                body += [copied(b, s, sizes, buffers, s.slot, s.buffer) for s in keeps.put_before(number)]
                body.append(task)
        if any(n < number for n, _ in tasks):
            body += [copied(b, s, sizes, buffers, s.slot, s.buffer) for s in keeps.put_after(number)]
    body += [copied(b, s, sizes, buffers, s.final, s.buffer) for s in keeps.saved]
    if keeps.saved:
        body.append(set_changed(b, buffers, 0))
    return replace(kernel, buffers=buffers, body=tuple(body), next_id=b.next_id, mode=mode)


def has_gradients(kernel: N.Kernel) -> bool:
    """Whether the kernel touches memory that has a gradient."""
    return any(b.grad and not b.transient for b in kernel.buffers.values())


def plan_task(kernel: N.Kernel, task: N.Offload, active: set[int], written: set[str]) -> tuple[Scopes, StashPlan]:
    """Decides what one task of a prepared kernel stashes and what it recomputes. ``written``: the buffers that the
    kernel writes."""
    scopes = scopes_of(task)
    with_grad = {b.name for b in kernel.buffers.values() if b.grad}
    return scopes, stash_plan(task, scopes, active, with_grad, set(kernel.buffers) - written)


def plans(forward: N.Kernel) -> Iterator[tuple[N.Offload, Scopes, StashPlan, set[int]]]:
    """For each task of an offloaded forward kernel: the prepared task, its scopes, its plan, and the active values."""
    kernel = prepared(forward)
    active, written = active_values(kernel), touched(kernel.body, N.Write)
    for task in kernel.tasks:
        yield task, *plan_task(kernel, task, active, written), active


def _reverse_task(
    b: Builder, kernel: N.Kernel, task: N.Offload, active: set[int], written: set[str], minmax: MinmaxAtomics,
    colliding: frozenset[int], whole: bool,
) -> tuple[N.Offload, Callable[[], N.Offload]] | None:
    scopes, plan = plan_task(kernel, task, active, written)
    if not plan.reversed:
        return None
    _check_constants(kernel, task, plan)
    demand = plan.demand
    allocas = [_alloca(b, scopes, v, demand[v].why, demand[v].by, scopes.defs[v].span) for v in plan.stash]
    stacks = {a.primal: a.id for a in allocas}
    homes = {v: next((o for o in scopes.of[v].owners() if o in plan.segments), N.NO_ID) for v in plan.stash}
    why = "start of each segment of the checkpointed loop"
    loops = [(s, s.loop) for s in plan.segments.values()]
    starts = {loop.id: [(v, _alloca(b, scopes, v, why, loop, loop.span)) for v in s.starts] for s, loop in loops}
    ids = {loop: [(v, a.id) for v, a in kept] for loop, kept in starts.items()}
    slicer = Slicer(b, stacks, ids, homes, repeated=minmax.repeated)
    first = replace(slicer, repeated=frozenset(), whole=True) if whole else slicer
    allocas += [a for kept in starts.values() for _, a in kept]
    ahead = first.block(task.body[:-1], None, N.NO_ID)
    ahead, env = export_from_ifs(ahead, plan.export, scopes, b)
    builder = AdjointBuilder(b, scopes, plan, active, kernel.buffers, slicer, env, minmax, colliding)
    code = builder.task(task)
    if allocas:
        end = N.Yield(b.fresh(), ())
        code = (N.AdStackGuard(b.fresh(), (*code, end), span=task.span),)
    body = (*allocas, *ahead, *code, N.Yield(b.fresh(), (), span=task.span))

    def counting() -> N.Offload:
        ahead = replace(slicer, counts=True).block(task.body[:-1], None, N.NO_ID)
        return replace(task, body=(*allocas, *ahead, N.Yield(b.fresh(), ())), adjoint_of=task.id)

    return replace(task, id=b.fresh(), bounds=task.bounds, body=body, adjoint_of=task.id), counting


def _check_constants(kernel: N.Kernel, task: N.Offload, plan: StashPlan) -> None:
    """Raises QL0419 if the reverse needs an element of a gradient that the task read and that the reverse changes."""
    grads = {b.grad: b for b in kernel.buffers.values() if b.grad and b.kind != "temp"}
    loads = {s.id: s for s in find(task.body, N.Load) if s.buffer in grads}
    if not loads:
        return
    sources = computed_from(task.body)
    found = reached((d.value for d in plan.needed), lambda v: sources.get(v, ()))
    used = touched(kernel.body)
    for load in (s for n, s in loads.items() if n in found and grads[s.buffer].name in used):
        raise refusal("QL0419", load.span, name=load.buffer)


def _alloca(b: Builder, scopes: Scopes, v: int, why: str, by: N.Stmt, span: Span | None) -> N.AdStackAlloca:
    """The AdStackAlloca for the value ``v``. ``by`` is the statement whose adjoint needs the value, and ``why``
    says in words what the adjoint needs it for."""
    reason = why + (f" at line {by.span.line}" if by.span else "")
    return N.AdStackAlloca(b.fresh(), scopes.types[v], name=scopes.names[v], primal=v, reason=reason, span=span)


def temporaries(kernel: N.Kernel, adjoints: N.Block, b: Builder, keeps: Keeps = NOTHING) -> N.Block:
    """Copies of the forward tasks that write the temporaries which ``adjoints`` read, directly or through other
    temporaries. The copies come in forward order, under new ids and without other effects; before them comes the task
    that copies temporaries back from scratch memory, where the forward launch kept them. Every statement names the
    forward statement that it repeats."""
    temps = {b.name for b in kernel.buffers.values() if b.kind == "temp"} - set(keeps.temporaries)
    all_read = touched(adjoints, N.Load)
    needed = all_read & temps
    out: list[N.Offload] = []
    blocks = {b.name for b in kernel.buffers.values() if b.role == "block"}
    for task in reversed(kernel.tasks):
        if not any(s.buffer in needed for s in find((task,), N.Write)):
            continue
        kept = needed | blocks  # the buffers to which the copied tasks still write
        writing = rewrite_in(task, lambda s: s if again(s, kept) is s else ())
        all_read |= touched((writing,), N.Load)
        needed |= touched((writing,), N.Load) & temps
        out.append(writing)
    buffers = {**kernel.buffers, **keeps.scratch(kernel.buffers, gradient=True)}
    restored = restored_temporaries(b, keeps, buffers, all_read)
    repeated = rewrite(tuple(reversed(out)), lambda s: replace(s, adjoint_of=s.id))
    return (*restored, *rename(repeated, b.fresh, {}))


_MOST_PAIRS = 400  # the most pairs of stores that are compared; if there are more, all stores count as colliding


def colliding_stores(kernel: N.Kernel) -> frozenset[int]:
    """Ids of the stores to buffers with a gradient whose element another iteration of the task may store to, too.
    Such stores are no race if all of them store the same value. The element then holds the value of one store, so only
    one iteration may take the adjoint of the element. The iteration that comes first takes it by an atomic exchange,
    which leaves 0 for the others."""
    found: set[int] = set()
    info = accesses_of(kernel)
    groups: dict[tuple[int, str], list[Access]] = {}
    for a in info.of.values():
        parallel = a.in_body and a.task.kind != "serial"
        if parallel and a.stmt.stores and kernel.buffers[a.stmt.buffer].grad:
            groups.setdefault((a.number, a.stmt.buffer), []).append(a)
    for stores in groups.values():
        for n, a in enumerate(stores):
            for b in stores[n:]:
                if len(stores) ** 2 > _MOST_PAIRS or other_iterations(info, a, b):
                    found |= {a.stmt.id, b.stmt.id}
    return frozenset(found)
