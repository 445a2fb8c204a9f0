"""Makes derivatives of a kernel from its tasks: tangents, gradients, and the kernels that count for a gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quadrants_lab.adstack import sparse_iterations as SI
from quadrants_lab.adstack.counting import DEPTH, counting_kernel, decides_again, decides_by_arithmetic
from quadrants_lab.adstack.evaluate_sizes import reads
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.adstack.size import counted_stacks, pushed_in_reverse
from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff import second
from quadrants_lab.autodiff.access import check_data_access
from quadrants_lab.autodiff.dead_paths import dead_paths
from quadrants_lab.autodiff.diagnostics import warn
from quadrants_lab.autodiff.forward import check_replays
from quadrants_lab.autodiff.keeps import NOTHING, Keeps
from quadrants_lab.autodiff.reverse import forward_slices
from quadrants_lab.errors import QuadrantsCompilationError
from quadrants_lab.frontend.specs import Lowered
from quadrants_lab.ir import deep_recursion, nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes import pipeline
from quadrants_lab.pipelines import derivatives as passes
from quadrants_lab.pipelines.launch import primal
from quadrants_lab.runtime.compile import specialisation as C
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable


def to_be_second(lowered: Lowered) -> Lowered:
    """The front end's result, marked as a kernel that will be differentiated twice."""
    bindings = dict(lowered.bindings)
    for name, buffer in lowered.kernel.buffers.items():
        if buffer.grad and name in bindings:
            x = bindings[name]
            bindings |= {f"{name}.{second.TANGENT}": x.tangent(), f"{buffer.grad}.{second.TANGENT}": x.grad.tangent()}
    return replace(lowered, kernel=second.with_tangents(lowered.kernel, adjoints=True), bindings=bindings)


def in_mode(kernel: N.Kernel, mode: str, options: CompileOptions, trace: pipeline.Trace | None = None) -> N.Kernel:
    """The tasks of a kernel with derivatives, in this mode. For a gradient, checks that no value which it needs is
    provably overwritten (the data-access rule; an error), and warns about paths of the derivative that end on the way.
    """
    dead = dead_paths(kernel, "dual" if mode == C.DUAL else "grad") if mode != C.FORWARD else []
    kernel = tangents_ir(kernel, options, trace)
    if mode == C.DUAL:
        made = pipeline.run(kernel, passes.TANGENT, options.verify, trace)
        check_replays(kernel, made)
    elif mode == C.FORWARD:
        keeps = _kept_for_gradient(kernel)
        # first in the tuple, because it identifies tasks by their indices
        saves = (passes.SaveOverwritten(keeps),) if keeps else ()
        made = pipeline.run(kernel, (*saves, *primal(options)), options.verify, trace)
    else:
        keeps = passes.kept_by(kernel)
        if mode == C.BOTH:
            _may_be_one_launch(kernel, keeps)
        kernel = pipeline.run(kernel, passes.before_reverse(options), options.verify, trace)
        if mode == C.BOTH:
            made = pipeline.run(kernel, passes.BOTH, options.verify, trace)
            _must_be_sized_ahead(kernel, made)
            _check_by_draft(kernel, options, trace)
        else:
            made = pipeline.run(kernel, passes.gradient(keeps), options.verify, trace)
            check_data_access(kernel, made, keeps)
    warn(dead)
    return made


def _may_be_one_launch(kernel: N.Kernel, keeps: Keeps) -> None:
    """Raises TwoLaunchesError if the gradient needs what is known only after the launch: values that the launch
    overwrote, the winners of atomic minima and maxima, the number of the launch that random draws depend on, gradients
    that the kernel itself reads or writes, shared memory of blocks, or the cells that a loop has activated."""
    derivatives = {d for b in kernel.buffers.values() for d in (b.grad, b.dual) if d}
    by_end = any(isinstance(s, N.Random) or s.atomic in N.MINMAX for s in walk(kernel.body))
    blocks = any(b.role in ("block", "kept") for b in kernel.buffers.values())
    if keeps or blocks or by_end or touched(kernel.body) & derivatives:
        raise C.TwoLaunchesError


def _must_be_sized_ahead(kernel: N.Kernel, both: N.Kernel) -> None:
    """Raises TwoLaunchesError if stack sizes of the combined kernel ``both`` depend on data that the kernel writes, or
    have to be counted by another kernel."""
    sized_by = set().union(*(reads(s.size)[2] for s in stack_allocas(both) if s.size is not None))
    if counted_stacks(both) or sized_by & touched(kernel.body, N.Write):
        raise C.TwoLaunchesError


