"""Launch frames: they hold the memory and the arguments of a launch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadrants_lab.backends.launch import ArrayParam, Frame, Param, ScalarParam
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.arguments.signature import ArgumentError, ArraySlot, ScalarSlot, Slot, memory_of
from quadrants_lab.runtime.compile.compiled import Compiled
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import Session, wrong_session


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


def launch_slowly(frame: Frame, slots: Sequence[Slot], args: Sequence[Any]) -> None:
    """A launch through the frame's setters."""
    after: list[Callable[[], None]] = []
    arrays: list[tuple[str, Any]] = []
    for slot, arg in zip(slots, args, strict=True):
        if isinstance(slot, ScalarSlot):
            frame.set_arg(slot.name, slot.dtype.numpy(arg).item())
        elif isinstance(slot, ArraySlot):
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
                raise ArgumentError(
                    f"arguments {name!r} and {other!r} of kernel {frame.exe.kernel.name} overlap, and it writes "
                    "to one of them: this device copies each array by itself",
                    code="QL2053",
                    help="pass the whole array once, or a copy of a part",
                )
            frame.set_buffer(name, frame.buffer(other))
            unbind = None
    return unbind


def entry_params(slots: Sequence[Slot]) -> list[Param]:
    """The parameters of an entry: all but the template arguments."""
    return [
        ScalarParam(slot.name) if isinstance(slot, ScalarSlot) else ArrayParam(slot.name)
        for slot in slots if isinstance(slot, (ScalarSlot, ArraySlot))
    ]  # fmt: skip
