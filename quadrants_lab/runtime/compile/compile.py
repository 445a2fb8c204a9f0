"""From a function's source to loaded machine code: front end, passes, derivative, sizes, backend, disk cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

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
from quadrants_lab.backends import disk_cache
from quadrants_lab.errors import QuadrantsCompilationError
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, Spec
from quadrants_lab.frontend.syntax.stop_grad import without_derivatives
from quadrants_lab.frontend.values.context import Telling
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir import room
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes import pipeline
from quadrants_lab.passes.check_bounds import check_bounds
from quadrants_lab.passes.over_cells import counts_cells
from quadrants_lab.runtime.compile.interruptible import interruptible
from quadrants_lab.runtime.compile.one_sweep import may_be_one_sweep, must_be_sized_ahead
from quadrants_lab.runtime.session import Session, compile_options

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable
    from quadrants_lab.runtime.backend import Backend

LARGE = 1000  # statements of a kernel whose machine code takes a second or more
FORWARD, REVERSE, DUAL = "forward", "reverse", "dual"  # dual: values and their tangents
BOTH = "both"  # a launch and its gradient in one sweep


@dataclass(slots=True)
class Counter:
    """A kernel that counts, loaded; ``results``: number of what is counted -> the "ret" buffer that gets the count. Of
    the counting slice these are stack ids and depths."""

    kernel: N.Kernel
    executable: Executable
    results: dict[int, str]


@dataclass(slots=True)
class Clock:
    """Seconds on the way to a specialisation's first launch, all by one clock: the front end, the passes and checks of
    the IR, machine code, and the ``driver``, which is handed it; ``whole``: from the first to the last. ``launched``: a
    launch of it was recorded."""

    front: float = 0.0
    passes: float = 0.0
    code: float = 0.0
    driver: float = 0.0
    whole: float = 0.0
    launched: bool = False


@dataclass(slots=True)
class Compiled:
    """One specialisation, loaded. ``kernel`` is the IR that became code; ``lowered`` what the front end made."""

    mode: str
    source: FunctionSource
    specs: tuple[Spec, ...]
    options: CompileOptions
    lowered: Lowered
    kernel: N.Kernel
    executable: Executable
    returns: tuple[str, ...]
    counter: Counter | None
    constant: bool = False  # what it computes has no derivative
    second: bool = False  # it is to be differentiated twice
    clock: Clock = field(default_factory=Clock)
    telling: Telling | None = None  # its session's
    recorded: pipeline.Trace | None = None  # of the passes that made it, where somebody recorded
    looked: dict[int, pipeline.Trace] = field(default_factory=dict)  # what was made for who looks, by kernel's id

    def field(self, buffer: str) -> Any:
        """The field behind a buffer; that of ``x.grad`` is the gradient of the one behind ``x``."""
        bindings = self.lowered.bindings
        if buffer in bindings:
            return bindings[buffer]
        for name, b in self.lowered.kernel.buffers.items():
            if b.grad == buffer and name in bindings:
                return bindings[name].grad
            if b.dual == buffer and name in bindings:
                return bindings[name].dual
        raise KeyError(buffer)

    @room.roomy
    def trace(self) -> pipeline.Trace:
        """What every pass did; where nobody recorded that, it compiles the IR again, once."""
        if (known := self.recorded or self.looked.get(0)) is not None:
            return known
        with warnings.catch_warnings(), _recorded() as trace:
            warnings.simplefilter("ignore")  # they were given when it was compiled
            how = self.options, self.constant, self.second, self.telling
            made = lowered_kernel(self.source, self.specs, *how).kernel
            kernel = make_ir(made, self.mode, self.options)
            if self.counter is not None:
                counting_ir(kernel, made, self.options)
        self.looked[0] = trace
        return trace

    def lowering(self, kernel: N.Kernel, backend: Backend) -> pipeline.Trace:
        """What the lowering of its session's backend does to the kernel, or to another one that was made of it."""
        if id(kernel) not in self.looked:
            self.looked[id(kernel)] = lowering_trace(kernel, backend, self.options)  # whose first step has the kernel
        return self.looked[id(kernel)]