def _kept_for_gradient(kernel: N.Kernel) -> Keeps:
    """Which values a launch has to save for its gradient; none if the kernel has no gradient, which is an error only
    when somebody asks for the gradient."""
    try:
        return passes.kept_by(kernel)
    except QuadrantsCompilationError:
        return NOTHING


def _check_by_draft(kernel: N.Kernel, options: CompileOptions, trace: pipeline.Trace | None) -> None:
    """Checks the data-access rule (nothing that the gradient needs is provably overwritten) for a gradient that saves
    nothing. The check runs on a draft of the gradient, which is cheap to make. If the draft breaks the rule, the
    gradient itself is checked, since later passes may have removed the access."""
    try:
        check_data_access(kernel, passes.draft(kernel))
    except QuadrantsCompilationError:
        check_data_access(kernel, pipeline.run(kernel, passes.gradient(), options.verify, trace))


def tangents_ir(kernel: N.Kernel, options: CompileOptions, trace: pipeline.Trace | None) -> N.Kernel:
    """The first derivative of a kernel that will be differentiated twice; reverse mode makes the gradient from it. Any
    other kernel is returned unchanged."""
    if not second.is_second(kernel):
        return kernel
    second.check_second(kernel)
    dual = pipeline.run(kernel, passes.FIRST, options.verify, trace)
    check_replays(kernel, dual)
    return pipeline.run(dual, (second.to_be_differentiated,), options.verify, trace)


@deep_recursion.deeply_recursive
def counting_ir(
    kernel: N.Kernel, tasks: N.Kernel, options: CompileOptions, trace: pipeline.Trace | None = None
) -> N.Kernel | None:
    """For a reverse kernel whose stacks have sizes: the kernel that runs before it and counts depths that no expression
    gives; None if there are none. ``tasks``: the result of `tasks_ir`."""
    segmented = {stack for task in kernel.body for stack in pushed_in_reverse(task)}
    slices = None
    if segmented & counted_stacks(kernel):
        whole = tangents_ir(tasks, options, trace)
        keeps = passes.kept_by(whole)
        slices = forward_slices(pipeline.run(whole, passes.before_reverse(options), options.verify, trace), keeps)
    counting = counting_kernel(kernel, slices)
    if counting is None:
        return None
    chosen = passes.COUNTING if slices is None else passes.COUNTING_SLICES
    return pipeline.run(counting, chosen, options.verify, trace)


def decided_alike(kernel: N.Kernel, options: CompileOptions) -> CompileOptions:
    """The options for a gradient. fast_math is turned off if the same decision is made twice and must come out the
    same."""
    return replace(options, fast_math=False) if options.fast_math and decides_again(kernel) else options


def depth_counter(counting: N.Kernel, options: CompileOptions, session: Session) -> C.Counter:
    """Loads a kernel that `counting_ir` returned."""
    return _counter(counting, DEPTH, options, session)


@deep_recursion.deeply_recursive
def compile_sparse(
    compiled: C.Compiled, session: Session
) -> tuple[SI.SparseIterations, C.Counter, Executable, CompileOptions] | None:
    """For a gradient in which conditions may keep iterations from pushing to stacks: the kernel that lists the
    iterations that push, and the kernel that runs these separately. None if there is no such condition, or if a
    condition needs a loop."""
    found = SI.sparse_iterations(compiled.kernel)
    if found is None:
        return None
    made = [
        pipeline.run(kernel, passes.SPARSE, compiled.options.verify) for kernel in (found.lists, found.split)
    ]
    found = replace(found, lists=made[0], split=made[1])
    if not SI.is_cheap(found.lists):
        return None
    options = compiled.options
    if decides_by_arithmetic(found.lists.body):  # both kernels must decide alike whether an iteration is on the list
        options = replace(options, fast_math=False)
    counter = _counter(found.lists, SI.ACTIVE_COUNT, options, session)
    return found, counter, C.load_cached(found.split, options, session), options


def _counter(kernel: N.Kernel, prefix: str, options: CompileOptions, session: Session) -> C.Counter:
    counted = [b.name for b in kernel.buffers.values() if b.kind == "ret" and b.name.startswith(prefix)]
    results = {int(name.removeprefix(prefix)): name for name in counted}
    key = C.ir_key(kernel, session)
    return C.Counter(kernel, C.load_cached(kernel, options, session, key), results, key)
