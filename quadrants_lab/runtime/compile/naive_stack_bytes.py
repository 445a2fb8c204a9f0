"""Computes how much stack memory a gradient would take if it stored every value that its reverse slice needs; shown
for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quadrants_lab.adstack.evaluate_sizes import Live, evaluate
from quadrants_lab.adstack.report import START, stack_allocas
from quadrants_lab.adstack.size import determine_ad_stack_size
from quadrants_lab.analysis.algebra import subexpressions
from quadrants_lab.autodiff.checkpointing import demands, reversed_statements
from quadrants_lab.autodiff.derivative_expressions import active_values
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.scopes import scopes_of
from quadrants_lab.autodiff.slice import Slicer
from quadrants_lab.autodiff.unroll import unrolled_loops
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.walk import of_kind, types_of
from quadrants_lab.runtime.compile.compile import forward_ir
from quadrants_lab.runtime.compile.specialisation import Compiled, NaiveStacks


@deeply_recursive
def bytes_before(compiled: Compiled, depths: Sequence[int], live: Live) -> int | None:
    """How many bytes of stacks each iteration in flight would take in a launch with these ``depths`` and the data
    ``live``, without recomputation, packed truth values and narrowed integers. None if the trips of a loop are unknown:
    this happens if nothing in the loop is stored, so its trips were not counted."""
    if compiled.naive is None:
        compiled.naive = _naive(compiled)
    naive = compiled.naive
    allocas = stack_allocas(compiled.kernel)
    known = {naive.home.get(s.primal): depth for s, depth in zip(allocas, depths, strict=True)}
    for key in naive.unrolled:
        # a slot holds values of several trips of an unrolled loop, so its depth is not the number of trips
        known.pop(key, None)
    if compiled.options.ad_stack_size or any(s.reason.startswith(START) for s in allocas):
        known = {}  # depths that the user forced, or that belong to segments of a checkpointed loop, are no trip counts
    total = 0
    for nbytes, size, key in naive.stacks:
        depth = known.get(key)
        if depth is None:
            if any(of_kind(subexpressions(size), S.SizeCounted)):
                return None
            try:
                depth = evaluate(size, live)
            except KeyError:  # the size reads an argument that the depths did not depend on, or one that was freed
                return None
        total += depth * nbytes
    return total


def _naive(compiled: Compiled) -> NaiveStacks:
    forward = forward_ir(compiled.lowered.kernel, compiled.options)
    kernel, home = _unreduced(forward)
    sized = [(s, s.size) for s in stack_allocas(determine_ad_stack_size(kernel))]
    stacks = tuple((s.type.nbytes, size, home[s.primal]) for s, size in sized if size is not None)
    assert len(stacks) == len(sized)
    return NaiveStacks(stacks, home, tuple((loop, 0) for loop in unrolled_loops(forward, compiled.options.ad_unroll)))


def _unreduced(forward: N.Kernel) -> tuple[N.Kernel, dict[int, tuple[int, int]]]:
    """The forward slices of a forward kernel, with a stack for each value in a loop that the reverse needs, but without
    reverse code. Also returns: id of each value -> key of its scope. Loop indices, constants and arguments need no
    stacks."""
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
    return replace(kernel, body=tuple(tasks), next_id=b.next_id), home
