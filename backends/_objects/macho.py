"""Whether bytes are a Mach-O object as LLVM writes it for a kernel on a Mac; `elf` says what for. The format is that of
Apple's mach-o/loader.h, mach-o/nlist.h and mach-o/reloc.h."""

from __future__ import annotations

import struct
from typing import Any

from quadrants_lab.backends._objects import arm, require

CPUS = {"x86_64": (0x1000007, 3), "aarch64": (0x100000C, 0)}  # type and subtype
_HEADER = struct.Struct("<8I")
_COMMAND = struct.Struct("<II")
_SEGMENT = struct.Struct("<16s4Q4I")
_SECTION = struct.Struct("<16s16sQQ8I")
_SYMBOL = struct.Struct("<IBBHQ")
_RELOCATION = struct.Struct("<II")
_MAGIC, _OBJECT, _BY_SYMBOLS = 0xFEEDFACF, 1, 0x2000
_SEGMENT_64, _SYMTAB, _DYSYMTAB, _HINTS, _VERSION_MIN, _BUILD_VERSION = 0x19, 0x2, 0xB, 0x2E, 0x24, 0x32
_COMMANDS = {  # -> what follows the command and its size
    _SEGMENT_64: _SEGMENT, _SYMTAB: struct.Struct("<4I"), _DYSYMTAB: struct.Struct("<18I"),
    _HINTS: struct.Struct("<2I"), _VERSION_MIN: struct.Struct("<2I"), _BUILD_VERSION: struct.Struct("<4I"),
}  # fmt: skip
_KINDS = {b"__text": 0x80000400, b"__const": 0, b"__literal4": 3, b"__literal8": 4, b"__literal16": 14}  # -> flags
_MOST_ALIGNED = 12  # as a power of two
_UNDEFINED, _OWN, _SHARED = 1, 14, 15  # types of symbols
# of a processor: relocations by type, size as a power of two, and whether they count from where they stand -> forms of
# instructions
_RELOCATIONS: dict[str, dict[tuple[int, int, int], tuple[arm.Form, ...]]] = {
    "x86_64": dict.fromkeys(((kind, 2, 1) for kind in (1, 2, 6, 7, 8)), ()),
    "aarch64": {(2, 2, 1): arm.BRANCH, (3, 2, 1): arm.PAGE, (4, 2, 0): arm.OFFSET},
}
_BYTES = 4  # that each of them writes


def check_object(data: bytes, machine: str, export: bytes) -> None:
    """ValueError unless this is an object for the processor; ``export``: the function that it defines."""
    require(len(data) >= _HEADER.size, "a header")
    magic, cpu, subtype, kind, count, nbytes, flags, reserved = _HEADER.unpack_from(data)
    begin = _HEADER.size + nbytes
    require((magic, kind, flags, reserved) == (_MAGIC, _OBJECT, _BY_SYMBOLS, 0) and begin <= len(data), "the header")
    require((cpu, subtype) == CPUS[machine], "the header of this machine's")
    given, sections = _commands(data, begin, count)
    symoff, nsyms, stroff, strsize = given[_SYMTAB]
    texts = data[stroff:]
    require(len(texts) == strsize and texts[:1] == texts[-1:] == b"\0", "the names")
    require(begin <= symoff and symoff + nsyms * _SYMBOL.size <= stroff, "the symbols")
    at, size = given.get(_HINTS, (begin, 0))
    require(begin <= at and at + size <= symoff, "the hints")
    name, vm, vmsize, offset, size, *protection, _, flags = given[_SEGMENT_64]
    require(not any(name) and not vm and not flags and protection == [7, 7], "the segment")
    require(begin == offset and offset + size <= symoff and size == vmsize, "the place of the segment")
    end = 0
    for name, segment, address, size, at, align, reloff, nreloc, flags, *rest in sections:
        known = segment.rstrip(b"\0") == b"__TEXT" and _KINDS.get(name.rstrip(b"\0")) == flags and not any(rest)
        require(known and align <= _MOST_ALIGNED, "the kind of a section")
        require(end <= address and address + size <= vmsize and at == offset + address, "the place of a section")
        require(address % (1 << align) == 0, "the alignment of a section")
        end = address + size
        require(begin <= reloff or not nreloc, "the place of relocations")
        require(reloff + nreloc * _RELOCATION.size <= symoff, "the size of relocations")
        for where, what in _RELOCATION.iter_unpack(data[reloff : reloff + nreloc * _RELOCATION.size]):
            form = (what >> 28, what >> 25 & 3, what >> 24 & 1)
            require(form in _RELOCATIONS[machine] and where + _BYTES <= size, "a relocation")
            forms = _RELOCATIONS[machine][form]
            require(not forms or arm.fits(data, at + where, forms), "an instruction")
            most = nsyms if what >> 27 & 1 else len(sections) + 1
            require((what & 0xFFFFFF) < most and (what >> 27 & 1 or what & 0xFFFFFF), "what a relocation means")
    _check_symbols(data[symoff : symoff + nsyms * _SYMBOL.size], given[_DYSYMTAB], sections, texts, export)


def _commands(data: bytes, end: int, count: int) -> tuple[dict[int, tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The load commands, and the sections of the one segment."""
    at = _HEADER.size
    given: dict[int, tuple[Any, ...]] = {}
    sections: list[tuple[Any, ...]] = []
    for _ in range(count):
        require(at + _COMMAND.size <= end, "a command")
        command, size = _COMMAND.unpack_from(data, at)
        form = _COMMANDS.get(command)
        require(form is not None and command not in given and at + size <= end, "a known command")
        assert form is not None
        least = _COMMAND.size + form.size
        require(size >= least, "the size of a command")
        given[command] = form.unpack_from(data, at + _COMMAND.size)
        if command == _SEGMENT_64:
            sections = [_SECTION.unpack_from(data, s) for s in range(at + least, at + size - 79, _SECTION.size)]
            require(len(sections) == given[command][-2], "the sections")
            least += len(sections) * _SECTION.size
        require(size == least, "the size of a command")
        at += size
    require(at == end and given.keys() >= {_SEGMENT_64, _SYMTAB, _DYSYMTAB}, "the commands")
    return given, sections


def _check_symbols(
    table: bytes, dynamic: tuple[int, ...], sections: list[tuple[Any, ...]], texts: bytes, export: bytes
) -> None:
    """Those of the object alone come first, then those that it defines, then those that it needs."""
    own, defined, needed = dynamic[1], dynamic[3], dynamic[5]
    begins = (0, own, own + defined)
    require(dynamic[0:6:2] == begins and not any(dynamic[6:]), "the order of symbols")
    require(own + defined + needed == len(table) // _SYMBOL.size, "the number of symbols")
    local: set[bytes] = set()
    names: list[bytes] = []
    exported = False
    for n, (name, kind, home, other, value) in enumerate(_SYMBOL.iter_unpack(table)):
        require(name < len(texts) and not other, "a symbol")
        text = texts[name : texts.find(b"\0", name)]
        want = _OWN if n < own else _SHARED if n < own + defined else _UNDEFINED
        require(kind == want and text, "the kind of a symbol")
        if kind == _UNDEFINED:
            require(not home and not value, "a symbol that is needed")
        else:
            require(0 < home <= len(sections), "the section of a symbol")
            _, _, address, size, *_ = sections[home - 1]
            require(address <= value <= address + size, "the place of a symbol")
        if n < own:
            local.add(text)
        else:
            names.append(text)
            exported |= kind == _SHARED and text == b"_" + export
    require(exported and len({*names} - local) == len(names), "the names of the symbols")
