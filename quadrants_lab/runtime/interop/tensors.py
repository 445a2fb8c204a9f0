"""Finds the memory of torch tensors, and makes ndarrays over it, so that they can be kernel arguments. Torch is not
imported here."""

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from quadrants_lab.runtime.arguments.slots import ArgumentError, no_dtype
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import Session

NOT_TORCH: Any = ()  # isinstance(x, ()) is False


def torch_tensor() -> Any:
    """The class of torch's tensors, if torch is imported; `NOT_TORCH` otherwise."""
    return getattr(sys.modules.get("torch"), "Tensor", NOT_TORCH)


class Tensor:
    """What launches know of a torch tensor: its memory, the ndarrays over this memory, and the tensor's state when they
    were made. This object keeps the tensor's memory alive, but not the tensor. ``ndarrays``: the ndarrays by the number
    of axes of an element. ``gradient``: see `interop.gradients`."""

    __slots__ = ("count", "dtype", "gradient", "key", "memory", "ndarrays", "of", "session", "shape", "start")
    known: dict[int, "Tensor"] = {}  # by the id of the torch tensor

    def __init__(self, tensor: Any, session: Session, what: str) -> None:
        """Raises ArgumentError about ``what`` if kernels cannot use the tensor's memory."""
        self.memory: Any = tensor_memory(tensor, session, what)
        self.memory.foreign = self.memory.tensor = self
        self.key = id(tensor)
        self.of: Callable[[], Any] = weakref.ref(tensor, self._gone)
        self.ndarrays: dict[int, Any] = {}
        self.session = session
        self.start, self.shape, self.dtype = tensor.data_ptr(), tensor.shape, tensor.dtype
        self.gradient: Any = None
        self.count: Callable[[Any], None] = sys.modules["torch"].autograd.graph.increment_version
        Tensor.known[self.key] = self

    def holds(self, tensor: Any, now: Session) -> bool:
        """Whether the tensor still has the same memory, shape and dtype."""
        return (
            self.of() is tensor
            and self.session is now
            and tensor.data_ptr() == self.start
            and tensor.shape == self.shape
            and tensor.dtype is self.dtype
            and tensor.is_contiguous()
        )

    def _gone(self, _: Any) -> None:
        if Tensor.known.get(self.key) is self:
            del Tensor.known[self.key]
        self.memory = self.gradient = None  # breaks the reference cycle, so that both are freed at once
        self.ndarrays = {}

    def written(self) -> None:
        """Tells torch's autograd that the tensor was changed in place."""
        tensor = self.of()
        if tensor is not None and not tensor.is_inference():
            self.count(tensor)


class TensorCopy:
    """A copy, on the GPU, of the elements of a torch tensor, to find out whether the tensor has changed. The GPU
    compares the two, which takes less time than a copy to the host."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        torch: Any = sys.modules["torch"]
        integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        self._equal = torch.equal
        # bits are compared, because NaN is not equal to itself
        self._now = memory.tensor.of().detach().view(integers[memory.dtype.nbytes])
        dlpack.signal_stream(memory)
        self._then = self._now.clone()
        self._follow()

    def update(self) -> None:
        """Copies the tensor's current elements."""
        dlpack.signal_stream(self.memory)
        self._then.copy_(self._now)
        self._follow()

    def differs(self) -> bool:
        """Whether the tensor has changed since it was copied last."""
        dlpack.signal_stream(self.memory)
        return not self._equal(self._now, self._then)

    def values(self) -> npt.NDArray[Any]:
        """The copied elements, as an array on the host."""
        found: npt.NDArray[Any] = self._then.cpu().numpy().view(self.memory.dtype.numpy)
        return found

    def _follow(self) -> None:
        """Makes later launches wait until the copy is complete."""
        dlpack.wait_stream(self.memory, self.memory.on_device.stream)


def tensor_memory(tensor: Any, now: Session, what: str) -> Memory:
    """The memory of a torch tensor; raises ArgumentError if kernels cannot use it as it is."""
    torch: Any = sys.modules["torch"]
    on_device = tensor.is_cuda and dlpack.can_import(now)
    if not tensor.is_cpu and not on_device:
        raise ArgumentError(
            f"{what} is a tensor on device {tensor.device}, kernels of this session read the CPU's memory",
            code="QL2052",
            help="pass x.cpu()",
        )
    if tensor.layout is not torch.strided:
        raise ArgumentError(f"{what} is a tensor of layout {tensor.layout}", code="QL2043", help="pass x.to_dense()")
    if tensor.dtype in (torch.bfloat16,) or tensor.dtype.is_complex:
        raise no_dtype(what, tensor.dtype, "a tensor")
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"{what} is a tensor that is not contiguous: shape {tuple(tensor.shape)}, strides {tensor.stride()}",
            code="QL2043",
            help="pass x.contiguous(); writes to it then reach only the copy",
        )
    if on_device and not (tensor.is_neg() or tensor.is_conj()):
        return dlpack.of_tensor(tensor, now, True, what)
    try:
        array: npt.NDArray[Any] = tensor.detach().numpy()
    except (TypeError, RuntimeError) as e:
        raise ArgumentError(
            f"{what} is a tensor that numpy cannot see: {e}",
            code="QL2042" if isinstance(e, TypeError) else "QL2052",
            help="pass a plain tensor, for instance x.clone() or x.resolve_neg()",
        ) from None
    return Memory.over(now, array, True)
