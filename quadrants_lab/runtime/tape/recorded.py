"""The launches of one call of a function over torch tensors, whose gradients run later, perhaps in another thread,
perhaps more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime import session
from quadrants_lab.runtime.arguments.signature import memory_of
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.interop.arrays import Tensor
from quadrants_lab.runtime.launch.observe import Observer, unwatched
from quadrants_lab.runtime.launch.read_versions import field_version
from quadrants_lab.runtime.memory.memory import Imported, Memory
from quadrants_lab.runtime.tape.python_writes import notice
from quadrants_lab.runtime.tape.recorder import Launches

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class Fields(Observer):
    """An observer that remembers the memory that launches used: by which name, its version before the first launch, and
    whether one of them wrote to it."""

    def __init__(self) -> None:
        self.used: dict[int, tuple[Memory, str, Any]] = {}
        self.written: set[int] = set()

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        for name, memory in plan.memories(args).items():
            if id(memory) not in self.used:
                self.used[id(memory)] = memory, name, version(memory)
            if name in plan.writes:
                self.written.add(id(memory))

    def changed(self) -> str:
        """The name of one that was only read and has been written since; "" where there is none."""
        read = (used for key, used in self.used.items() if key not in self.written)
        return next((name for memory, name, then in read if was_written(memory, then)), "")


class Recorded(Launches):
    """Launches of ``function`` that `backward` differentiates. ``inputs``: tensors by parameter.

    torch counts the writes to its tensors, so they are not copied to be compared: a write by torch between two launches
    is an error. So is a view of an input as an argument, since the gradient would not reach the input.
    """

    trusted = (Tensor,)

    def __init__(self, function: str = "", inputs: dict[str, Any] | None = None, **options: Any) -> None:
        self.function = function
        self.inputs = inputs or {}
        super().__init__(**options)

    def clear(self) -> None:
        super().clear()
        self.counts: dict[int, Any] = {}  # by memory of tensors: torch's count of its writes
        self.versions: list[tuple[Memory, str, Any]] = []  # of what gradients read, when the function returned

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        self._compare_counts()
        return super().before(plan, args)

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        super().after(plan, args, token, failed)
        for slot, arg in zip(plan.slots, args, strict=True):
            memory = memory_of(arg)
            if memory is not None and isinstance(memory.foreign, Tensor):
                self._no_view(memory.foreign.of(), memory.address, plan.kernel.name, slot.name)
            elif isinstance(arg, np.ndarray):
                self._no_view(None, arg.ctypes.data, plan.kernel.name, slot.name)
        tensors = (f.memory for f in self.followed.values() if isinstance(f.memory.foreign, Tensor))
        self.counts = {id(memory): version(memory) for memory in tensors}  # now: torch has counted the launch's writes

    def _no_view(self, tensor: Any, address: int, kernel: str, argument: str) -> None:
        for name, given in self.inputs.items():
            if tensor is not given and given.requires_grad and _inside(given, address):
                raise QuadrantsRuntimeError(
                    f"kernel {kernel} gets a view of {name!r} as argument {argument!r}: the gradient of the view would "
                    f"not be that of {name!r}",
                    code="QL2124",
                    help=f"pass {name!r} itself and an offset, or slice it before the call of {self.function}",
                )

    def _compare_counts(self) -> None:
        for key, count in self.counts.items():
            followed = self.followed[key]
            if was_written(followed.memory, count):
                raise QuadrantsRuntimeError(
                    f"{followed.name}, a tensor that kernels of {self.function} use, was written between two of its "
                    "launches: the derivative of what was written is lost",
                    code="QL2125",
                    help="write to it in a kernel, or before the call",
                )

    # --- the gradient ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """To be called when the function has returned: nobody tells it of writes any more."""
        self._compare_counts()
        notice(self)
        self._unwatch()
        self._stamp()

    def _stamp(self) -> None:
        self.versions = [(f.memory, f.name, version(f.memory)) for f in self.followed.values() if f.regions]
        self.up_to_date()

    def reads(self, tensor: Any) -> bool:
        """Whether gradients read the tensor's memory."""
        return any(f.regions and _inside(tensor, f.memory.address) for f in self.followed.values())

    def changed(self) -> str:
        """The name of what gradients read and was written since the function returned; "" where there is nothing."""
        return next((name for memory, name, then in self.versions if was_written(memory, then)), "")

    def backward(self, outputs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
        """The gradients of the inputs, fresh tensors, from ``outputs``: tensors that the function wrote to, each with
        the gradient of what follows, or None. The gradients of fields that the function uses begin with 0."""
        with session.current().lock, unwatched():
            for followed in self.followed.values():
                if followed.grad is not None:
                    _follow(followed.grad, self.inputs.values())
                    followed.grad.write(..., 0)
                    dlpack.signal_stream(followed.grad)
            for tensor, given in outputs:
                if given is not None and tensor.grad is not None:
                    tensor.grad.copy_(given)
            for followed in self.followed.values():
                if followed.grad is not None:
                    _follow(followed.grad, self.inputs.values())
            self._stamp()
            try:
                self.differentiate()
                self.dead_paths.differentiated()
            finally:
                self._stamp()
        return {name: x.grad.clone() for name, x in self.inputs.items() if x.grad is not None}

    def restore(self) -> None:
        """Writes what fields and ndarrays of ours held before the first launch, where one wrote; it was made
        ``repeatable``."""
        for key, (one, values) in self.initial.items():
            if key in self.writes.written and not one.foreign:
                one.write(..., values)


def version(memory: Memory) -> Any:
    """What is another after each write; None where nobody knows: the tensor is gone, or made in inference mode."""
    if not isinstance(memory.foreign, Tensor):
        return field_version(memory)
    tensor = memory.foreign.of()
    return None if tensor is None or tensor.is_inference() else tensor._version


def was_written(memory: Memory, then: Any) -> bool:
    """Whether it was since `version` was ``then``."""
    now = version(memory)
    return now is not None and now != then


def _inside(tensor: Any, address: int) -> bool:
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return bool(start <= address < start + storage.nbytes())


def _follow(memory: Memory, tensors: Iterable[Any]) -> None:
    """On a GPU: what is launched next comes after what torch has put into its stream."""
    if isinstance(memory, Imported):
        dlpack.wait_stream(memory, next(dlpack.stream_of(t) for t in tensors if t.is_cuda))
