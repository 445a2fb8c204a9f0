"""Links, reads and disassembles code objects (HSACO), the ELF files that AMD's runtime loads.

Their metadata is described in LLVM's "User Guide for AMDGPU Backend".
"""

import re
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from quadrants_lab.backends import tools
from quadrants_lab.backends.amdgpu import toolkit
from quadrants_lab.backends.linker import FUNCTION, SYMBOL, SYMBOLS, sections
from quadrants_lab.errors import QuadrantsRuntimeError

_METADATA_NOTE = 32
_NOTE = 7  # the type of a note section (SHT_NOTE)


@dataclass(frozen=True, slots=True)
class Resources:
    """What a program uses. ``vgprs``, ``agprs``: registers of a thread; ``sgprs``: registers of a wave; the spilled
    registers of a thread (to scratch memory) and of a wave (to lanes of a VGPR); bytes of a thread's scratch memory, of
    a group's LDS, and of arguments; threads in a wave; ``code``: bytes of instructions."""

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    spilled: int
    sgprs_spilled: int
    scratch: int
    lds: int
    arguments: int
    wave: int
    code: int

    def words(self) -> str:
        """All resources in one line."""
        accumulators = f" and {self.agprs} AGPRs" if self.agprs else ""
        registers = f"{self.vgprs} VGPRs{accumulators} ({self.spilled} spilled)"
        registers += f", {self.sgprs} SGPRs ({self.sgprs_spilled} spilled)"
        memory = f"{self.scratch} bytes scratch, {self.lds} bytes LDS, {self.arguments} bytes of arguments"
        return f"{self.name}: {self.code} bytes, {registers}, {memory}, waves of {self.wave}"


class Symbol(NamedTuple):
    """A symbol of an ELF file. ``section``: the index of its section, 0 where the symbol is undefined; ``at``: its
    address."""

    name: str
    kind: int
    section: int
    at: int
    size: int


class CodeObject:
    """A code object, or a relocatable object to link into one. ``chip_flags``: the flags of the ELF header;
    ``metadata``: the content of the note section; ``programs``: what each program uses."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        self.data = data
        self.kind, self.machine = struct.unpack_from("<HH", data, 16)
        (self.chip_flags,) = struct.unpack_from("<I", data, 48)
        self.sections = sections(data)
        self.metadata: dict[str, Any] = self._metadata()
        code = {s.name: s.size for s in self.symbols() if s.kind == FUNCTION}
        self.programs = tuple(_resources(k, code) for k in self.metadata["amdhsa.kernels"])

    def _metadata(self) -> dict[str, Any]:
        import msgpack  # a launch does not need this package

        for section in self.sections:
            if section.kind != _NOTE:
                continue
            at, end = section.offset, section.offset + section.size
            while at < end:
                name, size, kind = struct.unpack_from("<III", self.data, at)
                content = at + 12 + -(-name // 4) * 4
                if kind == _METADATA_NOTE and self.data[at + 12 :].startswith(b"AMDGPU\0"):
                    made: dict[str, Any] = msgpack.unpackb(self.data[content : content + size])
                    return made
                at = content + -(-size // 4) * 4
        raise ValueError("no metadata of AMD's")

    def symbols(self) -> list[Symbol]:
        """The entries of the symbol table."""
        out = []
        for section in self.sections:
            if section.kind == SYMBOLS:
                names = self.sections[section.link].of(self.data)
                for name, info, _, where, place, size in SYMBOL.iter_unpack(section.of(self.data)):
                    text = names[name : names.index(b"\0", name)].decode()
                    out.append(Symbol(text, info & 15, where, place, size))
        return out


def _resources(kernel: dict[str, Any], code: dict[str, int]) -> Resources:
    return Resources(
        kernel[".name"], kernel[".vgpr_count"], kernel.get(".agpr_count", 0), kernel[".sgpr_count"],
        kernel[".vgpr_spill_count"], kernel[".sgpr_spill_count"], kernel[".private_segment_fixed_size"],
        kernel[".group_segment_fixed_size"], kernel[".kernarg_segment_size"], kernel[".wavefront_size"],
        code.get(kernel[".name"], 0),
    )  # fmt: skip


# --- LLVM's tools -------------------------------------------------------------------------------------------------


def linked(obj: bytes) -> bytes:
    """Links a relocatable object to a code object.

    Raises QuadrantsRuntimeError if there is no linker, or with the linker's message if it fails.
    """
    lld = toolkit.linker()
    if not lld:
        raise QuadrantsRuntimeError(toolkit.missing_linker(), code="QL3011")
    return tools.made(lld, obj, f"{lld} refuses the object", "-shared")[0]


def disassembled(code: bytes, chip: str) -> str:
    """The disassembly by llvm-objdump; "" if there is no llvm-objdump that knows the chip."""
    objdump = toolkit.disassembler()
    if not objdump:
        return ""
    done = tools.listed(objdump, code, "-d", f"--mcpu={chip}")
    return done.stdout if not done.returncode and re.search(r"^\ts_endpgm", done.stdout, re.MULTILINE) else ""
