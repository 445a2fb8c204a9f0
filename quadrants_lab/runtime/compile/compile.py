"""Compiles a function's source to loaded machine code: front end, passes, derivative, stack sizes, backend, disk cache.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter

from quadrants_lab.analysis.dependence import may_lose_reads
from quadrants_lab.analysis.races import check_races
from quadrants_lab.backends import Capabilities
from quadrants_lab.errors import WARNED, QuadrantsCompilationError
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import FINGERPRINT, FunctionSource
from quadrants_lab.frontend.specs import Lowered, Spec
from quadrants_lab.frontend.syntax.loops import without_derivatives
from quadrants_lab.frontend.values.context import FieldAccessHook
from quadrants_lab.ir import deep_recursion, nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find
from quadrants_lab.passes import pipeline
from quadrants_lab.pipelines.launch import TASKS, for_host, front, primal
from quadrants_lab.runtime.backend import Backend
from quadrants_lab.runtime.compile import specialisation as C
from quadrants_lab.runtime.session import Session, compile_options

# imported late: a launch that is not differentiated does not need the modules that make gradients
_in_derivative_mode = lazily("runtime.compile.derivatives", "in_mode")
_counting_ir = lazily("runtime.compile.derivatives", "counting_ir")
_decided_alike = lazily("runtime.compile.derivatives", "decided_alike")
_depth_counter = lazily("runtime.compile.derivatives", "depth_counter")
_to_be_second = lazily("runtime.compile.derivatives", "to_be_second")
_check_bounds = lazily("passes.check_bounds", "check_bounds")


Traced = pipeline.Trace | None  # the record of what each pass did; None: do not record


def trace_of(compiled: C.Compiled) -> pipeline.Trace:
    """The trace of the passes of a compiled kernel. If none was recorded, the passes run once more."""
    if compiled.trace is not None:
        return compiled.trace
    if 0 not in compiled.later_traces:
        compiled.later_traces[0] = _trace_again(compiled)
    return compiled.later_traces[0]


def lowering_of(
    compiled: C.Compiled, kernel: N.Kernel, options: CompileOptions, backend: Backend
) -> pipeline.Trace:
    """The trace of the backend's lowering passes on ``compiled.kernel``, or on a kernel that was made from it."""
    traces = compiled.later_traces
    if id(kernel) not in traces:
        # the trace refers to the kernel, so the kernel's id is not used again
        traces[id(kernel)] = lowering_trace(kernel, backend, options)
    return traces[id(kernel)]


@deep_recursion.deeply_recursive
def lowering_trace(kernel: N.Kernel, backend: Backend, options: CompileOptions) -> pipeline.Trace:
    """The trace of the backend's lowering passes on a kernel that all other passes have processed."""
    trace = pipeline.Trace()
    pipeline.run(kernel, backend.lowering(options), options.verify, trace)
    return trace


@deep_recursion.deeply_recursive
def _trace_again(compiled: C.Compiled) -> pipeline.Trace:
    trace = pipeline.Trace()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user got these warnings when the kernel was compiled
        # starts from the lowered kernel, not from the source, since names in the source may have other values now
        tasks = tasks_ir(compiled.lowered.kernel, compiled.options, trace)
        kernel = _in_mode(tasks, compiled.mode, compiled.options, trace)
        if compiled.counter is not None:
            _counting_ir(kernel, tasks, compiled.options, trace)
    return trace


@deep_recursion.deeply_recursive
def forward_ir(kernel: N.Kernel, options: CompileOptions, trace: Traced = None) -> N.Kernel:
    """The front end's kernel, split into tasks and simplified; reverse mode starts from this."""
    deep_recursion.check_depth(deep_recursion.depth_of_block(kernel.body))
    return pipeline.run(kernel, front(options), options.verify, trace)


@deep_recursion.deeply_recursive
def make_ir(kernel: N.Kernel, mode: str, options: CompileOptions, trace: Traced = None) -> N.Kernel:
    """The IR for the backend, made from the front end's. For a gradient, checks that no value which it needs is
    provably overwritten (the data-access rule; an error), and warns about paths of the derivative that end on the way.
    """
    return _in_mode(tasks_ir(kernel, options, trace), mode, options, trace)


@deep_recursion.deeply_recursive
def tasks_ir(kernel: N.Kernel, options: CompileOptions, trace: Traced = None) -> N.Kernel:
    """The front end's kernel, split into tasks without races; every mode starts from this."""
    kernel = forward_ir(kernel, options, trace)
    check_races(kernel)
    return pipeline.run(kernel, TASKS, options.verify, trace)


@deep_recursion.deeply_recursive
def _in_mode(kernel: N.Kernel, mode: str, options: CompileOptions, trace: Traced = None) -> N.Kernel:
    # a launch for second derivatives computes tangents, so it is itself a derivative
    tangents = any(b.dual for b in kernel.buffers.values())
    if mode == C.FORWARD and not tangents and not may_lose_reads(kernel):
        made = pipeline.run(kernel, primal(options), options.verify, trace)
    else:
        made = _in_derivative_mode(kernel, mode, options, trace)
    return pipeline.run(made, for_host(made.buffers), options.verify, trace) if options.on_host else made


