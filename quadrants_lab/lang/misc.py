"""`qd.lang.misc`: questions about this machine. It also has all names of `qd`."""

from typing import Any

from quadrants_lab.lang.arch import Arch, cpu as _cpu
from quadrants_lab.lang.config import why_not as _why_not
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401
from quadrants_lab.runtime import session as _session

_CLOCK_RATE = 13  # CU_DEVICE_ATTRIBUTE_CLOCK_RATE, in kHz


def is_arch_supported(arch: Arch) -> bool:
    """Whether kernels can run on this arch here."""
    return not _why_not(arch, False)


def clock_freq_hz() -> float:
    """The nominal frequency of `qd.clock_counter` in Hz, of a GPU of NVIDIA's; NotImplementedError elsewhere."""
    now = _session.current()
    driver: Any = getattr(now.device, "driver", None)
    khz = driver.attribute(_CLOCK_RATE) if now.settings.backend == "cuda" and hasattr(driver, "attribute") else 0
    if not khz:
        raise NotImplementedError(f"the frequency of the clock is not known on {now.settings.backend}")
    return float(khz) * 1e3


def get_host_arch_list() -> list[Arch]:
    return [_cpu]
