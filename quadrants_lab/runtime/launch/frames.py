"""The memory of a launch: its frame, memory of other libraries, and scratch buffers (values that a forward launch keeps
for its gradient, working memory of gradients, race marks); and the exceptions of failed launches, which name kernel,
line, values and cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends.launch import (
    ArrayParam,
    AssertFailed,
    Frame,
    Overflow,
    Param,
    ScalarParam,
    Status,
)
from quadrants_lab.backends.overlap import merged
from quadrants_lab.errors import Label, QuadrantsAssertionError, QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import CHANGED, EPOCH, EPOCHS, marks_of
from quadrants_lab.ir.show import fill
from quadrants_lab.ir.types import i64
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.compile.compiled import Compiled, load_cached
from quadrants_lab.runtime.interop.tensors import Tensor
from quadrants_lab.runtime.memory.identity import array_memory, memory_of
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.session import Session, wrong_session

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


def field_memories(compiled: Compiled, kernel: N.Kernel, session: Session) -> dict[str, Memory]:
    """The memory behind each field buffer of ``kernel``; an error for a field of an earlier session."""
    found: dict[str, Memory] = {}
    for name, buffer in kernel.buffers.items():
        if buffer.kind != "field":
            continue
        memory = memory_of(compiled.field(name))
        assert memory is not None, name
        if memory.session is not session:
            raise wrong_session(memory.session, f"field {name}, which kernel {kernel.name} uses,")
        found[name] = memory
    return found


def make_frame(executable: Any, fields: dict[str, Memory], session: Session) -> Frame:
    frame: Frame = executable.frame(session.device)
    for name, memory in fields.items():
        frame.set_buffer(name, memory.address)
    return frame


def launch_slowly(frame: Frame, slots: Sequence[A.Slot], args: Sequence[Any]) -> None:
    """A launch through the frame's setters."""
    after: list[Callable[[], None]] = []
    arrays: list[tuple[str, Any]] = []
    for slot, arg in zip(slots, args, strict=True):
        if isinstance(slot, A.ScalarSlot):
            frame.set_arg(slot.name, slot.dtype.numpy(arg).item())
        elif isinstance(slot, A.ArraySlot):
            memory = memory_of(arg)
            arrays.append((slot.name, arg if memory is None else memory.operand))
    arrays.sort(key=lambda of: of[0] not in frame.exe.written)  # what is written first, see `_bind`
    for n, (name, array) in enumerate(arrays):
        unbind = _bind(frame, name, array, arrays[:n])
        if unbind is not None:
            after.append(unbind)
    frame.launch()
    for unbind in after:
        unbind()


def _bind(frame: Frame, name: str, array: Any, others: Sequence[tuple[str, Any]]) -> Callable[[], None] | None:
    """`Frame.bind_temp`. A device copies each array of the host by itself: one that is the same as another one gets its
    copy. An error if they only overlap, and the kernel writes to one of them."""
    unbind = frame.bind_temp(name, array)
    if isinstance(array, np.ndarray):
        for other, of in others:
            if not isinstance(of, np.ndarray) or not np.may_share_memory(array, of) or other not in frame.exe.written:
                continue
            apart = array.ctypes.data - of.ctypes.data
            if frame.buffer(name) - frame.buffer(other) == apart:
                continue
            if apart or array.nbytes != of.nbytes:
                raise A.ArgumentError(
                    f"arguments {name!r} and {other!r} of kernel {frame.exe.kernel.name} overlap, and it writes "
                    "to one of them: this device copies each array by itself",
                    code="QL2053",
                    help="pass the whole array once, or a copy of a part",
                )
            frame.set_buffer(name, frame.buffer(other))
            unbind = None
    return unbind


