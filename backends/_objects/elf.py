"""ELF files: kernels' objects and shared objects. The format is in the System V ABI, with its supplements for AMD64 and
AArch64, and in LLVM's "User Guide for AMDGPU Backend"."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from quadrants_lab.backends._objects import arm, require

MACHINES = {"x86_64": 62, "aarch64": 183, "amdgpu": 224}  # e_machine
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
PROGBITS, SYMBOLS, TEXTS, RELOCATIONS = 1, 2, 3, 4  # kinds of sections
NO_TYPE, FUNCTION, SECTION_ITSELF, FILE = 0, 2, 3, 4  # kinds of symbols
_IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_TAG = struct.Struct("<QQ")
_RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_RELOCATABLE, _SHARED = 1, 3  # kinds of files
_ALLOC, _EXEC, _MERGE, _INFO = 2, 4, 16, 64
_KINDS: dict[bytes, tuple[int, int, int]] = {  # of a kernel's sections: name -> kind, flags, bytes of an entry
    b"": (0, 0, 0),
    b".text": (PROGBITS, _ALLOC | _EXEC, 0),
    b".rodata": (PROGBITS, _ALLOC, 0),
    **{b".rodata.cst%d" % n: (PROGBITS, _ALLOC | _MERGE, n) for n in (4, 8, 16, 32, 64)},
    b".note.GNU-stack": (PROGBITS, 0, 0),
    b".strtab": (TEXTS, 0, 0),
    b".symtab": (SYMBOLS, 0, SYMBOL.size),
    b".rela.text": (RELOCATIONS, _INFO, _RELOCATION.itemsize),
    b".rela.rodata": (RELOCATIONS, _INFO, _RELOCATION.itemsize),
}
_ALIGNMENTS = {1 << n for n in range(13)}
_ABSOLUTE = 0xFFF1  # the section of a symbol that lies in none
# of a processor: the relocations of position-independent code -> the bytes that they write, and forms of instructions
_RELOCATIONS: dict[str, dict[int, tuple[int, tuple[arm.Form, ...]]]] = {
    "x86_64": {2: (4, ()), 4: (4, ())},
    "aarch64": {
        261: (4, ()), 275: (4, arm.PAGE), 277: (4, arm.ADD), 282: (4, arm.BRANCH), 283: (4, arm.BRANCH),
        **{kind: (4, arm.ACCESS[n]) for kind, n in ((278, 1), (284, 2), (285, 4), (286, 8), (299, 16))},
    },
}  # fmt: skip
_LOAD, _DYNAMIC = 1, 2  # kinds of segments
_MOST_BYTES, _MOST_ALIGNED = 1 << 30, 1 << 21
# tags of the dynamic section whose values are addresses, and those whose value is known
_ADDRESSES = {3, 4, 5, 6, 7, 12, 13, 17, 23, 25, 26, 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE}
_VALUES = {9: 24, 11: 24, 20: 7}


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


def check_relocatable(data: bytes, machine: str, export: bytes) -> None:
    """ValueError unless this is an object as LLVM writes it for a kernel on the processor; ``export``: the function
    that it defines."""
    head = _header(data, _RELOCATABLE, machine)
    ident, _, _, _, entry, phoff, shoff, flags, _, phsize, phnum, _, _, names = head
    require(not any((*ident[len(_IDENT) :], entry, phoff, flags, phsize, phnum)), "its header")
    sections = [Section(*row) for row in SECTION.iter_unpack(data[shoff:])]
    require(0 < names < len(sections) and not any(sections[0]), "its first section")
    texts = sections[names].of(data)
    require(texts[:1] == texts[-1:] == b"\0", "its names")
    for s in sections:
        require(_KINDS.get(_text(texts, s.name)) == (s.kind, s.flags, s.entry), "the kind of a section")
        require(s.kind in (SYMBOLS, RELOCATIONS) or not (s.link or s.info), "the links of a section")
    for s in sections[1:]:
        inside = s.kind and _HEADER.size <= s.offset and s.offset + s.size <= shoff and not s.address
        require(inside and s.alignment in _ALIGNMENTS and s.size % (s.entry or 1) == 0, "the place of a section")
    tables = [n for n, s in enumerate(sections) if s.kind == SYMBOLS]
    require(len(tables) == 1 and sections[tables[0]].link == names, "its symbols")
    table = sections[tables[0]]
    _check_symbols(table.of(data), table.info, sections, texts, export)
    for s in sections:
        if s.kind == RELOCATIONS:
            require(s.link == tables[0] and s.info < len(sections), "the links of relocations")
            require(sections[s.info].flags & _ALLOC, "what is relocated")
            rows = np.frombuffer(s.of(data), _RELOCATION)
            _check_relocations(rows, table.size // SYMBOL.size, sections[s.info].of(data), _RELOCATIONS[machine])


def _check_symbols(table: bytes, local: int, sections: list[Section], texts: bytes, export: bytes) -> None:
    """``local``: how many are the object's own; these come first. A name that others see is that of one symbol."""
    own: set[bytes] = set()
    shared: list[bytes] = []
    exported = False
    for n, (name, info, other, home, value, size) in enumerate(SYMBOL.iter_unpack(table)):
        bind, kind, text = info >> 4, info & 15, _text(texts, name)
        require(bind == (n >= local) and not other, "the binding of a symbol")
        if home in (0, _ABSOLUTE):
            require(not value and not size and kind == (FILE if home else NO_TYPE), "a symbol without a place")
        else:
            require(home < len(sections) and kind in (NO_TYPE, FUNCTION, SECTION_ITSELF), "the kind of a symbol")
            place = sections[home]
            require(place.flags & _ALLOC and value + size <= place.size, "the place of a symbol")
            require(kind != SECTION_ITSELF or not (bind or name or value or size), "the symbol of a section")
        if bind:
            shared.append(text)
            exported |= text == export and kind == FUNCTION
        else:
            own.add(text)
    require(exported and len({*shared} - own - {b""}) == len(shared), "the names of symbols")


