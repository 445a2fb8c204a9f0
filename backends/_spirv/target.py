"""Describes which capabilities a Vulkan device has beyond the minimum: Vulkan 1.2, 64-bit integers and buffer
device addresses."""

from dataclasses import dataclass

from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends._gpu.schedule import GpuSchedule
from quadrants_lab.backends.cost import GROUP
from quadrants_lab.backends.lower import devices
from quadrants_lab.ir.nodes import Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f32, f64


@dataclass(frozen=True, slots=True)
class Target:
    """What a device can do. Without a device, code is shown for the defaults.

    - ``preserve``, ``nearest``, ``flush``: the float widths for which the execution modes exist that keep NaN and
      infinity, round to nearest even, and flush denormals.
    - ``cuts_loops``: the driver ends long loops on its own, so code has to check whether it did.
    - ``lanes``: the driver runs so many threads of a group in one vector. If a group has fewer threads, llvmpipe waits
      in nested loops for the lanes of the vector that are no threads.
    - ``subgroups``: subgroup additions exist.
    - ``block``: the number of threads whose adstack slots are interleaved, a power of two up to 64.
    - ``barriers``: barriers are cheap enough for the threads of a group to share work.
    - ``in_step``: a thread runs several short iterations at once, so that their loads overlap.
    - ``aggregates``: the threads of a subgroup check whether they change the same element (`lower.aggregated_atomics`).
    - ``native_sine``: the device's own sine and cosine of f32 are off by at most 2**-21 between -pi and pi.
    - ``subgroup``: the number of neighbouring threads of a group that are sure to form a subgroup.
    """

    f64: bool = True
    f16: bool = True
    i16: bool = True
    i8: bool = True
    storage16: bool = True
    storage8: bool = True
    atomic_i64: bool = True
    atomic_f32_add: bool = True
    atomic_f64_add: bool = False
    preserve: tuple[int, ...] = (16, 32, 64)
    nearest: tuple[int, ...] = ()
    flush: tuple[int, ...] = ()
    cuts_loops: bool = False
    lanes: int = 1
    subgroups: bool = False
    block: int = 32
    barriers: bool = True
    in_step: bool = False
    aggregates: bool = False
    native_sine: bool = False
    subgroup: int = 1

    def first(self, options: CompileOptions) -> tuple[Pass, ...]:
        """See `devices.first`."""
        fast = options.fast_math
        schedule = GpuSchedule(4 if self.in_step else 0, self.subgroup if fast else 1, self.native_sine and fast)
        return devices.first(schedule, GROUP if self.barriers else 0)

    def lowering(self, options: CompileOptions) -> tuple[Pass, ...]:
        """The passes that replace what SPIR-V, or this device, does not have."""
        adds = tuple(t for t, can in ((f32, self.atomic_f32_add), (f64, self.atomic_f64_add)) if can)
        return devices.vulkan(
            self.first(options), self.native_sine, self.subgroups, adds, lower_failures, self.aggregates, options
        )


GENERIC = Target()

# capability of a module -> (the field of Target that says whether the device has it, what needs it in words)
NEEDS: dict[str, tuple[str, str]] = {
    "Float64": ("f64", "values of dtype f64"),
    "Float16": ("f16", "values of dtype f16"),
    "Int16": ("i16", "values of dtype i16 or u16"),
    "Int8": ("i8", "values of dtype i8 or u8, and u1 in fields and ndarrays"),
    "StorageBuffer16BitAccess": ("storage16", "16-bit elements of fields and ndarrays"),
    "StorageBuffer8BitAccess": ("storage8", "8-bit and u1 elements of fields and ndarrays"),
    "Int64Atomics": ("atomic_i64", "atomics on 64-bit elements"),
}


def missing(capabilities: list[str], target: Target) -> str:
    """In words, what a module needs and the device lacks; "" if nothing is missing."""
    lacking = [NEEDS[c] for c in capabilities if c in NEEDS and not getattr(target, NEEDS[c][0])]
    return ", ".join(dict.fromkeys(words for _, words in lacking))