def entry_params(slots: Sequence[A.Slot]) -> list[Param]:
    """The parameters of an entry: all but the template arguments."""
    return [
        ScalarParam(slot.name) if isinstance(slot, A.ScalarSlot) else ArrayParam(slot.name)
        for slot in slots if isinstance(slot, (A.ScalarSlot, A.ArraySlot))
    ]  # fmt: skip


def failure(frame: Frame, name: str, forced: int) -> QuadrantsError:
    """The exception for the failed last launch of the frame, of kernel ``name``; ``forced``: the kernel's ad_stack_size
    option."""
    what, status = frame.failure(), frame.status
    if isinstance(what, AssertFailed):
        return _assertion(name, what)
    if isinstance(what, Overflow):
        return _overflow(name, forced, what)
    if status & Status.CANCELLED:
        return QuadrantsRuntimeError(f"the launch of kernel {name} was cancelled", code="QL2071")
    return QuadrantsRuntimeError(f"kernel {name} failed (status {status})", code="QL2072")


def _assertion(kernel: str, failed: AssertFailed) -> QuadrantsError:
    """The exception of a failed assert or check, with values in its message."""
    from quadrants_lab.analysis.races import RACE_CURE
    from quadrants_lab.passes.check_bounds import BOUNDS_CURE, NO_ELEMENT

    stmt = failed.stmt
    message = fill(stmt.message, failed.values)  # the device keeps only the first few values
    if stmt.kind == "race":
        return QuadrantsAssertionError(
            f"{message} (kernel {kernel})",
            code="QL2075",
            labels=(Label(stmt.span, "which comes first is not defined"),),
            help=RACE_CURE,
        )
    start = f"{message} (kernel {kernel})"
    if stmt.kind == "assert":
        start = f"assertion failed in kernel {kernel}" + (message and f": {message}")
    label, cure = {  # by the kind of the check
        "assert": ("this did not hold", ""),
        "bounds": (NO_ELEMENT, BOUNDS_CURE),
        "division": ("this has no value", "test for 0 with if before, or give another number"),
    }[stmt.kind]
    return QuadrantsAssertionError(start, code="QL2070", labels=(Label(stmt.span, label),), help=cure)


def _overflow(kernel: str, forced: int, overflow: Overflow) -> QuadrantsError:
    """The exception of an adstack overflow: a size was forced, or loop bounds changed while the kernel ran."""
    stack = overflow.stack
    if forced:
        cause = f"ad_stack_size={forced} forces every stack to {forced} slots"
        cure = f"leave ad_stack_size out of qd.init(), or give at least {overflow.depth}"
    else:
        cause = (
            "what the loop bounds read changed after the stacks were sized, or fast_math rounded the condition of a "
            "while in another way there"
        )
        cure = "do not write to it from another thread while the gradient runs; qd.init(fast_math=False) rounds alike"
    name = stack.name or f"%{stack.primal}"
    return QuadrantsAssertionError(
        f"adstack overflow in the gradient of kernel {kernel}: the stack of '{name}' holds "
        f"{overflow.capacity}, {overflow.depth} were needed; .grad is partial",
        code="QL2073",
        labels=(Label(stack.span, "kept on this stack"),),
        help=f"{cause}; {cure}",
    )


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
        parts = merged(operands[of] for _, of, _ in self.marks if of not in memories)
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
            if isinstance(slot, A.ScalarSlot):
                found.append(arg)
            elif isinstance(slot, A.ArraySlot) and memory is None:
                found.append((array_memory(arg), arg.shape))
            elif isinstance(slot, A.ArraySlot) and memory is not None:
                of_torch = isinstance(memory.foreign, Tensor)
                found.append((memory.address, memory.operand.shape) if of_torch else memory.serial)
        return tuple(found)


def _depend_on_arguments(buffers: Iterable[N.Buffer]) -> bool:
    """Whether the size of one depends on an argument."""
    if not buffers:
        return False
    from quadrants_lab.adstack.evaluate import reads

    return any(args or shapes for b in buffers for args, shapes, _ in map(reads, b.extents))
