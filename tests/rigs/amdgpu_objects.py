"""Properties of every code object, and of the relocatable object that it is linked from."""

from types import SimpleNamespace

from quadrants_lab.backends._gpu.programs import programs
from quadrants_lab.backends._simt.executable import SimtExecutable
from quadrants_lab.backends._simt.shape import State
from quadrants_lab.backends.amdgpu import SHAPE, WAVES, hsaco, toolkit
from quadrants_lab.backends.disk_cache import forget
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

# e_flags as LLVM's "User Guide for AMDGPU Backend" has them: the processor; whatever XNACK and SRAMECC are
_FLAGS = {"gfx90a": 0x53F, "gfx942": 0x54C, "gfx1100": 0x041}
_RELOCATABLE, _SHARED = 1, 3
_AMDGPU = 224  # e_machine
_UNDEFINED = 0
MOST_REGISTERS = {64: 512, 32: 256}  # of a thread, by the threads of a wave


def check(obj: bytes, kernel: N.Kernel, chip: str) -> hsaco.CodeObject:
    """A relocatable object of the kernel; links it where a linker is found. Returns what was read."""
    read = hsaco.CodeObject(obj)
    assert read.kind == _RELOCATABLE
    _agrees(read, kernel, chip)
    if not toolkit.missing_linker():
        code = hsaco.linked(obj)
        made = hsaco.CodeObject(code)
        assert made.kind == _SHARED
        _agrees(made, kernel, chip)
        assert made.programs == read.programs
    return read


def _agrees(read: hsaco.CodeObject, kernel: N.Kernel, chip: str) -> None:
    exe = SimtExecutable(kernel, CompileOptions(), SimpleNamespace(shape=SHAPE), b"", forget)
    frame = State(kernel).layout.size
    words = frame if SHAPE.passed_by_value(frame) else 8
    assert read.machine == _AMDGPU
    assert read.chip_flags == _FLAGS[chip]
    assert read.metadata["amdhsa.target"] == f"amdgcn-amd-amdhsa--{chip}"
    assert read.metadata["amdhsa.version"] == [1, 2]  # of code object version 5
    assert [p.name for p in read.programs] == [p.name for p in programs(kernel)]
    for program, made, about in zip(exe.programs, read.programs, read.metadata["amdhsa.kernels"], strict=True):
        assert [(a[".offset"], a[".size"]) for a in about[".args"]] == [(0, 8), (8, words)]  # and none that are hidden
        assert made.arguments == 8 + words
        assert about[".max_flat_workgroup_size"] == exe.group(program)
        assert about[".symbol"] == f"{program.name}.kd"
        assert not about[".uses_dynamic_stack"]
        assert made.wave == WAVES[chip]
        assert made.vgprs <= MOST_REGISTERS[made.wave]
        assert made.code > 0
    assert undefined(read) == []


def undefined(read: hsaco.CodeObject) -> list[str]:
    """Names of functions that the object calls and does not have."""
    return [s.name for s in read.symbols() if s.name and s.section == _UNDEFINED]


def instructions(read: hsaco.CodeObject, program: str) -> bytes:
    """The machine code of a program."""
    symbol = next(s for s in read.symbols() if s.name == program)
    section = read.sections[symbol.section]
    return read.data[section.offset + symbol.at - section.address :][: symbol.size]