@room.roomy
def lowering_trace(kernel: N.Kernel, backend: Backend, options: CompileOptions) -> pipeline.Trace:
    """What the backend's lowering does to the kernel, which is one that it gets."""
    with _recorded() as trace:
        pipeline.run(kernel, backend.lowering(options), options.verify)
    return trace


@contextmanager
def _recorded() -> Iterator[pipeline.Trace]:
    """A trace of the passes that run in the with."""
    trace = pipeline.Trace()
    token = pipeline.RECORDER.set(trace)
    try:
        yield trace
    finally:
        pipeline.RECORDER.reset(token)


@room.roomy
def forward_ir(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """The front end's kernel as tasks: what a backend gets of it, and what `reverse` starts from."""
    room.need(room.depth_of_block(kernel.body))
    return pipeline.run(kernel, pipelines.front(options), options.verify)


@room.roomy
def make_ir(kernel: N.Kernel, mode: str, options: CompileOptions) -> N.Kernel:
    """The IR that a backend gets, from the front end's. For a gradient it checks the data-access rule (an error where a
    value is provably gone) and warns about derivative paths that end on the way."""
    kernel = forward_ir(kernel, options)
    check_races(kernel)
    kernel = pipeline.run(kernel, pipelines.TASKS, options.verify)
    dead = dead_paths(kernel, "dual" if mode == DUAL else "grad") if mode != FORWARD else []
    kernel = tangents_ir(kernel, options)
    if mode == DUAL:
        made = pipeline.run(kernel, pipelines.TANGENT, options.verify)
        check_replays(kernel, made)
    elif mode == FORWARD:
        made = pipeline.run(kernel, pipelines.primal(options, pipelines.kept_by(kernel)), options.verify)
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


def _check_by_draft(kernel: N.Kernel, options: CompileOptions) -> None:
    """The check of a gradient that keeps nothing: on a draft of it, and where that has the error, which later passes
    may do away with, on the gradient itself."""
    try:
        check_data_access(kernel, pipelines.draft(kernel))
    except QuadrantsCompilationError:
        check_data_access(kernel, pipeline.run(kernel, pipelines.gradient(), options.verify))


def tangents_ir(kernel: N.Kernel, options: CompileOptions) -> N.Kernel:
    """Of a kernel that is to be differentiated twice, its first derivative, whose gradient is the second; any other
    kernel as it is."""
    if not is_second(kernel):
        return kernel
    check_second(kernel)
    dual = pipeline.run(kernel, pipelines.FIRST, options.verify)
    check_replays(kernel, dual)
    return pipeline.run(dual, (to_be_differentiated,), options.verify)


@room.roomy
def counting_ir(kernel: N.Kernel, made: N.Kernel, options: CompileOptions) -> N.Kernel | None:
    """The counting slice of a sized reverse kernel, or None; ``made`` is what the front end made."""
    segmented = {stack for task in kernel.body for stack in pushed_in_reverse(task)}
    slices = None
    if segmented & counted_stacks(kernel):
        whole = tangents_ir(pipeline.run(forward_ir(made, options), pipelines.TASKS), options)
        keeps = pipelines.kept_by(whole)
        slices = forward_slices(pipeline.run(whole, pipelines.before_reverse(options)), keeps)
    counting = counting_kernel(kernel, slices)
    if counting is None:
        return None
    passes = pipelines.COUNTING if slices is None else pipelines.COUNTING_SLICES
    return pipeline.run(counting, passes, options.verify)


def lowered_kernel(
    source: FunctionSource, specs: Sequence[Spec], options: CompileOptions, constant: bool, second: bool,
    telling: Telling | None = None,
) -> Lowered:  # fmt: skip
    """What the front end makes; ``constant``: with no derivative flowing from anything that it loads; ``second``: to be
    differentiated twice."""
    lowered = lower(source, specs, options, telling)
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
    second: bool = False,
) -> Compiled:  # fmt: skip
    """Compiles one specialisation for the session's device; errors leave nothing behind."""
    options = compile_options(session)
    with pipeline.recorded_apart(f"{source.name}, {mode}") as trace:
        at = [perf_counter()]
        how = options, constant, second, session.telling
        lowered = room.call(lambda: lowered_kernel(source, specs, *how), session.lock)
        options = reproducible(lowered.kernel, options)
        at.append(perf_counter())
        kernel = make_ir(lowered.kernel, mode, options)
        counting = counting_ir(kernel, lowered.kernel, options) if mode == REVERSE else None
        at.append(perf_counter())
        with pipeline.unrecorded("machine code"):
            counter = None if counting is None else _counter(counting, DEPTH, options, session)
            executable = load_cached(kernel, options, session)
        at.append(perf_counter())
    returns = tuple(f"ret{k}" for k in range(len(lowered.returns))) if mode != REVERSE else ()
    front, passes, code = (b - a for a, b in pairwise(at))
    clock = Clock(front, passes, code, whole=at[-1] - at[0])
    return Compiled(
        mode, source, tuple(specs), options, lowered, kernel, executable, returns, counter, constant, second, clock,
        session.telling, trace,
    )  # fmt: skip


