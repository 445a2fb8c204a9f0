"""From a function's source to loaded machine code: front end, passes, derivative, sizes, backend, disk cache."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import quadrants_lab.pipelines as pipelines
from quadrants_lab.adstack.counting import DEPTH, counting_kernel
from quadrants_lab.adstack.size import counted_stacks, pushed_in_reverse
from quadrants_lab.adstack.sparse_iterations import (
    ACTIVE_COUNT,
    SparseIterations,
    is_cheap,
    sparse_iterations,
)
from quadrants_lab.analysis.races import check_races
from quadrants_lab.autodiff.access import check_data_access
from quadrants_lab.autodiff.dead_paths import dead_paths
from quadrants_lab.autodiff.forward import check_replays
from quadrants_lab.autodiff.keeps import NOTHING, Keeps
from quadrants_lab.autodiff.minmax_atomics import MINMAX
from quadrants_lab.autodiff.reverse import forward_slices
from quadrants_lab.autodiff.second import (
    TANGENT,
    check_second,
    is_second,
    to_be_differentiated,
    with_tangents,
)
from quadrants_lab.autodiff.warned import warn
from quadrants_lab.errors import WARNED, QuadrantsCompilationError
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import FINGERPRINT, FunctionSource
from quadrants_lab.frontend.specs import Lowered, Spec
from quadrants_lab.frontend.syntax.stop_grad import without_derivatives
from quadrants_lab.frontend.values.context import FieldAccessHook
from quadrants_lab.ir import deep_recursion
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes import pipeline
from quadrants_lab.passes.check_bounds import check_bounds
from quadrants_lab.passes.over_cells import counts_cells
from quadrants_lab.runtime.compile.compiled import (
    BOTH,
    DUAL,
    FORWARD,
    REVERSE,
    Clock,
    Compiled,
    Counter,
    SharedStages,
    ir_key,
    load_cached,
)
from quadrants_lab.runtime.compile.one_sweep import may_be_one_sweep, must_be_sized_ahead
from quadrants_lab.runtime.session import Session, compile_options

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable
    from quadrants_lab.runtime.backend import Backend


def trace_of(compiled: Compiled) -> pipeline.Trace:
    """The trace of the passes; where none was recorded, the passes run again, once."""
    if compiled.trace is not None:
        return compiled.trace
    if 0 not in compiled.later_traces:
        compiled.later_traces[0] = _trace_again(compiled)
    return compiled.later_traces[0]


def lowering_of(compiled: Compiled, kernel: N.Kernel, backend: Backend) -> pipeline.Trace:
    """The trace of the backend's lowering of ``compiled.kernel``, or of a kernel that was derived from it."""
    traces = compiled.later_traces
    if id(kernel) not in traces:
        traces[id(kernel)] = lowering_trace(kernel, backend, compiled.options)  # keeps the kernel, and so its id
    return traces[id(kernel)]


@deep_recursion.deeply_recursive
def lowering_trace(kernel: N.Kernel, backend: Backend, options: CompileOptions) -> pipeline.Trace:
    """The trace of the backend's lowering of a kernel that has been through all other passes."""
    with _recorded() as trace:
        pipeline.run(kernel, backend.lowering(options), options.verify)
    return trace


@deep_recursion.deeply_recursive
def _trace_again(compiled: Compiled) -> pipeline.Trace:
    with warnings.catch_warnings(), _recorded() as trace:
        warnings.simplefilter("ignore")  # they were given when the kernel was compiled
        made = compiled.lowered.kernel  # not the source: its names may mean other values by now
        kernel = make_ir(made, compiled.mode, compiled.options)
        if compiled.counter is not None:
            counting_ir(kernel, tasks_ir(made, compiled.options), compiled.options)
    return trace


@contextmanager
def _recorded() -> Iterator[pipeline.Trace]:
    """A trace of the passes that run within the with."""
    trace = pipeline.Trace()
    token = pipeline.RECORDER.set(trace)
    try:
        yield trace
    finally:
        pipeline.RECORDER.reset(token)


