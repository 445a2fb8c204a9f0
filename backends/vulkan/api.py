"""Calls Vulkan through the package `vulkan`: its C functions, structures by name, and the physical devices of this
machine.

If a call of Vulkan fails, it raises RuntimeError, or MemoryError, with the name of Vulkan's result code.
"""

import os
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from quadrants_lab.backends import forks
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.backends.vulkan import manifests

API_VERSION = (1 << 22) | (2 << 12)  # 1.2
WHOLE = 2**64 - 1
CPU, INTEGRATED, DISCRETE, VIRTUAL = 4, 1, 2, 3
COMPUTE_QUEUE = 2
COMPUTE_STAGE = 32
ADDING, VOTING = 1 | 4, 2  # subgroup operations: election and arithmetic; comparison of values
NVIDIA, LLVMPIPE = 4, 13  # VkDriverId
LLVMPIPE_LANES = 16  # how many 32-bit values a vector of llvmpipe has at most (with AVX-512)
LLVMPIPE_ROUNDS = 65535  # llvmpipe ends a thread's loops after so many trips together;
UNCUT = (25, 0)  # later versions of Mesa do not (22.3 does, 25.0 does not)
# later versions of Mesa execute loads of the arm of an if that is not taken (26.2 does, 25.0 does not)
BOTH_ARMS = (26, 0)
MOST_IN_BLOCK = 64
_MESA_ROOM = 4 << 20
_KINDS = {CPU: "cpu", INTEGRATED: "integrated", DISCRETE: "discrete", VIRTUAL: "virtual"}
_FLOAT_EXTENSIONS = ("VK_EXT_shader_atomic_float",)


@cache
def package() -> Any:
    """The Python package `vulkan`. Raises ImportError if it is missing, and OSError if the Vulkan loader is missing."""
    import vulkan

    return vulkan


def ffi() -> Any:
    return package().ffi


def lib() -> Any:
    return package().lib


def new(name: str, **fields: Any) -> Any:
    """A structure of Vulkan with these fields, and its sType if it has one. The caller must keep alive what its
    pointers point to."""
    made = ffi().new(name + " *")
    kind = _structure_type(name)
    if kind is not None:
        made.sType = kind
    for key, value in fields.items():
        setattr(made, key, value)
    return made


@cache
def _structure_type(name: str) -> int | None:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-zA-Z])(?=\d\d)|(?<=Float)(?=2)", "_", name[2:]).upper()
    words = re.sub(r"VULKAN_(\d)(\d)", r"VULKAN_\1_\2", words)
    words = re.sub(r"(FEATURES|PROPERTIES)2$", r"\1_2", words)
    found = getattr(package(), "VK_STRUCTURE_TYPE_" + words, None)
    return None if found is None else int(found)


@cache
def _results() -> dict[int, str]:
    kinds = ("VK_ERROR_", "VK_TIMEOUT", "VK_NOT_READY", "VK_INCOMPLETE")
    values = {n: getattr(package(), n) for n in sorted(dir(package()), reverse=True) if n.startswith(kinds)}
    return {int(v): n for n, v in values.items() if v is not None}


def create(kind: str, device: Any, what: str, **fields: Any) -> Any:
    """Makes an object of this kind on the device; returns a pointer to its handle. ``fields``: the fields of its
    structure; ``what``: see `check`."""
    made, info = ffi().new(f"Vk{kind} *"), new(f"Vk{kind}CreateInfo", **fields)
    check(getattr(lib(), f"vkCreate{kind}")(device, info, ffi().NULL, made), what)
    return made


OUT_OF_MEMORY = (-1, -2)
DEVICE_LOST = -4


def result_name(result: int) -> str:
    return _results().get(result, f"VkResult {result}")


def check(result: int, what: str) -> None:
    """Raises MemoryError or RuntimeError unless the result is VK_SUCCESS. ``what``: the operation, in words."""
    if result == 0:
        return
    if result in OUT_OF_MEMORY:
        raise MemoryError(f"Vulkan ran out of memory {what} ({result_name(result)})")
    if result == DEVICE_LOST:
        raise RuntimeError(f"Vulkan lost the device {what}; qd.init() starts it anew ({result_name(result)})")
    raise RuntimeError(f"Vulkan failed {what} ({result_name(result)})")


