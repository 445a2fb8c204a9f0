"""Opens the logical device (VkDevice), with its memory types, command buffers, and the pipeline cache on disk."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends.disk_cache import DiskCache, Keep, forget, key
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.queue import SECONDARY, Queue, Submission, command_buffer, command_pool

_LAST_WAIT = 1_000_000_000  # how many nanoseconds to wait for running launches before the device is destroyed
_SIMULTANEOUS_USE = 4
_CACHE_HEADER = (32).to_bytes(4, "little") + (1).to_bytes(4, "little")  # the length of the header, and its version
DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
_BOTH = DEVICE_LOCAL | HOST_VISIBLE | HOST_CACHED
_COMPUTE, _COPYING = 0x800, 0x1000  # pipeline stages
_ALL = _COMPUTE | _COPYING | 0x4000 | 0x2  # ... and the stages of the host and of indirect launches
_SHADER_WRITE, _COPY_WRITE = 0x40, 0x1000
_ANYTHING = 0x20 | 0x40 | 0x1 | 0x2000 | 0x800 | 0x1000  # access by shaders, indirect launches, the host and copies


@dataclass(frozen=True)
class Kind:
    """What is required of a memory type: property flags that it must have, flags that it should have (the most
    important first), and flags that it should not have."""

    must: int
    like: tuple[int, ...] = ()
    unlike: int = 0

    def best(self, types: Sequence[int], allowed: int) -> int | None:
        """The index of the best of a device's memory types; None if none is usable. ``allowed``: a bit for each type
        that may be chosen."""

        def rank(n: int) -> tuple[bool, ...]:
            return (*(bool(types[n] & flag) for flag in self.like), not types[n] & self.unlike)

        usable = [n for n, flags in enumerate(types) if allowed >> n & 1 and flags & self.must == self.must]
        return max(usable, key=lambda n: (rank(n), -n), default=None)


class Logical:
    """An opened logical device. ``handle``: the VkDevice. ``discrete``: whether the host reads the device's own
    memory slowly or not at all."""

    def __init__(self, physical: api.Physical, cache: DiskCache) -> None:
        f, vk = api.ffi(), api.lib()
        self.physical = physical
        self.handle = self._create()
        handle = f.new("VkQueue *")
        vk.vkGetDeviceQueue(self.handle, physical.queue_family, 0, handle)
        self.queue = Queue(self.handle, handle[0], physical.queue_family)
        self._types = self._memory_types()
        self.discrete = not any(flags & _BOTH == _BOTH for flags in self._types)
        self.command_pool = command_pool(self.handle, physical.queue_family)
        self._spare: list[Any] = []  # unused command buffers of that pool
        name = key("vulkan pipelines", physical.identity)
        known = cache.get(name) or b""
        self.pipeline_cache = self._make_cache(known)
        keep = cache.keeper(name) if cache.folder is not None else forget
        pools, queue = (self.queue.pool, self.command_pool), self.queue
        owned = queue.running, queue.pending_frees, queue.fences, pools, self.pipeline_cache
        forks.finalize(self, _destroy, self.handle, *owned, known, keep)

    def _create(self) -> Any:
        f = api.ffi()
        physical = self.physical
        first, chain = api.feature_chain(physical.extensions)
        for struct in (f.addressof(first, "features"), *chain):
            fields = {n for n, _ in f.typeof(struct).item.fields}
            for feature in api.WANTED:
                if feature in fields and feature in physical.features:
                    setattr(struct, feature, 1)
        priority = f.new("float[]", [1.0])
        queue = api.new(
            "VkDeviceQueueCreateInfo", queueFamilyIndex=physical.queue_family, queueCount=1, pQueuePriorities=priority
        )
        wanted = ("VK_EXT_shader_atomic_float", "VK_KHR_portability_subset")
        names = [f.new("char[]", n.encode()) for n in wanted if n in physical.extensions]
        array = f.new("char *[]", names)
        return api.create(
            "Device", physical.handle, f"starting {physical.name}", pNext=first, queueCreateInfoCount=1,
            pQueueCreateInfos=queue, enabledExtensionCount=len(names), ppEnabledExtensionNames=array,
        )[0]  # fmt: skip

    def _memory_types(self) -> list[int]:
        found = api.ffi().new("VkPhysicalDeviceMemoryProperties *")
        api.lib().vkGetPhysicalDeviceMemoryProperties(self.physical.handle, found)
        return [int(found.memoryTypes[n].propertyFlags) for n in range(found.memoryTypeCount)]

    def memory_type(self, kind: Kind, allowed: int) -> int:
        """The index of the best memory type of a kind. ``allowed``: a bit for each type that may be chosen."""
        best = kind.best(self._types, allowed)
        if best is None:
            raise RuntimeError(f"{self.physical.name} has no memory of the kind that is needed ({kind})")
        return best

    # --- running -----------------------------------------------------------------------------------------------

    def record(self, write: Callable[[Any], None], made: Any = None) -> Any:
        """Records the commands that ``write`` makes in a secondary command buffer: in ``made``, if no launch uses that
        any more, or in a new one. Returns a pointer to the command buffer."""
        vk = api.lib()
        if made is None:
            made = self._spare.pop() if self._spare else command_buffer(self.handle, self.command_pool, SECONDARY)
        api.check(vk.vkBeginCommandBuffer(made[0], _beginning()[0]), "beginning a command buffer")
        write(made[0])
        api.check(vk.vkEndCommandBuffer(made[0]), "recording a command buffer")
        return made

    def free_commands(self, commands: Any) -> None:
        """Marks a command buffer for reuse by `record` as soon as nothing runs. It is not returned to its pool, since
        this would have to wait for other threads that record."""
        self.queue.defer_free(partial(self._spare.append, commands))

    # --- pipeline cache ----------------------------------------------------------------------------------------

    def _make_cache(self, data: bytes) -> Any:
        """A driver's cache that is filled with the data stored by another process; the driver checks whether the data
        fit."""
        f = api.ffi()
        if not data.startswith(_CACHE_HEADER) or len(data) < _CACHE_HEADER[0]:
            data = b""
        kept = f.new("char[]", data) if data else f.NULL
        what = "making a pipeline cache"
        return api.create("PipelineCache", self.handle, what, initialDataSize=len(data), pInitialData=kept)[0]


def barrier(commands: Any, *, copied: bool = False) -> None:
    """Records a barrier: commands after it see what programs, or with ``copied`` also copies, before it have written.
    """
    null = api.ffi().NULL
    stage, access = (_COPYING, _COPY_WRITE) if copied else (_COMPUTE, _SHADER_WRITE)
    api.lib().vkCmdPipelineBarrier(commands, stage, _ALL, 0, 1, _after(access), 0, null, 0, null)


@cache
def _after(access: int) -> Any:
    return api.new("VkMemoryBarrier", srcAccessMask=access, dstAccessMask=_ANYTHING)


@cache
def _beginning() -> tuple[Any, Any]:
    """The structure with which recording of a command buffer begins, and the structure that it points to."""
    inherited = api.new("VkCommandBufferInheritanceInfo")
    return api.new("VkCommandBufferBeginInfo", flags=_SIMULTANEOUS_USE, pInheritanceInfo=inherited), inherited


def _destroy(
    handle: Any, running: list[Submission], frees: deque[Callable[[], None]], fences: list[Any],
    pools: tuple[Any, ...], cache: Any, known: bytes, keep: Keep,
) -> None:  # fmt: skip
    f, vk = api.ffi(), api.lib()
    for submission in running:
        if vk.vkWaitForFences(handle, 1, submission.fences, 1, _LAST_WAIT):
            return  # the device is lost or still runs; it is destroyed when the process ends
    while frees:
        frees.popleft()()
    if keep is not forget and (data := _cache_data(handle, cache)) not in (b"", known):
        keep(data)
    vk.vkDestroyPipelineCache(handle, cache, f.NULL)
    for pool in pools:
        vk.vkDestroyCommandPool(handle, pool, f.NULL)
    for fence in fences:
        vk.vkDestroyFence(handle, fence, f.NULL)
    vk.vkDestroyDevice(handle, f.NULL)


def _cache_data(handle: Any, cache: Any) -> bytes:
    """The data of the driver's pipeline cache; empty if the driver returns none."""
    f, vk = api.ffi(), api.lib()
    size = f.new("size_t *")
    if vk.vkGetPipelineCacheData(handle, cache, size, f.NULL) or not size[0]:
        return b""
    data = f.new("char[]", size[0])
    if vk.vkGetPipelineCacheData(handle, cache, size, data):
        return b""
    return bytes(f.buffer(data, size[0]))
