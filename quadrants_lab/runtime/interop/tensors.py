"""Finds the memory of torch tensors, and makes ndarrays over it, so that they can be kernel arguments. Torch is not
imported here."""

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir import types as T
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.memory.refusals import COPY, no_dtype, refusal
from quadrants_lab.runtime.session import Session

_DTYPES = {np.dtype(t.numpy).name for t in T.DTYPES.values()}  # torch has the names of numpy
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
    check_kind(tensor, what)
    on_device = tensor.is_cuda and dlpack.can_import(now)
    if not tensor.is_cpu and not on_device:
        flaw = f"is a tensor on device {tensor.device}, kernels of this session read the CPU's memory"
        raise refusal("QL2052", what, "pass x.cpu()", flaw=flaw)
    if not tensor.is_contiguous():
        flaw = f"a tensor that is not contiguous: shape {tuple(tensor.shape)}, strides {tensor.stride()}"
        raise refusal("QL2043", what, "x.contiguous()" + COPY, flaw=flaw)
    if on_device and not (tensor.is_neg() or tensor.is_conj()):
        return dlpack.of_tensor(tensor, now, True, what)
    try:
        array: npt.NDArray[Any] = tensor.detach().numpy()
    except (TypeError, RuntimeError) as e:
        cure = "pass a plain tensor, for instance x.clone() or x.resolve_neg()"
        raise refusal("QL2052", what, cure, flaw=f"is a tensor that numpy cannot see: {e}") from None
    return Memory.over(now, array, True)


def asks(torch: Any, what: str) -> Callable[[Any], bool]:
    """The function of this name by which torch tells what wraps a tensor; older versions have none, and no wrappers."""
    found: Callable[[Any], bool] = getattr(getattr(torch._C, "_functorch", None), what, lambda tensor: False)
    return found


def has_tangent(torch: Any, tensor: Any) -> bool:
    """Whether the tensor belongs to a derivative of torch in forward mode."""
    forward = torch.autograd.forward_ad
    return bool(forward._current_level >= 0 and forward.unpack_dual(tensor).tangent is not None)


_KINDS: tuple[tuple[Callable[[Any, Any], bool], str, str, str], ...] = (  # condition, what is wrong, code, help
    (
        lambda torch, x: asks(torch, "is_functorch_wrapped_tensor")(x) or torch._is_functional_tensor(x),
        "is a tensor under a transformation of torch.func, as vmap or grad are: it has no memory of its own", "QL2052",
        "launch the kernel outside of the transformation; a loop over the batch takes the place of vmap",
    ),
    (
        has_tangent,
        "is a tensor with a tangent: forward mode of torch does not go through kernels", "QL2052",
        "pass torch.autograd.forward_ad.unpack_dual(x).primal; qd.ad.FwdMode differentiates kernels",
    ),
    (
        lambda torch, x: type(x).__name__ == "FakeTensor",
        "is a FakeTensor: torch traces programs with such tensors, and they have no memory", "QL2052",
        "launch the kernel outside of what torch.export traces; torch.compile breaks its graph at a qd.torch_op",
    ),
    (lambda torch, x: x.is_nested, "a nested tensor", "QL2043", "each of its parts, or x.to_padded_tensor(0.0)"),
    (lambda torch, x: x.layout is not torch.strided, "a tensor of layout {.layout}", "QL2043", "x.to_dense()"),
)  # fmt: skip


def check_kind(tensor: Any, what: str) -> None:
    """Raises ArgumentError about ``what`` if kernels cannot use a tensor of this kind, on whatever device it is."""
    torch: Any = sys.modules["torch"]
    for holds, flaw, code, cure in _KINDS:
        if holds(torch, tensor):
            raise refusal(code, what, cure, flaw=flaw.format(tensor))
    if str(tensor.dtype).removeprefix("torch.") not in _DTYPES:
        raise no_dtype(what, tensor.dtype, "a tensor")