@deep_recursion.deeply_recursive
def forward_ir(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """The front end's kernel as tasks, simplified; reverse mode starts from this."""
    deep_recursion.check_depth(deep_recursion.depth_of_block(kernel.body))
    return pipeline.run(kernel, pipelines.front(options), options.verify)


@deep_recursion.deeply_recursive
def make_ir(kernel: N.Kernel, mode: str, options: CompileOptions) -> N.Kernel:
    """The IR for the backend, from the front end's. For a gradient it checks the data-access rule (an error where a
    value is provably overwritten) and warns about derivative paths that end on the way."""
    return _in_mode(tasks_ir(kernel, options), mode, options)


@deep_recursion.deeply_recursive
def tasks_ir(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """The front end's kernel as tasks without races, from which every mode starts."""
    kernel = forward_ir(kernel, options)
    check_races(kernel)
    return pipeline.run(kernel, pipelines.TASKS, options.verify)


@deep_recursion.deeply_recursive
def _in_mode(kernel: N.Kernel, mode: str, options: CompileOptions) -> N.Kernel:
    dead = dead_paths(kernel, "dual" if mode == DUAL else "grad") if mode != FORWARD else []
    kernel = tangents_ir(kernel, options)
    if mode == DUAL:
        made = pipeline.run(kernel, pipelines.TANGENT, options.verify)
        check_replays(kernel, made)
    elif mode == FORWARD:
        made = pipeline.run(kernel, pipelines.primal(options, _kept_for_gradient(kernel)), options.verify)
    else:
        keeps = pipelines.kept_by(kernel)
        if mode == BOTH:
            may_be_one_sweep(kernel, keeps)
        kernel = pipeline.run(kernel, pipelines.before_reverse(options), options.verify)
        if mode == BOTH:
            made = pipeline.run(kernel, pipelines.BOTH, options.verify)
            must_be_sized_ahead(kernel, made)
            _check_by_draft(kernel, options)
        else:
            made = pipeline.run(kernel, pipelines.gradient(keeps), options.verify)
            check_data_access(kernel, made, keeps)
    warn(dead)
    nested = options.on_host and any(b.role == "block" or counts_cells(b) for b in made.buffers.values())
    return pipeline.run(made, pipelines.ON_HOST, options.verify) if nested else made


def _kept_for_gradient(kernel: N.Kernel) -> Keeps:
    """What a launch saves: nothing where the kernel has no gradient, which is an error only of who asks for one."""
    try:
        return pipelines.kept_by(kernel)
    except QuadrantsCompilationError:
        return NOTHING


def _check_by_draft(kernel: N.Kernel, options: CompileOptions) -> None:
    """Checks the data-access rule for a gradient that keeps nothing: on a draft of it, which is cheap, and only where
    that fails on the gradient itself, in which later passes may have removed the access."""
    try:
        check_data_access(kernel, pipelines.draft(kernel))
    except QuadrantsCompilationError:
        check_data_access(kernel, pipeline.run(kernel, pipelines.gradient(), options.verify))


def tangents_ir(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """For a kernel that is to be differentiated twice its first derivative, of which reverse mode takes the gradient;
    any other kernel unchanged."""
    if not is_second(kernel):
        return kernel
    check_second(kernel)
    dual = pipeline.run(kernel, pipelines.FIRST, options.verify)
    check_replays(kernel, dual)
    return pipeline.run(dual, (to_be_differentiated,), options.verify)


@deep_recursion.deeply_recursive
def counting_ir(kernel: N.Kernel, tasks: N.Kernel, options: CompileOptions) -> N.Kernel | None:
    """The counting slice of a sized reverse kernel; None where it needs none. ``tasks``: the result of `tasks_ir`."""
    segmented = {stack for task in kernel.body for stack in pushed_in_reverse(task)}
    slices = None
    if segmented & counted_stacks(kernel):
        whole = tangents_ir(tasks, options)
        keeps = pipelines.kept_by(whole)
        slices = forward_slices(pipeline.run(whole, pipelines.before_reverse(options)), keeps)
    counting = counting_kernel(kernel, slices)
    if counting is None:
        return None
    passes = pipelines.COUNTING if slices is None else pipelines.COUNTING_SLICES
    return pipeline.run(counting, passes, options.verify)


def lowered_kernel(
    source: FunctionSource, specs: Sequence[Spec], options: CompileOptions, constant: bool, second: bool,
    telling: FieldAccessHook | None = None,
) -> Lowered:  # fmt: skip
    """The front end's result. ``constant``: nothing that the kernel loads has a derivative; ``second``: it is to be
    differentiated twice."""
    lowered = lower(source, specs, options, telling)
    if options.aliases:
        lowered = replace(lowered, kernel=replace(lowered.kernel, aliased=True))
    if constant:
        b = Builder(lowered.kernel.next_id)
        body = without_derivatives(b, lowered.kernel.body, set(lowered.kernel.buffers))
        lowered = replace(lowered, kernel=replace(lowered.kernel, body=body, next_id=b.next_id))
    if second:
        bindings = dict(lowered.bindings)
        for name, buffer in lowered.kernel.buffers.items():
            if buffer.grad and name in bindings:
                x = bindings[name]
                bindings |= {f"{name}.{TANGENT}": x.tangent(), f"{buffer.grad}.{TANGENT}": x.grad.tangent()}
        lowered = replace(lowered, kernel=with_tangents(lowered.kernel, adjoints=True), bindings=bindings)
    return lowered


def compile_kernel(
    source: FunctionSource, specs: Sequence[Spec], mode: str, session: Session, constant: bool = False,
    second: bool = False, shared: SharedStages | None = None,
) -> Compiled:  # fmt: skip
    """Compiles one specialisation for the session's device. ``shared``: the first stages, from another mode of the same
    kernel."""
    settings = compile_options(session), constant, second
    with pipeline.recorded_apart(f"{source.name}, {mode}") as trace:
        at = [perf_counter()]
        if shared is None:
            observe = session.observing_fields
            lowered = deep_recursion.run_deep(lambda: lowered_kernel(source, specs, *settings, observe), session.lock)
        else:
            lowered = shared.lowered
        options = reproducible(lowered.kernel, settings[0])
        at.append(perf_counter())
        tasks = shared.tasks if shared is not None else None
        if tasks is None:
            tasks = tasks_ir(lowered.kernel, options)
        if shared is None:
            fingerprint = FINGERPRINT.get()
            snapshot = None if fingerprint is None else fingerprint.snapshot()
            shared = SharedStages(settings, lowered, tasks, tuple(WARNED.get() or ()), snapshot)
        kernel = _in_mode(tasks, mode, options)
        counting = counting_ir(kernel, tasks, options) if mode == REVERSE else None
        at.append(perf_counter())
        with pipeline.unrecorded("machine code"):
            counter = None if counting is None else _counter(counting, DEPTH, options, session)
            key = ir_key(kernel, session)
            executable = load_cached(kernel, options, session, key)
        at.append(perf_counter())
    returns = tuple(f"ret{k}" for k in range(len(lowered.returns))) if mode != REVERSE else ()
    front, passes, code = (b - a for a, b in pairwise(at))
    clock = Clock(front, passes, code, whole=at[-1] - at[0])
    return Compiled(
        mode, source, tuple(specs), options, lowered, kernel, executable, returns, counter, clock, trace, key,
        shared=shared,
    )  # fmt: skip


def with_checked_bounds(compiled: Compiled, session: Session) -> Compiled:
    """The kernel with a check of every index that may be out of bounds; itself where there is no such index."""
    kernel = compiled.lowered.kernel
    if compiled.options.check_out_of_bound or check_bounds(kernel) is kernel:
        return compiled
    options = replace(compiled.options, check_out_of_bound=True)
    made = make_ir(kernel, compiled.mode, options)
    key = ir_key(made, session)
    return replace(
        compiled, options=options, kernel=made, executable=load_cached(made, options, session, key), key=key,
        clock=Clock(), trace=None, later_traces={},
    )  # fmt: skip


def reproducible(kernel: N.Kernel, options: CompileOptions) -> CompileOptions:
    """The options, without fast_math where the kernel has a differentiable atomic min or max: the gradient finds the
    element that won by computing its value again, so both kernels must round alike."""
    if options.fast_math and any(
        isinstance(s, N.Atomic)
        and s.op in MINMAX
        and (kernel.buffers[s.buffer].grad or kernel.buffers[s.buffer].dual)
        for s in walk(kernel.body)
    ):
        return replace(options, fast_math=False)
    return options


@deep_recursion.deeply_recursive
def compile_sparse(compiled: Compiled, session: Session) -> tuple[SparseIterations, Counter, Executable] | None:
    """For a gradient kernel in which conditions may keep iterations from pushing to stacks: the kernel that lists the
    iterations that push, and the one that runs these apart. None without such conditions, or where one takes a loop."""
    found = sparse_iterations(compiled.kernel)
    if found is None:
        return None
    made = [
        pipeline.run(kernel, pipelines.SPARSE, compiled.options.verify) for kernel in (found.lists, found.split)
    ]
    found = replace(found, lists=made[0], split=made[1])
    if not is_cheap(found.lists):
        return None
    counter = _counter(found.lists, ACTIVE_COUNT, compiled.options, session)
    return found, counter, load_cached(found.split, compiled.options, session)


def _counter(kernel: N.Kernel, prefix: str, options: CompileOptions, session: Session) -> Counter:
    counted = [b.name for b in kernel.buffers.values() if b.kind == "ret" and b.name.startswith(prefix)]
    results = {int(name.removeprefix(prefix)): name for name in counted}
    key = ir_key(kernel, session)
    return Counter(kernel, load_cached(kernel, options, session, key), results, key)
