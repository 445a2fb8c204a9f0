"""Passes arrays of other libraries to kernels without a copy.

A torch tensor becomes an ndarray over the tensor's own memory, with the gradient that `gradients.settle` gives it. Each
tensor always gets the same `Memory` object, so that a Tape recognises the tensor. Any other object that exports its
memory (by DLPack or numpy's array interface) becomes a numpy array for one launch, or an ndarray without a gradient.
None of these libraries is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.overlap import READ, WRITTEN
from quadrants_lab.runtime.arguments.slots import ArraySlot
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.interop.gradients import Use, running_backward, settle, settle_argument
from quadrants_lab.runtime.interop.tensors import Tensor, torch_tensor
from quadrants_lab.runtime.memory.identity import memory_of, overlapping
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.memory.refusals import refusal
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.ir import nodes as N

_HOST = {1, 3, 11, 13}  # DLPack's codes of devices whose memory the CPU can access


def is_foreign(value: Any) -> bool:
    """Whether ``value`` is an object of another library that exports memory, which `adopt` accepts."""
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "_memory"):
        return False
    kind = type(value)
    if hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__array_interface__")


def row_major(args: Sequence[Any]) -> list[Any] | None:
    """The arguments, where numpy arrays in Fortran order are replaced by copies in C order; the caller copies these
    back after the launch. None if there is no such array, or if one shares memory with another argument."""
    at = [n for n, a in enumerate(args) if a.__class__ is np.ndarray and a.flags.fnc and a.flags.aligned]
    kinds = [READ] * len(args)
    for n in at:
        kinds[n] = WRITTEN
    if not at or any(True for _ in overlapping(args, kinds)):
        return None
    copies = [*args]
    for n in at:
        copies[n] = np.ascontiguousarray(args[n])
        copies[n].flags.writeable = args[n].flags.writeable
    return copies


def adopt(value: Any, slot: ArraySlot, where: str, now: Session, classes: Sequence[Any]) -> Any:
    """An ndarray or numpy array over the memory of ``value``, for an argument of the kernel ``where``. Raises
    ArgumentError if the memory cannot be shared. ``classes``: the class of ndarrays for elements with 0, 1 and 2 axes.
    """
    axes = len(slot.element)
    known = Tensor.known.get(id(value))
    if known is None or not known.holds(value, now):
        what = f"argument {slot.name!r} of {where}"
        if not isinstance(value, torch_tensor()):
            if dlpack.is_on_device(value):
                return ndarray_over(dlpack.of_array(value, now, what), classes[axes], axes)
            return _shared(value, what)
        known = Tensor(value, now, what)
    elif known.memory.imported:
        dlpack.wait_stream(known.memory, dlpack.stream_of(value))
    ndarray = known.ndarrays.get(axes)
    if ndarray is None:
        ndarray = known.ndarrays[axes] = ndarray_over(known.memory, classes[axes], axes)
        if known.gradient is not None:
            known.gradient.attach(ndarray)
    if value.requires_grad or known.gradient is not None or value.grad is not None:
        settle(known, value)
    return ndarray


def ndarray_over(memory: Memory, cls: Any, axes: int) -> Any:
    """An ndarray over memory; the last ``axes`` axes belong to the elements."""
    shape = memory.operand.shape
    outer = len(shape) - axes
    ndarray = cls(memory.dtype, shape[outer:])
    ndarray.use_memory(memory, shape[:outer])
    return ndarray


def _shared(value: Any, what: str) -> npt.NDArray[Any]:
    """The memory of an exporter other than torch on the host, as a numpy array, possibly read-only."""
    exports = hasattr(type(value), "__dlpack__")
    take: Callable[[Any], npt.NDArray[Any]] = np.from_dlpack if exports else np.asarray
    try:
        if exports and value.__dlpack_device__()[0] not in _HOST:
            raise BufferError(f"it is on device {value.__dlpack_device__()}, as DLPack counts them")
        return take(value)
    except Exception as e:  # other libraries may raise anything
        cure, flaw = "pass a numpy array: np.asarray(...) copies where it must", f"does not share its memory: {e}"
        raise refusal("QL2052", f"{what}, of type {type(value).__name__},", cure, flaw=flaw) from None


class ForeignArguments:
    """Those arguments of a kernel's launches to whose memory other libraries can write. ``names``: the names of all
    arguments; ``writes``: the buffers that a launch writes; ``derivatives``: see `launch.frames.Buffers`.
    ``gradients``: positions of the arguments whose gradients a launch touches, each with a `Use` that says whether it
    reads and writes them."""

    def __init__(
        self, session: Session, kernel: N.Kernel, names: Sequence[str], derivatives: Sequence[tuple[int, str, str]],
        writes: Set[str],
    ) -> None:  # fmt: skip
        from quadrants_lab.analysis.effects import value_reads

        self.kernel = kernel.name
        self.names = names
        loaded = {s.buffer for s in value_reads(kernel)} if derivatives else set()
        uses = [(n, grad in loaded, grad in writes) for n, of, grad in derivatives if of == "grad"]
        self.gradients = [(n, Use(names[n], kernel.name, reads, wrote)) for n, reads, wrote in uses]
        self.imports = dlpack.can_import(session)
        self.written = [n for n, name in enumerate(names) if name in writes]

    def before(self, args: Sequence[Any], taped: bool) -> None:
        """Must be called before a launch with such arguments. ``taped``: whether a Tape makes the launch."""
        node = running_backward() if self.gradients else None
        for n, use in self.gradients:
            settle_argument(args[n], use, node, taped)
        for n in self.written:
            dlpack.must_be_writable(memory_of(args[n]), self.names[n], self.kernel)

    def after(self, args: Sequence[Any]) -> None:
        """Must be called after a launch with such arguments."""
        for n in self.written:
            memory = memory_of(args[n])
            if memory is not None and memory.tensor is not None:
                memory.tensor.written()
        grads = [memory_of(getattr(args[n], "grad", None)) for n, use in self.gradients if use.writes]
        if self.imports:
            for memory in (*map(memory_of, args), *grads):
                if memory is not None:
                    dlpack.signal_stream(memory)
        for memory in grads:
            if memory is not None and memory.foreign:
                memory.flush()