def with_checked_bounds(compiled: Compiled, session: Session) -> Compiled:
    """The same with every index checked that is not surely inside; itself where there is none."""
    kernel = compiled.lowered.kernel
    if compiled.options.check_out_of_bound or check_bounds(kernel) is kernel:
        return compiled
    options = replace(compiled.options, check_out_of_bound=True)
    made = make_ir(kernel, compiled.mode, options)
    return replace(compiled, options=options, kernel=made, executable=load_cached(made, options, session))


def reproducible(kernel: N.Kernel, options: CompileOptions) -> CompileOptions:
    """Without fast_math where the gradient finds the winner of an atomic min or max by computing its value again: both
    kernels must then round alike."""
    if options.fast_math and any(
        isinstance(s, N.Atomic)
        and s.op in MINMAX
        and (kernel.buffers[s.buffer].grad or kernel.buffers[s.buffer].dual)
        for s in walk(kernel.body)
    ):
        return replace(options, fast_math=False)
    return options


@room.roomy
def compile_gates(compiled: Compiled, session: Session) -> tuple[SparseIterations, Counter, Executable] | None:
    """For the kernel of a gradient, in which conditions may keep iterations from pushing: what lists the others, and
    the kernel that runs them apart. None where it has no such conditions, or where settling them takes a loop."""
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
    return Counter(kernel, load_cached(kernel, options, session), results)


@room.roomy
def load_cached(kernel: N.Kernel, options: CompileOptions, session: Session) -> Executable:
    """The loaded kernel: its object code from the disk cache, or made now and put there.

    The key is the hash of the IR as it goes to the backend, without spans, and of everything else that the code
    depends on; so a change of any pass is a change of key.
    """
    room.need(room.depth_of_block(kernel.body))
    cache, backend = session.cache, session.backend
    if cache.folder is None:
        return _load(kernel, lambda: backend.load(kernel, options))
    session.device  # noqa: B018  # asks the disk, before anybody asks LLVM, what the processor is
    name = disk_cache.key(print_kernel(kernel), repr(options), backend.target_key())
    return _load(kernel, lambda: backend.load(kernel, options, cache.get(name), cache.keeper(name)))


def _load(kernel: N.Kernel, load: Callable[[], Executable]) -> Executable:
    """Of a large kernel where it can be interrupted."""
    return interruptible(load) if kernel.next_id > LARGE else load()
