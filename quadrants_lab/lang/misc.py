"""`qd.lang.misc`: questions about this machine. It also has all names of `qd`."""

from quadrants_lab.lang.arch import Arch, cpu as _cpu
from quadrants_lab.lang.config import why_not as _why_not
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401


def is_arch_supported(arch: Arch) -> bool:
    """Whether kernels can run on this arch here."""
    return not _why_not(arch, False)


def get_host_arch_list() -> list[Arch]:
    return [_cpu]
