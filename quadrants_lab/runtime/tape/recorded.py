"""Holds the recorded launches of one call of a function on torch tensors. Their gradients run later, perhaps in
another thread and perhaps more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime import session
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.interop.tensors import Tensor
from quadrants_lab.runtime.memory.identity import field_version, memory_of
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import unwatched
from quadrants_lab.runtime.tape.python_writes import record_python_writes
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.runtime.tape.written import Writes

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan


class Fields(Writes):
    """An observer that also collects, for each memory that launches access, its name, and its version before the first
    launch."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[int, tuple[Memory, str, Any]] = {}

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        for name, memory in plan.memories(args).items():
            if id(memory) not in self.used:
                self.used[id(memory)] = memory, name, version(memory)

    def changed(self) -> str:
        """The name of a memory that launches only read and that was written since then; "" if there is none."""
        read = (used for key, used in self.used.items() if key not in self.written)
        return next((name for memory, name, then in read if was_written(memory, then)), "")


class Recorded(Launches):
    """The launches of ``function``, which `backward` differentiates. ``inputs``: name of a parameter -> tensor.

    torch counts the writes to its tensors, so they are noticed without a copy. A write by torch between two launches is
    an error. So is an argument that is a view of an input, or that torch computed within the function: the gradient
    would not reach the input.
    """

    trusted = (Tensor,)

    def __init__(self, function: str = "", inputs: dict[str, Any] | None = None, **options: Any) -> None:
        self.function = function
        self.inputs = inputs or {}
        super().__init__(**options)

    def clear(self) -> None:
        super().clear()
        self.counts: dict[int, Any] = {}  # id of a tensor's memory -> how many writes torch has counted
        self.versions: list[tuple[Memory, str, Any]] = []  # (memory that gradients read, its name, its `version`)

    def again(self, dispatcher: Dispatcher, args: tuple[Any, ...]) -> Any:
        if any(isinstance(arg, np.ndarray) for arg in args):  # numpy arrays may be views of the inputs
            return NotImplemented
        return super().again(dispatcher, args)

    def before(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        self._compare_counts()
        for slot, arg in zip(plan.slots, args, strict=True):
            memory = memory_of(arg)
            if memory is not None and memory.tensor is not None:
                tensor = memory.tensor.of()
                self._no_view(tensor, memory.address, plan.kernel.name, slot.name)
                self._not_computed(tensor, plan.kernel.name, slot.name)
            elif isinstance(arg, np.ndarray):
                self._no_view(None, arg.ctypes.data, plan.kernel.name, slot.name)
        return super().before(plan, args)

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        super().after(plan, args, token, failed)
        tensors = (f.memory for f in self.tracked.values() if f.memory.tensor)
        # read after the launch, because torch counts its writes, too
        self.counts = {id(memory): version(memory) for memory in tensors}

    def _no_view(self, tensor: Any, address: int, kernel: str, argument: str) -> None:
        if any(tensor is given for given in self.inputs.values()):  # two inputs may be views of one tensor
            return
        for name, given in self.inputs.items():
            if given.requires_grad and _inside(given, address):
                raise QuadrantsRuntimeError(
                    f"kernel {kernel} gets a view of {name!r} as argument {argument!r}: the gradient of the view would "
                    f"not be that of {name!r}",
                    code="QL2129",
                    help=f"pass {name!r} itself and an offset, or slice it before the call of {self.function}",
                )

    def _not_computed(self, tensor: Any, kernel: str, argument: str) -> None:
        """Raises an error if the tensor is one that torch computed from others within the function, so that its
        gradient would not reach them. An output, and a tensor of which the program retains the gradient, may be."""
        source = self._source(tensor)
        if source or (tensor is not None and tensor.grad_fn is not None and not tensor.retains_grad):
            raise QuadrantsRuntimeError(
                f"argument {argument!r} of kernel {kernel} is a tensor that torch computed{source} within "
                f"{self.function}: the derivative of that computation is lost",
                code="QL2125",
                help="compute it before the call, or in a kernel; under torch.no_grad() it is a constant",
            )

    def check_outputs(self, outputs: dict[str, Any]) -> None:
        """Raises an error if torch computed an output, of this name, from an input."""
        for name, tensor in outputs.items():
            if source := self._source(tensor):
                raise QuadrantsRuntimeError(
                    f"torch computed the output {name!r}{source} within {self.function}: the derivative of that "
                    "computation is lost",
                    code="QL2125",
                    help="write to the output in a kernel; what torch computes may stand before the call or after it",
                )

    def _source(self, tensor: Any) -> str:
        """The input from which torch computed the tensor, in words; "" if there is none."""
        nodes: list[Any] = [getattr(tensor, "grad_fn", None)]
        seen: set[Any] = {None}
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            for name, given in self.inputs.items():
                if getattr(node, "variable", None) is given:
                    return f" from {name!r}"
            nodes.extend(after for after, _ in node.next_functions)
        return ""

    def _compare_counts(self) -> None:
        for key, count in self.counts.items():
            tracked = self.tracked[key]
            if was_written(tracked.memory, count):
                raise QuadrantsRuntimeError(
                    f"{tracked.name}, a tensor that kernels of {self.function} use, was written between two of its "
                    "launches: the derivative of what was written is lost",
                    code="QL2125",
                    help="write to it in a kernel, or before the call",
                )

    # --- the gradient ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the recording when the function has returned. `changed` finds writes after this."""
        self._compare_counts()
        record_python_writes(self)
        self._unwatch()
        self._note_versions()

    def _note_versions(self) -> None:
        self.versions = [(f.memory, f.name, version(f.memory)) for f in self.tracked.values() if f.regions]
        self.mark_seen()

    def reads(self, tensor: Any) -> bool:
        """Whether gradients read the tensor's memory."""
        return any(f.regions and _inside(tensor, f.memory.address) for f in self.tracked.values())

    def changed(self) -> str:
        """The name of a memory that gradients read and that was written after the function returned; "" if there is
        none."""
        return next((name for memory, name, then in self.versions if was_written(memory, then)), "")

    def backward(self, outputs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
        """Returns the gradients of the inputs, as new tensors. ``outputs``: each tensor that the function wrote to,
        with its incoming gradient or None. The gradients of fields that the function uses start from 0."""
        with session.current().lock, unwatched():
            for tracked in self.tracked.values():
                if tracked.grad is not None:
                    _wait_for_torch(tracked.grad, self.inputs.values())
                    tracked.grad.write(..., 0)
                    dlpack.signal_stream(tracked.grad)
            for tensor, given in outputs:
                if given is not None and tensor.grad is not None:
                    tensor.grad.copy_(given)
            for tracked in self.tracked.values():
                if tracked.grad is not None:
                    _wait_for_torch(tracked.grad, self.inputs.values())
            self._note_versions()
            try:
                self.differentiate()
                self.dead_paths.differentiated()
            finally:
                self._note_versions()
        return {name: x.grad.clone() for name, x in self.inputs.items() if x.grad is not None}

    def restore(self) -> None:
        """Restores the fields and ndarrays that launches wrote to their values before the first launch. This needs
        ``repeatable``."""
        for key, (one, values) in self.initial.items():
            if key in self.writes.written and not one.foreign:
                one.write(..., values)


def version(memory: Memory) -> Any:
    """A value that changes with each write; None if it is unknown because the tensor was freed, or made in inference
    mode."""
    if memory.tensor is None:
        return field_version(memory)
    tensor = memory.tensor.of()
    return None if tensor is None or tensor.is_inference() else tensor._version


def was_written(memory: Memory, then: Any) -> bool:
    """Whether the memory was written since its `version` was ``then``."""
    now = version(memory)
    return now is not None and now != then


def _inside(tensor: Any, address: int) -> bool:
    """Whether the address lies in the tensor's storage."""
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return bool(start <= address < start + storage.nbytes())


def _wait_for_torch(memory: Memory, tensors: Iterable[Any]) -> None:
    """On a GPU, lets the next launch wait for the work that torch has queued in its stream."""
    if memory.imported:
        dlpack.wait_stream(memory, next(dlpack.stream_of(t) for t in tensors if t.is_cuda))
