"""Arrays of other libraries as kernel arguments, without a copy.

A torch tensor becomes an ndarray over the tensor's own memory, with the tensor's `.grad` as gradient. Each tensor has
one such ndarray, so that a Tape recognises it. Anything else that exports its memory (by DLPack or numpy's array
interface) becomes a numpy array for one launch. None of these libraries is imported here.
"""

import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import render, warn
from quadrants_lab.runtime.arguments.aliases import same_memory
from quadrants_lab.runtime.arguments.signature import ArgumentError, ArraySlot, no_dtype
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.memory.memory import Imported, Memory, allocate
from quadrants_lab.runtime.session import Session

_HOST = {1, 3, 11, 13}  # DLPack's numbers of devices whose memory the CPU can access
NOT_TORCH: Any = ()  # isinstance(x, ()) is False


def torch_tensor() -> Any:
    """The class of torch's tensors, if torch is imported; `NOT_TORCH` otherwise."""
    return getattr(sys.modules.get("torch"), "Tensor", NOT_TORCH)


def is_foreign(value: Any) -> bool:
    """Whether `adopt` takes it: an object of another library that exports memory."""
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "_memory"):
        return False
    kind = type(value)
    if hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__array_interface__")


def row_major(args: Sequence[Any]) -> list[Any] | None:
    """The arguments with numpy arrays in Fortran order replaced by copies in C order, which the caller copies back
    after the launch. None where there is no such array, or one shares memory with another argument."""
    at = [n for n, a in enumerate(args) if a.__class__ is np.ndarray and a.flags.fnc and a.flags.aligned]
    if not at or any(same_memory(args[n], a) for n in at for m, a in enumerate(args) if m != n):
        return None
    copies = [np.ascontiguousarray(a) if n in at else a for n, a in enumerate(args)]
    for n in at:
        copies[n].flags.writeable = args[n].flags.writeable
    return copies


class Tensor:
    """The ndarray of a torch tensor, and the state of the tensor when that was made. It keeps the tensor's memory
    alive, but not the tensor."""

    __slots__ = ("count", "dtype", "grad", "key", "ndarray", "of", "session", "shape", "start")

    def __init__(self, tensor: Any, axes: int, ndarray: Any, session: Session) -> None:
        self.key = id(tensor), axes
        self.of: Callable[[], Any] = weakref.ref(tensor, self._gone)
        self.ndarray = ndarray
        self.session = session
        self.start, self.shape, self.dtype = tensor.data_ptr(), tensor.shape, tensor.dtype
        self.grad: Any = None  # the tensor behind ndarray.grad
        self.count: Callable[[Any], None] = sys.modules["torch"].autograd.graph.increment_version

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
        if _KNOWN.get(self.key) is self:
            del _KNOWN[self.key]
        self.ndarray = self.grad = None  # whose memory refers to this object

    def written(self) -> None:
        """Tells torch's autograd that the memory has changed."""
        tensor = self.of()
        if tensor is not None and not tensor.is_inference():
            self.count(tensor)


class TensorCopy:
    """A copy of a torch tensor's elements on the tensor's GPU, which compares them there: that takes less time than to
    copy them to the host."""

    def __init__(self, memory: Imported) -> None:
        self.memory = memory
        torch: Any = sys.modules["torch"]
        integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        self._equal = torch.equal
        # the bits, because NaN differs from itself
        self._now = memory.foreign.of().detach().view(integers[memory.dtype.nbytes])
        dlpack.signal_stream(memory)
        self._then = self._now.clone()
        self._follow()

    def update(self) -> None:
        """Copies the elements as they are now."""
        dlpack.signal_stream(self.memory)
        self._then.copy_(self._now)
        self._follow()

    def differs(self) -> bool:
        """Whether the tensor has changed since then."""
        dlpack.signal_stream(self.memory)
        return not self._equal(self._now, self._then)

    def values(self) -> npt.NDArray[Any]:
        """The copy, on the host."""
        found: npt.NDArray[Any] = self._then.cpu().numpy().view(self.memory.dtype.numpy)
        return found

    def _follow(self) -> None:
        """Launches wait until the copy is made."""
        dlpack.wait_stream(self.memory, self.memory.on_device.stream)


_KNOWN: dict[tuple[int, int], Tensor] = {}  # by the tensor's id and the number of axes of an element