# --- physical devices -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Physical:
    """A device that Vulkan lists. ``lacks``: the requirements that it does not meet, in words; "" if it can be used.

    ``handle``: the VkPhysicalDevice; ``queue_family``: the index of a queue family that can compute; ``identity``: a
    text that names device and driver; ``runs_both_arms``: if all threads take one arm of an if, the device executes
    loads of the other arm too, and a load outside of memory ends the process.
    """

    handle: Any
    name: str
    kind: int
    lacks: str
    target: Target
    queue_family: int
    extensions: frozenset[str]
    features: frozenset[str]
    identity: str
    runs_both_arms: bool = False

    def __str__(self) -> str:
        lacks = f", lacks {self.lacks}" if self.lacks else ""
        return f"{self.name} ({_KINDS.get(self.kind, 'other')}){lacks}"


@cache
def instance() -> Any:
    """The instance, which lives as long as the process."""
    if not _mesa_has_room():
        os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")
    faults = manifests.faults()
    words = "; ".join(x.words for x in faults)
    if any(x.crashes for x in faults):
        raise RuntimeError(f"Vulkan's drivers cannot be loaded: {words}")
    f, vk = ffi(), lib()
    app = new("VkApplicationInfo", apiVersion=API_VERSION)
    info = new("VkInstanceCreateInfo", pApplicationInfo=app)
    portability = f.new("char[]", b"VK_KHR_portability_enumeration")
    names = f.new("char *[]", [portability])
    found = _list("VkExtensionProperties", vk.vkEnumerateInstanceExtensionProperties, f.NULL)
    if any(f.string(e.extensionName) == b"VK_KHR_portability_enumeration" for e in found):
        info.flags, info.enabledExtensionCount, info.ppEnabledExtensionNames = 1, 1, names
    made = f.new("VkInstance *")
    result = vk.vkCreateInstance(info, f.NULL, made)
    if result and words:
        raise RuntimeError(f"Vulkan failed creating an instance ({result_name(result)}): {words}")
    check(result, "creating an instance")
    return made[0]


def _list(type: str, call: Any, *args: Any) -> list[Any]:
    """The items that a function of Vulkan enumerates; it is called twice, first for their number."""
    f = ffi()
    count = f.new("uint32_t *")
    call(*args, count, f.NULL)
    items = f.new(f"{type}[]", count[0])
    call(*args, count, items)
    return [items[n] for n in range(count[0])]


def _mesa_has_room() -> bool:
    """Whether the disk has room for Mesa's shader cache, a mapped file: older versions crash the process without it."""
    shared = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get("MESA_SHADER_CACHE_DIR") or shared
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        disk = os.statvfs(folder or ".")
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize >= _MESA_ROOM


def physical_devices() -> tuple[Physical, ...]:
    """All devices in Vulkan's order. Raises QuadrantsRuntimeError in a fork of the process that listed them first."""
    _home().check("Vulkan")
    return _devices()


@cache
def _home() -> forks.Home:
    return forks.Home()


@cache
def _devices() -> tuple[Physical, ...]:
    return tuple(map(_describe, _list("VkPhysicalDevice", lib().vkEnumeratePhysicalDevices, instance())))


def _flags(struct: Any) -> set[str]:
    """The names of the fields of a structure that are set."""
    fields = ffi().typeof(struct).item.fields
    return {n for n, t in fields if t.type.kind == "primitive" and n != "sType" and getattr(struct, n) == 1}


def _describe(handle: Any) -> Physical:
    f, vk = ffi(), lib()
    found = _list("VkExtensionProperties", vk.vkEnumerateDeviceExtensionProperties, handle, f.NULL)
    extensions = frozenset(f.string(e.extensionName).decode() for e in found)
    properties = new("VkPhysicalDeviceProperties2")
    more = new("VkPhysicalDeviceVulkan12Properties")
    groups = new("VkPhysicalDeviceVulkan11Properties", pNext=more)
    plain = f.new("VkPhysicalDeviceProperties *")
    vk.vkGetPhysicalDeviceProperties(handle, plain)
    name = f.string(plain.deviceName).decode()
    families = _list("VkQueueFamilyProperties", vk.vkGetPhysicalDeviceQueueFamilyProperties, handle)
    computes = [n for n, q in enumerate(families) if q.queueFlags & COMPUTE_QUEUE]
    version = f"{plain.apiVersion >> 22}.{plain.apiVersion >> 12 & 0x3FF}"
    if plain.apiVersion < API_VERSION or not computes:
        lacks = f"Vulkan 1.2 (it has {version})" if computes else "a queue that computes"
        return Physical(handle, name, plain.deviceType, lacks, Target(), 0, extensions, frozenset(), name)
    properties.pNext = groups
    vk.vkGetPhysicalDeviceProperties2(handle, properties)
    first, chain = feature_chain(extensions)
    vk.vkGetPhysicalDeviceFeatures2(handle, first)
    features = frozenset().union(*map(_flags, (f.addressof(first, "features"), *chain)))
    lacks = " and ".join(words for feature, words in _REQUIRED.items() if feature not in features)
    driver = f.string(more.driverName).decode() + " " + f.string(more.driverInfo).decode()
    identity = f"{name}, {driver}, {plain.vendorID:x}:{plain.deviceID:x}:{plain.driverVersion:x}"
    sums = groups.subgroupSupportedStages & COMPUTE_STAGE and groups.subgroupSupportedOperations & ADDING == ADDING
    llvmpipe = more.driverID == LLVMPIPE
    target = replace(
        _target(features, _flags(more), more), cuts_loops=llvmpipe and _mesa(driver) < UNCUT, barriers=not llvmpipe,
        in_step=not llvmpipe, lanes=LLVMPIPE_LANES if llvmpipe else 1, subgroups=bool(sums),
        block=min(max(groups.subgroupSize, 1), MOST_IN_BLOCK),
        aggregates=bool(sums and groups.subgroupSupportedOperations & VOTING and not llvmpipe),
        native_sine=more.driverID == NVIDIA,
        subgroup=groups.subgroupSize if more.driverID == NVIDIA and sums else 1,
    )  # fmt: skip
    both = llvmpipe and _mesa(driver) >= BOTH_ARMS
    return Physical(handle, name, plain.deviceType, lacks, target, computes[0], extensions, features, identity, both)


