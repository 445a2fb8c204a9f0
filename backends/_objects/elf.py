"""The parts of an ELF file, as the System V ABI defines them."""

import struct

from quadrants_lab.ir.record import dataclass

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
PROGBITS, SYMBOLS, RELOCATIONS = 1, 2, 4  # kinds of sections
FUNCTION = 2  # a kind of symbols


@dataclass(slots=True)
class Section:
    """A row of the section table."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int

    def of(self, data: bytes) -> bytes:
        return data[self.offset : self.offset + self.size]


def sections(data: bytes) -> list[Section]:
    """The section table of a 64-bit little-endian file."""
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    return [Section(*SECTION.unpack_from(data, at + n * size)) for n in range(count)]
