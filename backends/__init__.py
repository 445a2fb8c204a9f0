"""One folder for each device, and the emitters that devices share.

Every backend hands `Capabilities`, the differences between devices that matter to the runtime, and the `Stage`s of code
generation to the runtime and to the workbench.
"""

from quadrants_lab.ir.record import dataclass

if not __name__.startswith("quadrants_lab."):
    raise ImportError("this folder is the package quadrants_lab.backends: import it by that name")

DEFAULT = "cpu"  # the device that every machine has


@dataclass(frozen=True, slots=True)
class Capabilities:
    """``ad_unroll``: see `CompileOptions.ad_unroll`. ``on_host``: the device's memory is this process's, so any aligned
    numpy array can be a buffer; a launch has ended when it returns; and hardly more iterations are in flight than there
    are threads. ``suspects_races``: see `CompileOptions.suspect_races`. ``dlpack``: DLPack's number of the kind of
    device whose arrays kernels use in place, 0 for none. ``many``: there may be several devices, and `open_device`
    takes the number of one. ``blocks``: the threads of a block run at once, with shared memory of 32 KiB.
    ``checks_bounds``: every kernel is compiled with `CompileOptions.check_out_of_bound`. ``pages``: the device's memory
    is the host's, and the operating system makes a page when it is first written (`backends.pages`). ``slots``: the
    device has other memory that is zero and takes room only where it is used, so that a sparse layout with a table
    takes little (`ir.cell_order`)."""

    ad_unroll: tuple[int, int] = (1, 1)
    on_host: bool = False
    suspects_races: bool = False
    dlpack: int = 0
    many: bool = False
    blocks: bool = False
    checks_bounds: bool = False
    pages: bool = False
    slots: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """The output of one stage of code generation, as every backend's ``stages`` returns it.

    ``ids`` holds, for each line of ``text``, the id of the IR statement that it came from, or -1. ``code_bytes`` is the
    size of the machine code (0 in other stages). ``instructions`` does not count labels, directives, comments and
    declarations; ``phis`` counts the instructions that merge values. ``registers``: for each kind, the most registers
    that a program takes, if the stage knows."""

    name: str
    text: str
    ids: tuple[int, ...]
    instructions: int
    code_bytes: int = 0
    phis: int = 0
    registers: tuple[tuple[str, int], ...] = ()

    @property
    def bytes(self) -> int:
        return len(self.text.encode())

    @property
    def lines(self) -> int:
        return len(self.ids)
