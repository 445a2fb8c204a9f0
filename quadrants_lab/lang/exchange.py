"""Conversion of fields and ndarrays to and from numpy, torch and DLPack, with or without a copy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.interop.tensors import torch_tensor
from quadrants_lab.runtime.memory.memory import SHARED, Memory


def numpy_dtype(dtype: Any) -> Any:
    """The numpy dtype of a dtype of the language; anything else is returned as it is."""
    return dtype.numpy if isinstance(dtype, DType) else dtype


def shared(memory: Memory) -> npt.NDArray[Any]:
    """The memory as a numpy array that others may write to; ValueError if it lies on a GPU."""
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
    try:
        array: npt.NDArray[Any] = tensor.detach().cpu().numpy()
    except TypeError as e:  # bfloat16 and complex numbers
        raise QuadrantsRuntimeTypeError(f"from_torch: {e}", code="QL2042", help="pass x.float()") from None
    return array
