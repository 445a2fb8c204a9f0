"""Compiles kernels for each device: a folder for each device, and folders (``_NAME``) of the emitters that devices
share.

Every backend gives the runtime and the workbench two things: `Capabilities`, which say how its device differs from
others, and the `Stage`s of code generation.
"""

from quadrants_lab.ir.record import dataclass

if not __name__.startswith("quadrants_lab."):
    raise ImportError("this folder is the package quadrants_lab.backends: import it by that name")

DEFAULT = "cpu"  # the device that exists on every machine


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device can do. ``ad_unroll``: see `CompileOptions.ad_unroll`. ``on_host``: the device's memory is this
    process's, so any aligned numpy array can be a buffer; a launch has ended when it returns; and hardly more
    iterations are in flight than there are threads. ``suspects_races``: see `CompileOptions.suspect_races`. ``dlpack``:
    DLPack's code for the kind of device whose arrays kernels use in place, 0 for none. ``many``: there may be several
    devices, and `open_device` takes the index of one. ``blocks``: the threads of a block run at the same time, with
    shared memory of 32 KiB. ``checks_bounds``: every kernel is compiled with `CompileOptions.check_out_of_bound`.
    ``pages``: the device's memory is the host's, and the operating system allocates a page when it is first written
    (`backends.pages`). ``slots``: the device has other memory that starts as zero and is allocated only where it is
    used, so that a sparse layout with a table takes little memory (`ir.cell_order`)."""

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
    """The output of one stage of code generation. Every backend has a function ``stages`` that returns a list of these.

    ``ids`` holds, for each line of ``text``, the id of the IR statement that it came from, or -1. ``code_bytes`` is the
    size of the machine code (0 in other stages). ``instructions`` does not count labels, directives, comments and
    declarations; ``phis`` counts the instructions that merge values. ``registers`` maps a kind of register to the most
    that any program uses, if the stage knows.
    """

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
