"""Allocates host memory with a known alignment."""

import ctypes
import struct
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

ALIGNMENT = 64
_WORD = struct.Struct("=q")


class Block:
    """Zeroed bytes at a 64-byte aligned ``address``, freed with this object."""

    def __init__(self, nbytes: int) -> None:
        self._array = zeros((nbytes,), np.uint8)
        self.address: int = self._array.ctypes.data
        self.view: memoryview = self._array.data
        self.words: memoryview = self.view[: nbytes & -8].cast("q")

    def word(self, offset: int) -> int:
        value: int = self.words[offset >> 3]
        return value

    def set_word(self, offset: int, value: int) -> None:
        _WORD.pack_into(self.view, offset, value)

    def or_word32(self, offset: int, bits: int) -> None:
        flag = ctypes.c_int32.from_address(self.address + offset)
        flag.value |= bits


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """A C-contiguous zeroed array whose data is 64-byte aligned. Its pages take memory only once they are used."""
    return _aligned(np.zeros, shape, np.dtype(dtype))


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Like `zeros`, with arbitrary content."""
    return _aligned(np.empty, shape, np.dtype(dtype))


class _Over:
    """The base of the arrays over memory that ``owner`` keeps."""

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (address, False)}


def over(owner: Any, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array over memory at an address, which keeps the owner of the memory alive."""
    made: np.ndarray[Any, Any] = np.asarray(_Over(owner, address, shape, np.dtype(dtype)))
    return made


def _aligned(make: Callable[..., Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    nbytes = prod(shape) * dtype.itemsize
    raw = make(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    array: np.ndarray[Any, Any] = raw[start : start + nbytes].view(dtype).reshape(shape)
    return array


class VisibleMemory:
    """A `launch.Memory` that the host sees as the numpy array ``array`` and the device at ``address``."""

    def __init__(self, array: np.ndarray[Any, Any], address: int) -> None:
        self.array = array
        self.address = address

    def finish(self) -> None:
        """Waits until no launch uses the memory."""

    def read(self) -> np.ndarray[Any, Any]:
        self.finish()
        copy: np.ndarray[Any, Any] = self.array.copy()
        return copy

    def write(self, values: np.ndarray[Any, Any]) -> None:
        self.finish()
        self.array[...] = values


class HostMemory(VisibleMemory):
    """Zeroed memory of the host, for devices that access host memory directly."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        array = zeros(shape, dtype)
        super().__init__(array, array.ctypes.data)
