"""What ELF files are made of. The format is in the System V ABI."""

from __future__ import annotations

import struct
from typing import NamedTuple

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMBOLS, RELOCATIONS = 2, 4  # kinds of sections
FUNCTION = 2  # a kind of symbols


class Section(NamedTuple):
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
