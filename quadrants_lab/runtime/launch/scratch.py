"""Scratch buffers: values that a forward launch keeps for its gradient, working memory of gradients, race marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.scratch import CHANGED, EPOCH, EPOCHS, marks_of
from quadrants_lab.ir.types import i64
from quadrants_lab.runtime.arguments.signature import ArraySlot, ScalarSlot, memory_of
from quadrants_lab.runtime.call.signature import array_memory
from quadrants_lab.runtime.compile.compiled import load_cached
from quadrants_lab.runtime.interop.tensors import Tensor
from quadrants_lab.runtime.launch.frames import launch_slowly
from quadrants_lab.runtime.memory.memory import Memory, allocate

if TYPE_CHECKING:
    from quadrants_lab.backends.launch import Frame
    from quadrants_lab.runtime.launch.plan import Plan

KeptBuffers = dict[str, Memory]


class Scratch:
    """The memory of the scratch buffers of a plan's kernel. ``last``: the `identity` of the last launch's arguments,
    and the buffers that it kept for its gradient, where a Tape took them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        found = [b for b in plan.kernel.buffers.values() if b.kind == "scratch"]
        self.buffers = [b for b in found if b.role != "marks"]
        self.marks = [(b, *of) for b in found if (of := marks_of(b)) is not None]
        self.keeps = frozenset(b.name for b in self.buffers if b.role == "kept")
        self.memories: dict[str, Memory] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}  # of the memory that each buffer had last
        self.last: tuple[tuple[Any, ...], KeptBuffers] = (), {}
        self.fixed, self.fixed_bytes = not _depend_on_arguments(self.buffers), -1  # see `kept_bytes`
        self.changes_memory = CHANGED in plan.kernel.buffers

    def __bool__(self) -> bool:
        return bool(self.buffers or self.marks)

    def before(self, prepare: Callable[..., bool] | None) -> Callable[..., bool]:
        """`Plan.prepare` for a kernel with scratch buffers, on top of its own ``prepare``."""

        def prepare_scratch(*args: Any) -> bool:
            self.last = self.identity(args), {}  # before there is memory for this launch
            self.bind(args)
            if self.marks:
                self.bind_marks(args)
            return prepare is None or prepare(*args)

        return prepare_scratch

    def bind(self, args: Sequence[Any]) -> None:
        """Gives every buffer memory of its size in a launch with ``args``: that of the last launch if it fits and was
        not taken by `take`."""
        if self.fixed and all(b.name in self.memories for b in self.buffers):
            return
        from quadrants_lab.adstack.evaluate import evaluate

        live = self.plan.live(args)
        for b in self.buffers:
            shape = tuple(evaluate(e, live) for e in b.extents)
            memory = self.memories.get(b.name)
            if memory is None or memory.operand.shape != shape:
                self.use(b.name, allocate(self.plan.session, b.dtype, shape))

    def bind_marks(self, args: Sequence[Any]) -> None:
        """Binds the race marks of each array, which all kernels share, and gives the launch its epoch. Marks of numpy
        arrays last for one launch only."""
        session, memories, operands = self.plan.session, self.plan.memories(args), self.plan.operands(args)
        if session.epoch + len(self.plan.kernel.body) >= EPOCHS:
            session.epoch = 0
            session.generation += 1
        parts = spans(operands[of] for _, of, _ in self.marks if of not in memories)
        of_host: dict[tuple[int, str], Memory] = {}
        for b, of, what in self.marks:
            if of in memories:
                generation, marks = memories[of].marks.get(what, (-1, None))
                if marks is None or generation != session.generation:
                    marks = allocate(session, b.dtype, operands[of].shape)
                    memories[of].marks[what] = session.generation, marks
                self.use(b.name, marks)
            else:
                array = operands[of]
                begin, end = next(p for p in parts if p[0] <= array.ctypes.data < p[1])
                if (begin, what) not in of_host:
                    of_host[begin, what] = allocate(session, b.dtype, ((end - begin) // array.itemsize,))
                at = (array.ctypes.data - begin) // array.itemsize
                self.use(b.name, of_host[begin, what], at, array.shape)
        if EPOCH not in self.memories:
            self.use(EPOCH, allocate(session, i64, ()))
        self.memories[EPOCH].assign(session.epoch)
        session.epoch += len(self.plan.kernel.body)

    def use(self, name: str, memory: Memory, at: int = 0, shape: tuple[int, ...] | None = None) -> None:
        """Binds the memory to a buffer for the launches from now on: from element number ``at``, in this shape."""
        self.memories[name] = memory
        self.shapes[name] = memory.operand.shape
        for frame in self.plan.frames():
            self.set(frame, name)
            if shape is not None:
                frame.set_buffer(name, memory.address + at * memory.dtype.nbytes)
                frame.set_extents(name, shape)

    def set(self, frame: Frame, name: str) -> None:
        memory = self.memories[name]
        frame.set_buffer(name, memory.address)
        frame.set_extents(name, memory.operand.shape)

    def kept(self) -> KeptBuffers:
        """The buffers that the last launch kept for its gradient."""
        return self.last[1] or {name: self.memories[name] for name in self.keeps if name in self.memories}

    def kept_bytes(self, args: Sequence[Any]) -> int:
        """The bytes that a launch with ``args`` keeps for its gradient."""
        if self.fixed and self.fixed_bytes >= 0:
            return self.fixed_bytes
        from quadrants_lab.adstack.evaluate import evaluate

        live = self.plan.live(args)
        kept = [b for b in self.buffers if b.name in self.keeps]
        self.fixed_bytes = sum(b.dtype.nbytes * prod(evaluate(e, live) for e in b.extents) for b in kept)
        return self.fixed_bytes

    def take(self) -> KeptBuffers:
        """`kept`, of which the caller becomes the owner."""
        kept = self.kept()
        for name in kept:
            self.memories.pop(name, None)
        self.last = self.last[0], kept
        return kept

    def give(self, kept: KeptBuffers) -> None:
        """Binds what the launch kept whose gradient is launched next."""
        for name, memory in kept.items():
            if self.memories.get(name) is not memory:
                self.use(name, memory)

    def release(self, kept: KeptBuffers) -> None:
        """Forgets what it was given."""
        for name in kept:
            self.memories.pop(name, None)

    def put_back(self, args: Sequence[Any]) -> None:
        """After a gradient that failed on the way: restores memory that the gradient has changed temporarily."""
        plan = self.plan
        if not self.changes_memory or not self.memories[CHANGED].values():
            return
        from quadrants_lab.autodiff.keeps import put_back

        kernel = put_back(plan.kernel)
        executable = load_cached(kernel, plan.compiled.options, plan.session)
        frame: Frame = executable.frame(plan.session.device)
        for name, memory in (plan.fields | self.memories).items():
            frame.set_buffer(name, memory.address)
        for name in self.memories:
            self.set(frame, name)
        launch_slowly(frame, plan.slots, args)

    def identity(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """A value that is equal for two launches of the plan exactly if they have the same arrays and scalars. Torch
        has several tensors over the memory of one."""
        found: list[Any] = []
        for slot, arg in zip(self.plan.slots, args, strict=True):
            memory = memory_of(arg)
            if isinstance(slot, ScalarSlot):
                found.append(arg)
            elif isinstance(slot, ArraySlot) and memory is None:
                found.append((array_memory(arg), arg.shape))
            elif isinstance(slot, ArraySlot) and memory is not None:
                of_torch = isinstance(memory.foreign, Tensor)
                found.append((memory.address, memory.operand.shape) if of_torch else memory.serial)
        return tuple(found)


def _depend_on_arguments(buffers: Iterable[N.Buffer]) -> bool:
    """Whether the size of one depends on an argument."""
    if not buffers:
        return False
    from quadrants_lab.adstack.evaluate import reads

    return any(args or shapes for b in buffers for args, shapes, _ in map(reads, b.extents))


def spans(arrays: Iterable[npt.NDArray[Any]]) -> list[tuple[int, int]]:
    """The address ranges (begin, end) of arrays; ranges that overlap are merged."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((a.ctypes.data, a.ctypes.data + max(a.nbytes, 1)) for a in arrays):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