def _mesa(driver: str) -> tuple[int, ...]:
    """The version of Mesa, read from the driver's description."""
    found = re.search(r"Mesa (\d+)\.(\d+)", driver)
    return tuple(map(int, found.groups())) if found else (0, 0)


def feature_chain(extensions: frozenset[str]) -> tuple[Any, list[Any]]:
    """VkPhysicalDeviceFeatures2, and the list of structures that are chained to it."""
    names = ["VkPhysicalDeviceVulkan11Features", "VkPhysicalDeviceVulkan12Features"]
    if extensions.issuperset(_FLOAT_EXTENSIONS):
        names.append("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT")
    chain = [new(n) for n in names]
    first = new("VkPhysicalDeviceFeatures2", pNext=chain[0])
    for a, b in pairwise(chain):
        a.pNext = b
    return first, chain


_REQUIRED = {"shaderInt64": "64-bit integers", "bufferDeviceAddress": "buffer device addresses"}
_OPTIONAL = {  # field of Target -> the feature that it stands for
    "f64": "shaderFloat64", "f16": "shaderFloat16", "i16": "shaderInt16", "i8": "shaderInt8",
    "storage16": "storageBuffer16BitAccess", "storage8": "storageBuffer8BitAccess",
    "atomic_i64": "shaderBufferInt64Atomics", "atomic_f32_add": "shaderBufferFloat32AtomicAdd",
    "atomic_f64_add": "shaderBufferFloat64AtomicAdd",
}  # fmt: skip
WANTED = (*_REQUIRED, *_OPTIONAL.values())  # the features that are enabled if a device has them


def _target(features: frozenset[str], controls: set[str], properties: Any) -> Target:
    def widths(prefix: str) -> tuple[int, ...]:
        return tuple(n for n in (16, 32, 64) if f"{prefix}Float{n}" in controls)

    independent = properties.denormBehaviorIndependence == 1 and properties.roundingModeIndependence == 1
    return Target(
        **{field: feature in features for field, feature in _OPTIONAL.items()},
        preserve=widths("shaderSignedZeroInfNanPreserve"),
        nearest=widths("shaderRoundingModeRTE") if independent else (),
        flush=widths("shaderDenormFlushToZero") if independent else (),
    )


def choose() -> Physical:
    """The device to use: the one with the index QD_VISIBLE_DEVICE; by default a discrete device before an integrated
    one before others."""
    devices = physical_devices()
    listing = "\n".join(f"  {n}: {d}" for n, d in enumerate(devices)) or "  none"
    asked = os.environ.get("QD_VISIBLE_DEVICE", "").strip()
    if asked:
        if not asked.isdigit() or int(asked) >= len(devices):
            raise RuntimeError(f"QD_VISIBLE_DEVICE is {asked!r}; Vulkan's devices are\n{listing}")
        chosen = devices[int(asked)]
        if chosen.lacks:
            raise RuntimeError(f"QD_VISIBLE_DEVICE names {chosen}; Vulkan's devices are\n{listing}")
        return chosen
    order = {DISCRETE: 0, INTEGRATED: 1, VIRTUAL: 2, CPU: 3}
    usable = sorted((d for d in devices if not d.lacks), key=lambda d: order.get(d.kind, 4))
    if not usable:
        raise RuntimeError(f"Vulkan has no device that kernels can run on:\n{listing}")
    return usable[0]
