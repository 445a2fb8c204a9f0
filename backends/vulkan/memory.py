"""Allocates device memory: the driver allocates blocks, blocks are cut into pieces, and arrays lie in pieces.

If the host reads the device's memory at full speed, all memory is of the kind `MAPPED`. A discrete GPU
(`Logical.discrete`) has memory of the kind `REMOTE` for arrays; `transfer.Transfers` copies to and from it.
"""

from __future__ import annotations

import bisect
import ctypes
import weakref
from functools import partial
from typing import Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends.host import VisibleMemory, over
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import (
    DEVICE_LOCAL,
    HOST_CACHED,
    HOST_COHERENT,
    HOST_VISIBLE,
    Kind,
    Logical,
)
from quadrants_lab.backends.vulkan.queue import Queue

_USAGE = 1 | 2 | 0x20 | 0x100 | 0x20000  # source and target of copies, storage, indirect, device address
_DEVICE_ADDRESS = 0x2
SHARED_BYTES = 1 << 20  # the size of a block that small pieces share
SMALL = 1 << 16  # larger pieces get a block of their own
LEAST = 256


MAPPED = Kind(HOST_VISIBLE | HOST_COHERENT, (DEVICE_LOCAL, HOST_CACHED))
STAGING = Kind(HOST_VISIBLE | HOST_COHERENT, (HOST_CACHED,))
REMOTE = Kind(DEVICE_LOCAL, unlike=HOST_VISIBLE)


class Block:
    """A VkBuffer with its own memory. ``host``: the address at which the host has it mapped, 0 if it is not mapped."""

    def __init__(self, logical: Logical, nbytes: int, kind: Kind) -> None:
        f, vk, device = api.ffi(), api.lib(), logical.handle
        self.logical = logical
        self.nbytes = nbytes
        what = f"making a buffer of {nbytes} bytes"
        self.buffer = api.create("Buffer", device, what, size=nbytes, usage=_USAGE)[0]
        needs = f.new("VkMemoryRequirements *")
        vk.vkGetBufferMemoryRequirements(device, self.buffer, needs)
        flags = api.new("VkMemoryAllocateFlagsInfo", flags=_DEVICE_ADDRESS)
        type = logical.memory_type(kind, needs.memoryTypeBits)
        allocation = api.new("VkMemoryAllocateInfo", pNext=flags, allocationSize=needs.size, memoryTypeIndex=type)
        memory = f.new("VkDeviceMemory *")
        result = vk.vkAllocateMemory(device, allocation, f.NULL, memory)
        if result:
            vk.vkDestroyBuffer(device, self.buffer, f.NULL)
            api.check(result, f"allocating {nbytes} bytes")
        self.memory = memory[0]
        api.check(vk.vkBindBufferMemory(device, self.buffer, self.memory, 0), "binding memory")
        self.host = 0
        if kind.must & HOST_VISIBLE:
            data = f.new("void **")
            api.check(vk.vkMapMemory(device, self.memory, 0, api.WHOLE, 0, data), f"mapping {nbytes} bytes")
            self.host = int(f.cast("uintptr_t", data[0]))
        asked = api.new("VkBufferDeviceAddressInfo", buffer=self.buffer)
        self.address = int(vk.vkGetBufferDeviceAddress(device, asked))
        forks.finalize(self, logical.queue.defer_free, partial(_free, logical, self.buffer, self.memory))


def _free(logical: Logical, buffer: Any, memory: Any) -> None:
    f, vk = api.ffi(), api.lib()
    vk.vkDestroyBuffer(logical.handle, buffer, f.NULL)
    vk.vkFreeMemory(logical.handle, memory, f.NULL)


class Piece:
    """A part of a block. It is freed when no object, not even an array, refers to it."""

    def __init__(self, block: Block, offset: int, nbytes: int) -> None:
        self.block = block
        self.offset = offset
        self.nbytes = nbytes
        self.address = block.address + offset

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """An array over the memory, which keeps the piece alive."""
        return over(self, self.block.host + self.offset, shape, dtype)


class Pool:
    """Allocates pieces of one kind of memory. A piece of at most SMALL bytes is rounded up to a power of two and taken
    from a shared block. A freed piece is used again when no launch uses it any more."""

    def __init__(self, logical: Logical, kind: Kind) -> None:
        self.logical = logical
        self.kind = kind
        self._free: dict[int, list[tuple[Block, int]]] = {}
        self._hosts: list[int] = []  # the host addresses of mapped blocks, sorted
        self._blocks: dict[int, weakref.ref[Block]] = {}

    def take(self, nbytes: int) -> Piece:
        if nbytes > SMALL:
            return Piece(self._block(-(-nbytes // LEAST) * LEAST), 0, nbytes)
        size = max(LEAST, 1 << (max(nbytes, 1) - 1).bit_length())
        free = self._free.setdefault(size, [])
        if not free:
            block = self._block(SHARED_BYTES)
            free += [(block, at) for at in reversed(range(0, SHARED_BYTES, size))]
        block, at = free.pop()
        piece = Piece(block, at, nbytes)
        forks.finalize(piece, self.logical.queue.defer_free, partial(free.append, (block, at)))
        return piece

    def _block(self, nbytes: int) -> Block:
        block = Block(self.logical, nbytes, self.kind)
        if block.host and block.host not in self._blocks:  # an earlier block may have had the same address
            bisect.insort(self._hosts, block.host)
        if block.host:
            self._blocks[block.host] = weakref.ref(block)
        return block

    def locate(self, host: int, nbytes: int) -> int:
        """The device address of host memory that a block is mapped to; 0 for other memory of the host."""
        n = bisect.bisect_right(self._hosts, host) - 1
        if n < 0:
            return 0
        start = self._hosts[n]
        block = self._blocks[start]()
        if block is None:
            del self._hosts[n], self._blocks[start]
            return self.locate(host, nbytes)
        inside = host + nbytes <= start + block.nbytes
        return block.address + host - start if inside else 0


class MappedMemory(VisibleMemory):
    """The memory of an array that the host sees; see `quadrants_lab.backends.launch.Memory`."""

    late = True

    def __init__(self, queue: Queue, piece: Piece, shape: tuple[int, ...], dtype: Any) -> None:
        self._queue = queue
        ctypes.memset(piece.block.host + piece.offset, 0, piece.nbytes)
        super().__init__(piece.array(shape, dtype), piece.address)

    @property
    def busy(self) -> bool:
        return self._queue.busy

    def finish(self) -> None:
        self._queue.finish()
