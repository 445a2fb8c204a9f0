"""Provides internals of Quadrants that programs use: `qd.cfg`, `qd.lang.impl.current_cfg()` and `get_runtime()`,
and functions about this machine that Quadrants has in `qd.lang.misc` and `qd.interop`."""

from typing import Any

from quadrants_lab.lang.arch import Arch, cpu, why_not
from quadrants_lab.lang.config import WITHOUT_EFFECT, change_option, sync
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401
from quadrants_lab.runtime import session

_CLOCK_RATE = 13  # CU_DEVICE_ATTRIBUTE_CLOCK_RATE, in kHz


class Config:
    """The options of the current session as attributes, under their names in `qd.init`, and ``arch``. An option of
    kernels can be assigned, and applies to later launches; any other option can be set by `qd.init` only."""

    def __getattr__(self, name: str) -> Any:
        options = _options()
        if name not in options:
            raise AttributeError(f"qd.init has no option {name!r}")
        return options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        change_option(name, value)

    def __dir__(self) -> list[str]:
        return sorted(_options())

    def __repr__(self) -> str:
        return "\n".join(f"{name}={getattr(self, name)}" for name in dir(self))


class Runtime:
    """The part of Quadrants' runtime object that programs use."""

    short_circuit_operators = True
    print_full_traceback = property(lambda self: bool(current_cfg().print_full_traceback))
    default_fp = property(lambda self: current_cfg().default_fp)
    default_ip = property(lambda self: current_cfg().default_ip)

    @property
    def prog(self) -> session.Session:
        """The current session; raises an error if there is none."""
        return session.current()

    def sync(self) -> None:
        sync()

    def materialize(self) -> None:
        """Does nothing: fields get their memory when they are placed."""


def _options() -> dict[str, Any]:
    return WITHOUT_EFFECT | session.current().settings.options


def current_cfg() -> Config:
    return cfg


def get_runtime() -> Runtime:
    return _runtime


def dump_compile_config() -> None:
    """Prints the options of the session, one a line."""
    print(cfg)


def is_arch_supported(arch: Arch) -> bool:
    """Whether kernels can run on this arch here."""
    return not why_not(arch, False)


def clock_freq_hz() -> float:
    """The nominal frequency of `qd.clock_counter` in Hz, of a GPU of NVIDIA's; NotImplementedError elsewhere."""
    now = session.current()
    driver: Any = getattr(now.device, "driver", None)
    khz = driver.attribute(_CLOCK_RATE) if now.settings.backend == "cuda" and hasattr(driver, "attribute") else 0
    if not khz:
        raise NotImplementedError(f"the frequency of the clock is not known on {now.settings.backend}")
    return float(khz) * 1e3


def get_mps_command_queue() -> int:
    """Always 0. In Quadrants it is a pointer to the command queue of PyTorch's MPS, or 0 if there is none; here kernels
    on Metal have a queue of their own, and PyTorch gives Python no pointer to its queue."""
    return 0


def get_host_arch_list() -> list[Arch]:
    return [cpu]


cfg = Config()
_runtime = Runtime()
