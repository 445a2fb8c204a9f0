"""Repeats a recorded launch in a separate session, to compare backends on the same kernel and data.

    session = shadow(record.plan.session, backend)
    replay(record, session).outputs["x.grad"]

The code is compiled from the IR of the recorded launch. The session of the record is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.backends.launch import Status
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.compile.specialisation import load_cached
from quadrants_lab.runtime.failures import failure
from quadrants_lab.runtime.launch.frames import make_frame
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Executable, Frame
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.record.records import Arrays, LaunchRecord

MOST_SECONDS, MOST_LAUNCHES = 0.2, 5  # at most so many launches are timed, and for at most so many seconds


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of a replay. ``outputs`` and ``returned``: as in the record. ``first``: seconds of the first launch,
    in which drivers finish their compilation. ``seconds``: the median of further launches, 0 if the first one took too
    long for any. ``lane_bytes``: bytes of adstacks for each iteration in flight. ``heap_bytes``: bytes of the device's
    whole adstack heap."""

    outputs: Arrays
    returned: dict[str, Any]
    first: float
    seconds: float
    lane_bytes: int
    heap_bytes: int


def shadow(home: Session, backend: str) -> Session:
    """Starts a second session, on ``backend``, with the options of ``home``."""
    same = backend == home.settings.backend
    arch, threads = (home.settings.arch, home.settings.threads) if same else (backend, 0)
    return Session(replace(home.settings, arch=arch, backend=backend, threads=threads))


def replay(record: LaunchRecord, session: Session) -> Replay:
    """Launches the record's kernel in the session, on copies of the record's data. The stacks are sized again.

    The record must have its inputs. Raises QuadrantsError if the backend cannot compile the kernel or the launch fails,
    MemoryError if the device has too little memory.
    """
    plan, kernel = record.plan, record.plan.kernel
    assert record.inputs is not None
    kernel = _ordered(kernel, plan, session)
    with session.lock:
        executable = load_cached(kernel, plan.compiled.options, session)
        memories = memories_for(record, kernel, session)
        add_scratch(record.scalars, kernel, session, memories)
        marks = [b.name for b in kernel.buffers.values() if b.role == "marks"]
        frame = frame_of(record, executable, kernel, session, memories)
        _fill(memories, record.inputs)
        if plan.stacks is not None:
            frame.set_stacks(_depths(record, plan, session, memories))
        took = [launch(record, frame, session)]
        while sum(took) < MOST_SECONDS and len(took) < MOST_LAUNCHES:
            _fill(memories, record.inputs | dict.fromkeys(marks, 0))
            took.append(launch(record, frame, session))
        for name in plan.writes & memories.keys():
            memories[name].after_write()
        return Replay(
            {name: memories[name].copy() for name in sorted(plan.writes & memories.keys())},
            {name: frame.ret(name) for name in plan.compiled.returns},
            took[0],
            median(took[1:]) if took[1:] else 0.0,
            frame.stack_bytes(),
            session.device.heap_bytes,
        )


def memories_for(record: LaunchRecord, kernel: N.Kernel, session: Session) -> dict[str, Memory]:
    """Memory of zeros for each buffer of the kernel that the record has a shape of."""
    made = ((kernel.buffers[name], shape) for name, shape in record.shapes.items() if name in kernel.buffers)
    return {b.name: allocate(session, b.dtype, shape, b.order) for b, shape in made}


def add_scratch(scalars: dict[str, Any], kernel: N.Kernel, session: Session, memories: dict[str, Memory]) -> None:
    """Adds to ``memories`` the scratch memory that a launch of the kernel needs."""
    sizes = LiveData(scalars, {name: memory.operand for name, memory in memories.items()})
    for b in kernel.buffers.values():
        if b.kind == "scratch" and b.name not in memories:
            memories[b.name] = allocate(session, b.dtype, tuple(evaluate(e, sizes) for e in b.extents), b.order)


def frame_of(
    record: LaunchRecord, executable: Executable, kernel: N.Kernel, session: Session, memories: dict[str, Memory]
) -> Frame:
    """A frame for a launch of the kernel, bound to ``memories`` and to the scalars of the record."""
    used = {name: memory for name, memory in memories.items() if name in kernel.buffers}
    frame = make_frame(executable, used, session)
    for name in used:
        if kernel.buffers[name].shape is None:
            frame.set_extents(name, memories[name].operand.shape)
    set_scalars(frame, kernel, record.scalars)
    frame.replay(record.draws)
    return frame


def set_scalars(frame: Frame, kernel: N.Kernel, scalars: Mapping[str, Any]) -> None:
    for arg in kernel.args:
        if arg.name in scalars:
            frame.set_arg(arg.name, arg.type.numpy(scalars[arg.name]).item())


def must_succeed(plan: Plan, frame: Frame, status: int) -> None:
    """Discards what a launch printed, because the recorded launch has printed it; raises the error of a failed
    launch."""
    if status & Status.PRINTED:
        frame.take_prints()
    if status & ~Status.PRINTED:
        raise failure(frame, plan.kernel.name, plan.compiled.options.ad_stack_size)


def _fill(memories: dict[str, Memory], inputs: Mapping[str, Any]) -> None:
    for name, array in inputs.items():
        memories[name].assign(array)


def _ordered(kernel: N.Kernel, plan: Plan, session: Session) -> N.Kernel:
    """The kernel of a plan for this session. On a backend other than the plan's, all buffers are row-major."""
    if session.settings.backend == plan.session.settings.backend:
        return kernel
    return replace(kernel, buffers={name: replace(b, order=()) for name, b in kernel.buffers.items()})


def _depths(
    record: LaunchRecord, plan: Plan, session: Session, memories: dict[str, Memory]
) -> list[int]:
    """The depths of the stacks, computed from the data of this session."""
    forced, counter = plan.compiled.options.ad_stack_size, plan.compiled.counter
    if forced:
        return [forced] * len(plan.stacks.sizes)
    counted: dict[int, int] = {}
    if counter is not None:
        kernel = _ordered(counter.kernel, plan, session)
        executable = load_cached(kernel, plan.compiled.options, session)
        frame = frame_of(record, executable, kernel, session, memories)
        frame.set_stacks([0] * len(stack_allocas(kernel)))
        launch(record, frame, session)
        counted = {stack: frame.ret(name) for stack, name in counter.results.items()}
    live = LiveData(record.scalars, {name: memory.values() for name, memory in memories.items()})
    return [evaluate(size, live, counted) for size in plan.stacks.sizes]


def launch(record: LaunchRecord, frame: Frame, session: Session) -> float:
    """Launches, waits, and returns the seconds that this took."""
    start = perf_counter()
    status = frame.launch()
    session.finish()
    seconds = perf_counter() - start
    must_succeed(record.plan, frame, status)
    return seconds