def lowered_kernel(
    source: FunctionSource, specs: Sequence[Spec], options: CompileOptions, constant: bool, second: bool,
    telling: FieldAccessHook | None = None,
) -> Lowered:  # fmt: skip
    """The front end's result. ``constant``: nothing that the kernel loads has a derivative; ``second``: the kernel will
    be differentiated twice."""
    lowered = lower(source, specs, options, telling)
    if options.aliases:
        lowered = replace(lowered, kernel=replace(lowered.kernel, aliased=True))
    if constant:
        b = Builder(lowered.kernel.next_id)
        body = without_derivatives(b, lowered.kernel.body, set(lowered.kernel.buffers))
        lowered = replace(lowered, kernel=replace(lowered.kernel, body=body, next_id=b.next_id))
    return _to_be_second(lowered) if second else lowered


def compile_kernel(
    source: FunctionSource, specs: Sequence[Spec], mode: str, session: Session, constant: bool = False,
    second: bool = False, shared: C.SharedStages | None = None,
) -> C.Compiled:  # fmt: skip
    """Compiles one specialisation for the session's device. ``shared``: the results of the first stages, from another
    mode of the same kernel."""
    settings = compile_options(session), constant, second
    watched = C.WATCHED.get()

    def tell(part: str) -> None:
        if watched is not None:
            watched(part and f"{source.name}, {mode}: {part}")

    trace = None if watched is None else pipeline.Trace(tell=tell)
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
        tasks = tasks_ir(lowered.kernel, options, trace)
    if shared is None:
        fingerprint = FINGERPRINT.get()
        snapshot = None if fingerprint is None else fingerprint.snapshot()
        shared = C.SharedStages(settings, lowered, tasks, tuple(WARNED.get() or ()), snapshot)
    kernel = _in_mode(tasks, mode, options, trace)
    if mode in (C.REVERSE, C.BOTH):
        options = _decided_alike(kernel, options)
    counting = _counting_ir(kernel, tasks, options, trace) if mode == C.REVERSE else None
    at.append(perf_counter())
    tell("machine code")
    counter = counting and _depth_counter(counting, options, session)
    key = C.ir_key(kernel, session)
    executable = C.load_cached(kernel, options, session, key)
    at.append(perf_counter())
    tell("")
    returns = tuple(f"ret{k}" for k in range(len(lowered.returns))) if mode != C.REVERSE else ()
    front, passes, code = (b - a for a, b in pairwise(at))
    clock = C.Clock(front, passes, code, whole=at[-1] - at[0])
    C.CLOCKS.append((kernel.name if mode == C.FORWARD else f"{kernel.name} ({mode})", clock))
    return C.Compiled(
        mode, source, tuple(specs), options, lowered, kernel, executable, returns, counter, clock, trace, key,
        shared=shared,
    )  # fmt: skip


@dataclass(slots=True)
class Elsewhere:
    """A kernel as another backend would compile it: ``forward``; its ``gradient``; and ``counting``, the kernel that
    runs before the gradient to count what sizes of stacks depend on. ``why_none``: why there is no gradient."""

    forward: N.Kernel
    options: CompileOptions
    gradient: N.Kernel | None = None
    gradient_options: CompileOptions | None = None
    counting: N.Kernel | None = None
    why_none: str = ""


@deep_recursion.deeply_recursive
def elsewhere(compiled: C.Compiled, able: Capabilities) -> Elsewhere:
    """Compiles the kernel and its gradient for a backend with these capabilities, whatever the session's backend is."""
    settings = replace(
        compiled.options, ad_unroll=able.ad_unroll, suspect_races=able.suspects_races, on_host=able.on_host,
        check_out_of_bound=compiled.options.check_out_of_bound or able.checks_bounds, check_races=False,
    )  # fmt: skip
    options = reproducible(compiled.lowered.kernel, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user got these warnings when the kernel was compiled
        tasks = tasks_ir(compiled.lowered.kernel, options)
        made = Elsewhere(_in_mode(tasks, C.FORWARD, options), options)
        if not any(b.grad for b in compiled.lowered.kernel.buffers.values()):
            made.why_none = "nothing that the kernel uses has a gradient (needs_grad=True)"
            return made
        try:
            gradient = _in_mode(tasks, C.REVERSE, options)
            made.gradient, made.gradient_options = gradient, _decided_alike(gradient, options)
            made.counting = _counting_ir(gradient, tasks, made.gradient_options)
        except QuadrantsCompilationError as e:
            made.gradient, made.why_none = None, str(e)
    return made


def with_checked_bounds(compiled: C.Compiled, session: Session) -> C.Compiled:
    """Compiles the kernel again, with a check of every index that may be out of bounds; the same object if there is no
    such index."""
    kernel = compiled.lowered.kernel
    if compiled.options.check_out_of_bound or _check_bounds(kernel) is kernel:
        return compiled
    options = replace(compiled.options, check_out_of_bound=True)
    made = make_ir(kernel, compiled.mode, options)
    key = C.ir_key(made, session)
    return replace(
        compiled, options=options, kernel=made, executable=C.load_cached(made, options, session, key), key=key,
        clock=C.Clock(), trace=None, later_traces={},
    )  # fmt: skip


def reproducible(kernel: N.Kernel, options: CompileOptions) -> CompileOptions:
    """The compile options for a kernel. If it has a differentiable atomic min or max, `CompileOptions.reproducible` is
    set: the gradient computes the values again to find which element won, so both kernels must round alike."""
    extremes = (kernel.buffers[s.buffer] for s in find(kernel.body, N.Atomic) if s.op in N.MINMAX)
    if any(buffer.grad or buffer.dual for buffer in extremes):
        return replace(options, fast_math=False, reproducible=True)
    return options