def adopt(value: Any, slot: ArraySlot, where: str, now: Session, classes: Sequence[Any]) -> Any:
    """An ndarray or numpy array over the memory of ``value``, for an argument of kernel ``where``; ArgumentError where
    the memory cannot be shared. ``classes``: those of ndarrays, by the number of axes of an element."""
    axes = len(slot.element)
    known = _KNOWN.get((id(value), axes))
    if known is None or not known.holds(value, now):
        what = f"argument {slot.name!r} of {where}"
        if not isinstance(value, torch_tensor()):
            if dlpack.is_on_device(value):
                return _ndarray_over(dlpack.of_array(value, now, what), classes[axes], axes)
            return _shared(value, what)
        memory = tensor_memory(value, now, what)
        ndarray = _ndarray_over(memory, classes[axes], axes)
        known = memory.foreign = _KNOWN[id(value), axes] = Tensor(value, axes, ndarray, now)
        if value.requires_grad and value.is_leaf and value.grad is None:
            value.grad = _zeros(value)
    elif isinstance(known.ndarray._memory, Imported):
        dlpack.wait_stream(known.ndarray._memory, dlpack.stream_of(value))
    if value.requires_grad or known.ndarray.grad is not None:
        _refresh_gradient(known, value, now)
    return known.ndarray


def need_gradient(ndarray: Any, name: str, where: str) -> None:
    """Gives a tensor that requires a gradient and has none yet a gradient of zeros."""
    memory = ndarray._memory
    known: Tensor | None = memory.foreign if isinstance(memory.foreign, Tensor) else None
    if known is None or ndarray.grad is None or ndarray.grad.placed:
        return
    tensor = known.of()
    if tensor is None:  # an intermediate result that torch has dropped
        passing = allocate(memory.session, memory.dtype, memory.operand.shape)
        passing.foreign = True
        ndarray.grad.use_memory(passing, ndarray.shape)
        return
    if not tensor.is_leaf and not tensor.retains_grad:
        text = render(
            "QL2054",
            f"argument {name!r} of the gradient of kernel {where} is a tensor that torch computed: its gradient is "
            "added to its .grad, and torch does not propagate it further",
            help="make a qd.torch_op of the kernels, or pass a leaf",
            kind="warning",
        )
        warn(text)
    tensor.grad = _zeros(tensor)
    _lay_gradient(known, tensor, memory.session)


def _zeros(tensor: Any) -> Any:
    torch: Any = sys.modules["torch"]
    return torch.zeros_like(tensor, memory_format=torch.contiguous_format)


def _ndarray_over(memory: Memory, cls: Any, axes: int) -> Any:
    """An ndarray over memory whose last ``axes`` axes are those of the elements."""
    shape = memory.operand.shape
    outer = len(shape) - axes
    ndarray = cls(memory.dtype, shape[outer:])
    ndarray.use_memory(memory, shape[:outer])
    return ndarray


def _refresh_gradient(known: Tensor, tensor: Any, now: Session) -> None:
    """Follows changes of ``tensor.grad`` since the last launch."""
    ndarray = known.ndarray
    if not tensor.requires_grad:
        ndarray.grad = known.grad = None
        return
    has_grad = tensor.is_leaf or tensor.retains_grad or known.grad is not None  # for others torch warns
    grad = tensor.grad if has_grad else None
    if grad is None:
        if ndarray.grad is None or known.grad is not None:
            ndarray.grad = type(ndarray)(ndarray.dtype, ndarray.element_shape)  # see `need_gradient`
        known.grad = None
    elif grad is not known.grad:
        _lay_gradient(known, tensor, now)


def _lay_gradient(known: Tensor, tensor: Any, now: Session) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns of .grad of tensors that are no leaves
        grad = tensor.grad
    memory = tensor_memory(grad, now, "the .grad of a tensor")
    ndarray = known.ndarray
    if ndarray.grad is None or ndarray.grad.placed:
        ndarray.grad = type(ndarray)(ndarray.dtype, ndarray.element_shape)
    ndarray.grad.use_memory(memory, ndarray.shape)
    known.grad = grad


def tensor_memory(tensor: Any, now: Session, what: str) -> Memory:
    """The memory of a torch tensor; ArgumentError where kernels cannot use it as it is."""
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
        raise no_dtype(what, tensor.dtype, "a tensor", "pass x.float(); ")
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


def _shared(value: Any, what: str) -> npt.NDArray[Any]:
    """The memory of any other exporter as a numpy array, possibly read-only."""
    exports = hasattr(type(value), "__dlpack__")
    take: Callable[[Any], npt.NDArray[Any]] = np.from_dlpack if exports else np.asarray
    try:
        if exports and value.__dlpack_device__()[0] not in _HOST:
            raise BufferError(f"it is on device {value.__dlpack_device__()}, as DLPack counts them")
        return take(value)
    except Exception as e:  # whatever the other library raises
        raise ArgumentError(
            f"{what}, of type {type(value).__name__}, does not share its memory: {e}",
            code="QL2052",
            help="pass a numpy array: np.asarray(...) copies where it must",
        ) from None
