"""Allocates the memory of a launch: its frame (the block from which compiled code reads the arguments), and scratch
buffers (values that a forward launch saves for its gradient, working memory of gradients, race marks)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.launch import ArrayParam, Frame, Param, ScalarParam
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import CHANGED, EPOCH, marks_of
from quadrants_lab.ir.types import i64
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.compile.specialisation import Compiled, load_cached
from quadrants_lab.runtime.memory import identity as M
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.memory.refusals import refusal
from quadrants_lab.runtime.session import Session, wrong_session

if TYPE_CHECKING:
    from quadrants_lab.adstack.evaluate_sizes import LiveData


def field_memories(compiled: Compiled, kernel: N.Kernel, session: Session) -> dict[str, Memory]:
    """Maps the name of each field buffer of ``kernel`` to its memory; an error for a field of an earlier session."""
    found: dict[str, Memory] = {}
    for name, buffer in kernel.buffers.items():
        if buffer.kind != "field":
            continue
        memory = M.memory_of(compiled.field(name))
        assert memory is not None, name
        if memory.session is not session:
            raise wrong_session(memory.session, f"field {name}, which kernel {kernel.name} uses,")
        found[name] = memory
    return found


class Buffers:
    """Where the buffers of a kernel have their memory. ``fields``: name of a buffer -> memory, for buffers that are
    fields; ``field_places``: the fields that the kernel accesses; ``gradient_args``: for each derivative of an array
    argument, the argument's position, which derivative it is, and its buffer."""

    def __init__(self, compiled: Compiled, slots: Sequence[A.Slot], session: Session) -> None:
        self.compiled = compiled
        self.kernel = compiled.kernel
        self.session = session
        self.slots = slots
        self.fields = field_memories(compiled, self.kernel, session)
        self.field_places: dict[str, M.Place] = {b: self.fields[b] for b in self.kernel.buffers if b in self.fields}
        self.array_slots = [(n, slot.name) for n, slot in enumerate(slots) if slot.kind == "array"]
        self.takes_arrays = bool(self.array_slots)
        self.gradient_args = tuple(
            (n, of, f"{name}.{of}")
            for n, name in self.array_slots
            for of in M.DERIVATIVES
            if f"{name}.{of}" in self.kernel.buffers
        )

    def places(self, args: Sequence[Any]) -> dict[str, M.Place]:
        """Maps the name of each buffer that has a `Memory` to the place where a launch with ``args`` finds it."""
        if not self.takes_arrays:
            return self.field_places
        found: dict[str, M.Place] = dict(self.fields)
        found |= {name: n for n, name in self.array_slots if M.memory_of(args[n]) is not None}
        for n, of, name in self.gradient_args:
            if M.memory_of(M.derivative(args[n], of)) is not None:
                found[name] = (n, of)
        return {name: found[name] for name in self.kernel.buffers if name in found}

    def memories(self, args: Sequence[Any]) -> dict[str, Memory]:
        """Maps the name of each buffer that `places` finds to its memory."""
        return {name: M.memory_at(place, args) for name, place in self.places(args).items()}

    def operands(self, args: Sequence[Any], memories: dict[str, Memory] | None = None) -> dict[str, Any]:
        """Maps the name of each field and ndarray buffer to what a launch with ``args`` binds to it: an array, or
        memory of the device. ``memories``: the result of `memories`, if it is known."""
        return {name: getattr(x, "operand", x) for name, x in self.backing(args, memories).items()}

    def arrays(self, args: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Maps the name of each field and ndarray buffer to its data in a launch with ``args``, for reading."""
        return {name: x.values() if isinstance(x, Memory) else x for name, x in self.backing(args).items()}

    def backing(self, args: Sequence[Any], memories: dict[str, Memory] | None = None) -> dict[str, Any]:
        """Maps the name of each field and ndarray buffer of a launch with ``args`` to its `Memory` or numpy array."""
        others = {name: args[n] for n, name in self.array_slots if M.memory_of(args[n]) is None}
        return {**(self.memories(args) if memories is None else memories), **others}

    def numpy_arrays(self, args: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Maps the name of each argument that is a numpy array to the array."""
        return {name: args[n] for n, name in self.array_slots if isinstance(args[n], np.ndarray)}

    def gradient_of(self, buffer: str, args: Sequence[Any], which: str = "grad") -> Memory | None:
        """The memory of a buffer's gradient (or "dual") in a launch with ``args``, even if the kernel ignores it."""
        lowered = self.compiled.lowered
        grad: str = getattr(lowered.kernel.buffers.get(buffer), which, "")
        for n, name in self.array_slots:
            if grad.startswith(f"{name}."):
                return M.memory_of(M.derivative(args[n], grad[len(name) + 1 :]))
        return M.memory_of(lowered.bindings.get(grad))

    def scalars(self, args: Sequence[Any]) -> dict[str, Any]:
        """Maps the name of each scalar argument to its value."""
        return {s.name: a for s, a in zip(self.slots, args, strict=True) if s.kind == "scalar"}

    def live(self, args: Sequence[Any]) -> LiveData:
        """The data of a launch with ``args`` on which sizes of stacks depend."""
        from quadrants_lab.adstack.evaluate_sizes import LiveData

        memories = self.memories(args)
        return LiveData(self.scalars(args), self.operands(args, memories), memories)


def make_frame(executable: Any, fields: dict[str, Memory], session: Session) -> Frame:
    frame: Frame = executable.frame(session.device)
    for name, memory in fields.items():
        assert memory.order == executable.kernel.buffers[name].order, f"{name} is in another order than the kernel's"
        frame.set_buffer(name, memory.address)
    return frame


def bind(frame: Frame, name: str, memory: Memory) -> None:
    frame.set_buffer(name, memory.address)
    frame.set_extents(name, memory.operand.shape)


def ended_frame(frame: Frame) -> Any:
    """Replaces a frame after its session has ended; it holds only numbers of the last launch."""
    number, threads, nbytes = frame.launch_number, frame.stack_threads, frame.stack_bytes()
    return SimpleNamespace(launch_number=number, stack_threads=threads, stack_bytes=lambda: nbytes)


def launch_slowly(frame: Frame, slots: Sequence[A.Slot], args: Sequence[Any]) -> None:
    """Launches through the frame's setters, which take all arguments that the fast entry refuses."""
    after: list[Callable[[], None]] = []
    arrays: list[tuple[str, Any]] = []
    for slot, arg in zip(slots, args, strict=True):
        if isinstance(slot, A.ScalarSlot):
            frame.set_arg(slot.name, slot.dtype.numpy(arg).item())
        elif slot.kind == "array":
            memory = M.memory_of(arg)
            arrays.append((slot.name, arg if memory is None else memory.operand))
    arrays.sort(key=lambda of: of[0] not in frame.exe.written)  # arrays that the kernel writes come first, see `_bind`
    for n, (name, array) in enumerate(arrays):
        unbind = _bind(frame, name, array, arrays[:n])
        if unbind is not None:
            after.append(unbind)
    frame.launch()
    for unbind in after:
        unbind()


def _bind(frame: Frame, name: str, array: Any, others: Sequence[tuple[str, Any]]) -> Callable[[], None] | None:
    """Binds an array to a buffer by `Frame.bind_temp`. A device copies each host array separately, so an array that
    equals one of ``others``, which were bound earlier, gets that one's copy. Raises an error if two arrays overlap
    without being equal and the kernel writes one of them."""
    unbind = frame.bind_temp(name, array)
    if isinstance(array, np.ndarray):
        for other, of in others:
            if not isinstance(of, np.ndarray) or not np.may_share_memory(array, of) or other not in frame.exe.written:
                continue
            offset = array.ctypes.data - of.ctypes.data
            if frame.buffer(name) - frame.buffer(other) == offset:
                continue
            if offset or array.nbytes != of.nbytes:
                raise refusal("QL2053", f"arguments {name!r} and {other!r}", kernel=frame.exe.kernel.name)
            frame.set_buffer(name, frame.buffer(other))
            unbind = None
    return unbind


def entry_params(slots: Sequence[A.Slot]) -> list[Param]:
    """The parameters of the fast entry: all arguments except template arguments."""
    return [
        ScalarParam(slot.name) if slot.kind == "scalar" else ArrayParam(slot.name)
        for slot in slots if slot.kind != "template"
    ]  # fmt: skip


KeptBuffers = dict[str, Memory]


class Scratch:
    """The memory of a kernel's scratch buffers. ``frames``: the frames of the launches that use it. ``last``: the
    `identity` of the last launch's arguments, and the buffers that it saved for its gradient if a Tape took them."""

    def __init__(self, of: Buffers, frames: Callable[[], Iterable[Frame]]) -> None:
        self.of = of
        self.frames = frames
        found = [b for b in of.kernel.buffers.values() if b.kind == "scratch"]
        self.buffers = [b for b in found if b.role != "marks"]
        self.marks = [(b, *marked) for b in found if (marked := marks_of(b)) is not None]
        self.keeps = frozenset(b.name for b in self.buffers if b.role == "kept")
        self.memories: dict[str, Memory] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}  # name of a buffer -> the shape of its last memory
        self.last: tuple[tuple[Any, ...], KeptBuffers] = (), {}
        self.sized: tuple[Any, ...] | None = None  # the `identity` of the arguments that `bind` was called for
        self.fixed, self.fixed_bytes = not _depend_on_arguments(self.buffers), -1  # see `kept_bytes`
        self.in_pages = any(b.order for b in self.buffers)
        self.changes_memory = CHANGED in of.kernel.buffers
        self.scalars = [n for n, slot in enumerate(of.slots) if slot.kind == "scalar"]

    def __bool__(self) -> bool:
        return bool(self.buffers or self.marks)

    def before(self, prepare: Callable[..., bool] | None) -> Callable[..., bool]:
        """For a kernel with scratch buffers: a function that gives the buffers memory and then calls ``prepare``."""

        of = self.of

        def prepare_scratch(*args: Any) -> bool:
            self.last = self.identity(args), {}  # set before `bind`, which may raise an error
            if self.sized != self.last[0]:
                self.bind(args)
                self.sized = self.last[0]
            if self.marks:
                tasks = len(of.kernel.body)
                epoch = M.bind_marks(of.session, self.marks, of.memories(args), of.operands(args), tasks, self.use)
                if EPOCH not in self.memories:
                    self.use(EPOCH, allocate(of.session, i64, ()))
                self.memories[EPOCH].assign(epoch)
            return prepare is None or prepare(*args)

        return prepare_scratch

    def bind(self, args: Sequence[Any]) -> None:
        """Gives every scratch buffer memory of the size that a launch with ``args`` needs. Memory of the last launch is
        used again if it fits, unless `take` has taken it."""
        if self.fixed and all(b.name in self.memories for b in self.buffers):
            return
        from quadrants_lab.adstack.evaluate_sizes import evaluate

        live = self.of.live(args)
        for b in self.buffers:
            shape = tuple(evaluate(e, live) for e in b.extents)
            memory = self.memories.get(b.name)
            if memory is None or memory.operand.shape != shape:
                self.use(b.name, allocate(self.of.session, b.dtype, shape, b.order))

    def use(self, name: str, memory: Memory, at: int = 0, shape: tuple[int, ...] | None = None) -> None:
        """Binds the elements of ``memory`` from flat index ``at`` on, in this shape, to a buffer for later launches."""
        self.memories[name] = memory
        self.sized, self.shapes[name] = None, memory.operand.shape
        for frame in self.frames():
            bind(frame, name, memory)
            if shape is not None:
                frame.set_buffer(name, memory.address + at * memory.dtype.nbytes)
                frame.set_extents(name, shape)

    def kept(self) -> KeptBuffers:
        """The buffers that the last launch saved for its gradient."""
        return self.last[1] or {name: self.memories[name] for name in self.keeps if name in self.memories}

    def kept_bytes(self, args: Sequence[Any]) -> int:
        """How many bytes a launch with ``args`` saves for its gradient."""
        if self.fixed and self.fixed_bytes >= 0 and not self.in_pages:
            return self.fixed_bytes
        from quadrants_lab.adstack.evaluate_sizes import evaluate

        live = self.of.live(args)
        kept = [b for b in self.buffers if b.name in self.keeps]
        in_pages = sum(self._paged_bytes(b) for b in kept if b.order)
        others = [b for b in kept if not b.order]
        self.fixed_bytes = sum(b.dtype.nbytes * prod(evaluate(e, live) for e in b.extents) for b in others)
        return self.fixed_bytes + in_pages

    def _paged_bytes(self, buffer: N.Buffer) -> int:
        """How many bytes a copy in pages may take: as many as the largest field with this order of cells takes now."""
        return max((m.operand.nbytes for m in self.of.fields.values() if m.order == buffer.order), default=0)

    def take(self) -> KeptBuffers:
        """Returns the buffers that the last launch saved for its gradient, which now belong to the caller."""
        kept = self.kept()
        self.release(kept)
        self.last = self.last[0], kept
        return kept

    def give(self, kept: KeptBuffers) -> None:
        """Binds the buffers that a launch has saved, before the gradient of that launch runs."""
        for name, memory in kept.items():
            if self.memories.get(name) is not memory:
                self.use(name, memory)

    def release(self, kept: KeptBuffers) -> None:
        """Unbinds the given buffers."""
        self.sized = None
        for name in kept:
            self.memories.pop(name, None)

    def put_back(self, args: Sequence[Any]) -> None:
        """Call this after a gradient that failed half-way: restores memory that the gradient changes temporarily."""
        of = self.of
        if not self.changes_memory or not self.memories[CHANGED].values():
            return
        from quadrants_lab.autodiff.keeps import put_back

        kernel = put_back(of.kernel)
        executable = load_cached(kernel, of.compiled.options, of.session)
        frame: Frame = executable.frame(of.session.device)
        for name, memory in of.fields.items():
            frame.set_buffer(name, memory.address)
        for name, memory in self.memories.items():
            bind(frame, name, memory)
        launch_slowly(frame, of.slots, args)

    def identity(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """A value that is equal for two launches of the plan if and only if they have the same arrays and scalars.
        Torch tensors are compared by address and shape, since several tensors can share one memory."""
        found: list[Any] = [args[n] for n in self.scalars]
        for n, _ in self.of.array_slots:
            arg, memory = args[n], M.memory_of(args[n])
            if memory is None:
                found.append((M.array_memory(arg), arg.shape))
            else:
                of_torch = memory.tensor is not None
                found.append((memory.address, memory.operand.shape) if of_torch else memory.serial)
        return tuple(found)


def _depend_on_arguments(buffers: Iterable[N.Buffer]) -> bool:
    """Whether the size of any buffer depends on an argument."""
    if not buffers:
        return False
    from quadrants_lab.adstack.evaluate_sizes import reads

    return any(args or shapes for b in buffers for args, shapes, _ in map(reads, b.extents))
