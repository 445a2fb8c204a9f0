"""Launch frames, which hold the memory and the arguments of a launch; what happens before and after a launch with
memory of other libraries; and the exceptions of failed launches, which name kernel, line, values and cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.analysis.effects import value_reads
from quadrants_lab.backends import forks
from quadrants_lab.backends.launch import (
    ArrayParam,
    AssertFailed,
    Frame,
    Overflow,
    Param,
    ScalarParam,
    Status,
)
from quadrants_lab.errors import Label, QuadrantsAssertionError, QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.show import fill
from quadrants_lab.runtime.arguments import signature as A
from quadrants_lab.runtime.compile.compiled import Compiled
from quadrants_lab.runtime.interop.dlpack import can_import, must_be_writable, signal_stream
from quadrants_lab.runtime.interop.gradients import Use, running_backward, settle_argument
from quadrants_lab.runtime.interop.tensors import Tensor
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import Session, wrong_session

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


def field_memories(compiled: Compiled, kernel: N.Kernel, session: Session) -> dict[str, Memory]:
    """The memory behind each field buffer of ``kernel``; an error for a field of an earlier session."""
    found: dict[str, Memory] = {}
    for name, buffer in kernel.buffers.items():
        if buffer.kind != "field":
            continue
        memory = A.memory_of(compiled.field(name))
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
            memory = A.memory_of(arg)
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


class ForeignArguments:
    """Those of the launches of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.imports = can_import(plan.session)

    @forks.lazy
    def written(self) -> list[int]:
        """The arguments that a launch writes."""
        return [n for n, slot in enumerate(self.plan.slots) if slot.name in self.plan.writes]

    @forks.lazy
    def gradients(self) -> list[tuple[int, Use]]:
        """The arguments whose gradients a launch touches."""
        plan, loaded = self.plan, {s.buffer for s in value_reads(self.plan.kernel)}
        return [
            (n, Use(plan.slots[n].name, plan.kernel.name, grad in loaded, grad in plan.writes))
            for n, of, grad in plan.gradient_args
            if of == "grad"
        ]

    def before(self, args: Sequence[Any], taped: bool) -> None:
        """To be called before a launch with such arguments. ``taped``: whether a Tape makes it."""
        node = running_backward() if self.gradients else None
        for n, use in self.gradients:
            settle_argument(args[n], use, node, taped)
        for n in self.written:
            must_be_writable(A.memory_of(args[n]), self.plan.slots[n].name, self.plan.kernel.name)

    def after(self, args: Sequence[Any]) -> None:
        """To be called after the launch."""
        for n in self.written:
            memory = A.memory_of(args[n])
            if memory is not None and isinstance(memory.foreign, Tensor):
                memory.foreign.written()
        grads = [A.memory_of(getattr(args[n], "grad", None)) for n, use in self.gradients if use.writes]
        if self.imports:
            for memory in (*map(A.memory_of, args), *grads):
                if memory is not None:
                    signal_stream(memory)
        for memory in grads:
            if memory is not None and memory.foreign:
                memory.flush()


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
