"""Converts fields and ndarrays to and from numpy, torch, CuPy and DLPack, with or without a copy."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.interop.tensors import torch_tensor
from quadrants_lab.runtime.memory.memory import SHARED, Memory
from quadrants_lab.runtime.memory.refusals import no_dtype


def numpy_dtype(dtype: Any) -> Any:
    """The numpy dtype of a dtype of the language; anything else is returned as it is."""
    return dtype.numpy if isinstance(dtype, DType) else dtype


def shared(memory: Memory) -> npt.NDArray[Any]:
    """The memory itself as a numpy array, to which other libraries may write. Raises ValueError if the memory is on a
    GPU."""
    if not memory.session.backend.CAPABILITIES.on_host:
        raise ValueError(
            f"no zero-copy: the memory belongs to a session on {memory.session.settings.backend}; copy=True copies"
        )
    if memory.order:
        raise ValueError("no zero-copy: the elements of a sparse layout are not row by row in memory; copy=True copies")
    if not memory.foreign:
        memory.before_write(SHARED, None)
        memory.foreign = memory.session.exported = True
    return memory.array


def to_numpy(memory: Memory, dtype: Any, copy: bool | None) -> npt.NDArray[Any]:
    """The data as a numpy array, of ``dtype`` if one is given; ``copy`` as for `Dense.to_numpy`."""
    own = np.dtype(memory.dtype.numpy)
    same = dtype is None or np.dtype(dtype) == own
    if copy is False and not same:
        raise ValueError(f"copy=False cannot convert {own} to {np.dtype(dtype)}")
    in_place = memory.session.backend.CAPABILITIES.on_host and not memory.order
    if copy is False or (copy is None and same and in_place):
        return shared(memory)
    return memory.copy() if same else memory.values().astype(dtype)


def as_numpy_array(given: Any, to: object) -> npt.NDArray[Any]:
    """``given`` as a numpy array that can be copied to the field or ndarray ``to``; raises an error if it is no numpy
    array."""
    match given:
        case np.ma.MaskedArray():
            what = f"{to!r} has no mask, and the array has one"
            raise QuadrantsRuntimeTypeError(what, code="QL2012", help="write x.filled(...) or x.data")
        case np.ndarray() | np.generic():  # numpy turns an array without axes into a number
            return np.asarray(given)
    what = f"from_numpy takes a numpy array, not {type(given).__name__}"
    raise QuadrantsRuntimeTypeError(what, code="QL2012", help="np.asarray(...) makes one")


def to_torch(array: npt.NDArray[Any], device: Any, copy: bool | None) -> Any:
    """A torch tensor over the memory of ``array``, or a copy on ``device``, if that is another device."""
    try:
        import torch
    except ImportError:
        raise ImportError("to_torch needs torch: python -m pip install torch; to_numpy() needs nothing") from None
    tensor = torch.from_numpy(array)
    if device is None or torch.device(device).type == "cpu":
        return tensor
    if copy is False:
        raise ValueError(f"copy=False: the memory is the CPU's, it cannot be on device {device}")
    return tensor.to(device)


def from_torch(tensor: Any) -> npt.NDArray[Any]:
    """The data of a tensor, on any device and with any strides, as a numpy array."""
    if not isinstance(tensor, torch_tensor()):
        what = f"from_torch takes a torch tensor, not {type(tensor).__name__}"
        raise QuadrantsRuntimeTypeError(what, code="QL2012", help="from_numpy() takes numpy arrays")
    with suppress(TypeError):  # of bfloat16, for instance
        array: npt.NDArray[Any] = tensor.detach().cpu().numpy()
        if array.dtype.kind != "c":
            return array
    raise no_dtype("what from_torch takes", tensor.dtype, "a tensor")


def to_cupy(memory: Memory, shape: tuple[int, ...]) -> Any:
    """A CuPy array of this shape with a copy of the data, made on the GPU where the session is on CUDA. CuPy's current
    stream waits for the copy, and the host does not."""
    try:
        import cupy
    except ImportError:
        raise ImportError(
            "to_cupy needs CuPy: python -m pip install cupy-cuda12x, or cupy-cuda13x; to_numpy() needs nothing"
        ) from None
    if memory.order or not dlpack.can_import(memory.session):
        return cupy.asarray(memory.copy()).reshape(shape)
    array = cupy.empty(memory.operand.shape, memory.dtype.numpy)
    imported: Any = dlpack.of_array(array, memory.session, "the copy")
    imported.fill_from(memory)
    dlpack.signal_stream(imported)
    return array.reshape(shape)


def from_cupy(memory: Memory, array: Any, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Copies a CuPy array, which has one of the ``shapes``, to the memory without leaving the GPU. Returns False,
    without effect, if the data have to be copied through the host."""
    same = dlpack.can_import(memory.session) and dlpack.is_on_device(array) and tuple(array.shape) in shapes
    if not same or np.dtype(array.dtype) != memory.dtype.numpy or not array.flags.c_contiguous:
        return False
    imported = dlpack.of_array(array, memory.session, "from_cupy")
    done = memory.take(imported)
    dlpack.signal_stream(imported)
    return done


class Exchanged:
    """Base class of `Dense` with the methods that exchange data with other libraries."""

    __slots__ = ()
    _live: Callable[[], Memory]
    _shapes: Callable[[], tuple[tuple[int, ...], ...]]
    _is_sparse: Callable[[], bool]
    to_numpy: Callable[..., npt.NDArray[Any]]
    from_numpy: Callable[[npt.NDArray[Any]], None]

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """The data as a torch tensor, on ``device`` if one is given; ``copy`` as that of `to_numpy`."""
        return to_torch(self.to_numpy(copy=copy), device, copy)

    def from_torch(self, arr: Any) -> None:
        """Copies a torch tensor of the same shape, on any device, into the memory, as `from_numpy` does."""
        self.from_numpy(from_torch(arr))

    def to_cupy(self) -> Any:
        """A copy of the data as a CuPy array, made on the GPU where the session is on CUDA."""
        return to_cupy(self._live(), self._shapes()[-1])

    def from_cupy(self, arr: Any) -> None:
        """Copies a CuPy array of the same shape into the memory: on the GPU where the session is on CUDA and the dtypes
        are the same, otherwise as `from_numpy` does."""
        if self._is_sparse() or not from_cupy(self._live(), arr, self._shapes()):
            self.from_numpy(arr.get())

    def to_dlpack(self, versioned: bool = False) -> Any:
        """A DLPack capsule over the memory; with ``versioned``, one of DLPack 1."""
        return self.__dlpack__(max_version=(1, 0) if versioned else None)

    def __dlpack__(self, **options: Any) -> Any:
        return shared(self._live()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return shared(self._live()).__dlpack_device__()
