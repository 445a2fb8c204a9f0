"""Device memory that the host sees, too: blocks from the driver, small arrays side by side in shared blocks."""

from __future__ import annotations

import bisect
import ctypes
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends.host import VisibleMemory
from quadrants_lab.backends.vulkan import api

if TYPE_CHECKING:
    from quadrants_lab.backends.vulkan.logical import Logical
    from quadrants_lab.backends.vulkan.queue import Queue

DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
_USAGE = 0x20 | 0x100 | 0x20000  # storage, indirect, device address
_DEVICE_ADDRESS = 0x2
SHARED_BYTES = 1 << 20  # of a block that small pieces share
SMALL = 1 << 16  # bytes of the largest piece in a shared block
LEAST = 256


class Block:
    """A buffer with its own memory. ``host`` is where it is mapped."""

    def __init__(self, logical: Logical, nbytes: int) -> None:
        f, vk, device = api.ffi(), api.lib(), logical.handle
        self.logical = logical
        self.nbytes = nbytes
        info = api.new("VkBufferCreateInfo", size=nbytes, usage=_USAGE)
        made = f.new("VkBuffer *")
        api.check(vk.vkCreateBuffer(device, info, f.NULL, made), f"making a buffer of {nbytes} bytes")
        self.buffer = made[0]
        needs = f.new("VkMemoryRequirements *")
        vk.vkGetBufferMemoryRequirements(device, self.buffer, needs)
        flags = api.new("VkMemoryAllocateFlagsInfo", flags=_DEVICE_ADDRESS)
        kind = logical.memory_type(needs.memoryTypeBits)
        allocation = api.new(
            "VkMemoryAllocateInfo", pNext=flags, allocationSize=needs.size, memoryTypeIndex=kind
        )
        memory = f.new("VkDeviceMemory *")
        result = vk.vkAllocateMemory(device, allocation, f.NULL, memory)
        if result:
            vk.vkDestroyBuffer(device, self.buffer, f.NULL)
            api.check(result, f"allocating {nbytes} bytes")
        self.memory = memory[0]
        api.check(vk.vkBindBufferMemory(device, self.buffer, self.memory, 0), "binding memory")
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
    """A stretch of a block; it goes back when nothing refers to it, arrays over it included."""

    def __init__(self, block: Block, offset: int, nbytes: int) -> None:
        self.block = block
        self.offset = offset
        self.nbytes = nbytes
        self.address = block.address + offset

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """A view of the memory that keeps the piece."""
        owner = _Shared(self, shape, np.dtype(dtype))
        made: np.ndarray[Any, Any] = np.asarray(owner)
        return made


class _Shared:
    def __init__(self, piece: Piece, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.piece = piece
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": dtype.str, "data": (piece.block.host + piece.offset, False),
        }  # fmt: skip


class Pool:
    """Pieces of any size. Those up to SMALL come in powers of two from shared blocks, and go back there when no launch
    uses them any more: words of other launches may lie where they lay."""

    def __init__(self, logical: Logical) -> None:
        self.logical = logical
        self._free: dict[int, list[tuple[Block, int]]] = {}
        self._hosts: list[int] = []  # addresses of blocks on the host, in order
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
        block = Block(self.logical, nbytes)
        if block.host not in self._blocks:  # one that is gone may have been there
            bisect.insort(self._hosts, block.host)
        self._blocks[block.host] = weakref.ref(block)
        return block

    def locate(self, host: int, nbytes: int) -> int:
        """Device address of host memory that is mapped from here; 0 for other memory."""
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


class VulkanMemory(VisibleMemory):
    """Memory of an array; see `quadrants_lab.backends.launch.Memory`."""

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