def _check_relocations(
    rows: Any, symbols: int, code: bytes, known: dict[int, tuple[int, tuple[arm.Form, ...]]]
) -> None:
    """``rows``: in the order of their places in the ``code``, which differ."""
    require((rows["symbol"] < symbols).all(), "the symbol of a relocation")
    require((rows["offset"][1:] > rows["offset"][:-1]).all(), "the order of relocations")
    for kind in set(rows["kind"].tolist()):
        require(kind in known, "the kind of a relocation")
        width, forms = known[kind]
        places = rows["offset"][rows["kind"] == kind].tolist()
        require(places[-1] + width <= len(code), "the place of a relocation")
        require(not forms or all(arm.fits(code, at, forms) for at in places), "an instruction")


def check_shared(data: bytes, machine: str) -> None:
    """ValueError unless this has the form of a shared object for the processor, all of whose segments are there."""
    *_, phoff, _, _, _, phsize, phnum, _, _, _ = _header(data, _SHARED, machine)
    table = data[phoff : phoff + phnum * _SEGMENT.size]
    require(phsize == _SEGMENT.size and len(table) == phnum * _SEGMENT.size, "its program table")
    loaded: list[tuple[int, int]] = []
    tags: dict[int, int] = {}
    for kind, _, offset, address, _, held, size, align in _SEGMENT.iter_unpack(table):
        require(offset + held <= len(data) and held <= size < _MOST_BYTES, "the place of a segment")
        if kind == _LOAD:
            require(0 < align <= _MOST_ALIGNED and align & (align - 1) == 0, "the alignment of a segment")
            require((address - offset) % align == 0 and address < _MOST_BYTES, "the address of a segment")
            require(not loaded or loaded[-1][1] <= address, "the order of segments")
            loaded.append((address, address + size))
        elif kind == _DYNAMIC:
            require(held % _TAG.size == 0, "the size of a segment")
            tags = dict(_TAG.iter_unpack(data[offset : offset + held]))
    require(loaded and tags.get(0) == 0, "what is loaded")
    for tag, value in tags.items():
        inside = tag not in _ADDRESSES or any(begin <= value < end for begin, end in loaded)
        require(inside and _VALUES.get(tag, value) == value, "what it says of itself")


def _header(data: bytes, kind: int, machine: str) -> tuple[Any, ...]:
    """The fields of the header, where it is of this kind and its section table ends the file."""
    require(len(data) >= _HEADER.size, "its header")
    head = _HEADER.unpack_from(data)
    ident, found, of, version, *_, shoff, _, size, _, _, shsize, shnum, _ = head
    require(ident.startswith(_IDENT) and (found, version) == (kind, 1), "its header")
    require(of == MACHINES.get(machine), "the processor that it is for")
    require((size, shsize) == (_HEADER.size, SECTION.size), "its tables")
    require(shoff + shnum * SECTION.size == len(data), "its section table")
    return head


def _text(texts: bytes, at: int) -> bytes:
    return texts[at : texts.find(b"\0", at)] if at < len(texts) else b"?"
