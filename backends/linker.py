"""Links an x86-64 ELF object into the memory of this process. With this, a process that gets all its code from the disk
cache does not have to load LLVM, which takes 100 MB. Format and relocations follow the System V ABI."""

import ctypes
import mmap
import struct
import sys
import weakref
from collections.abc import Mapping
from functools import cache
from typing import Any

from quadrants_lab.ir.record import dataclass

_WRITE, _ALLOC, _TLS = 1, 2, 0x400  # flags of sections
_EMPTY = 8  # the type of a section that holds only zeros (SHT_NOBITS)
_ABSOLUTE, _FAR, _CALL = 1, (9, 41, 42), 4  # relocation types: an address, an address through a table, a call
_NEAR = (2, _CALL, *_FAR)  # relocations that store a 32-bit distance
_JUMP = b"\xff\x25\0\0\0\0"  # a jump to the address that follows the instruction
_STUB = 16
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_RELOCATION = struct.Struct("<QIIq")


def require(holds: object, what: str) -> None:
    """Raises ValueError unless ``holds``; ``what`` says what is wrong in the object file."""
    if not holds:
        raise ValueError(f"an object file is wrong about {what}")


def usable(machine: str) -> bool:
    """Whether `linked` can link objects for this operating system on the processor ``machine``."""
    return machine == "x86_64" and sys.platform == "linux"


class Mapped:
    """Executable memory of the process. It is freed with this object, but not when the interpreter ends."""

    def __init__(self, size: int) -> None:
        self.base = _libc().mmap(None, size, _READ_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if self.base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"{size} bytes for machine code")
        weakref.finalize(self, _libc().munmap, self.base, size).atexit = False


def linked(obj: bytes, exports: tuple[str, ...], imports: Mapping[str, int]) -> tuple[Mapped, dict[str, int]]:
    """Links an object. Returns the memory that holds its code, and the address of each of the symbols ``exports``.
    Symbols that the object does not define are looked up in ``imports``, then in the process. Raises ValueError,
    LookupError or struct.error if the object is damaged or not supported; LLVM may still be able to link it."""
    require(len(obj) >= 64, "its header")
    (table,) = struct.unpack_from("<Q", obj, 40)
    sections = [Section(*row) for row in SECTION.iter_unpack(obj[table:])]
    names = sections[[s.kind for s in sections].index(SYMBOLS)]
    symbols = list(SYMBOL.iter_unpack(names.of(obj)))
    texts = sections[names.link].of(obj)
    rows = [
        (s.info, _RELOCATION.iter_unpack(s.of(obj)))
        for s in sections if s.kind == RELOCATIONS and sections[s.info].flags & _ALLOC
    ]  # fmt: skip

    def name(symbol: int) -> str:
        at = symbols[symbol][0]
        return texts[at : texts.index(b"\0", at)].decode()

    # order in memory: executed and read-only sections, with a stub for each symbol; then, on new pages, writable
    # sections
    places: dict[int, int] = {}
    size = 0
    for writable in (0, _WRITE):
        for n, s in enumerate(sections):
            if s.flags & _ALLOC and s.flags & _WRITE == writable:
                require(not s.flags & _TLS, "memory of threads")
                size += -size % max(s.alignment, 1)
                places[n] = size
                size += s.size
        if not writable:
            size += -size % _STUB
            stubs = size
            size += _STUB * len(symbols)
            size += -size % mmap.PAGESIZE
            code_bytes = size
    mapped, memory = Mapped(size), bytearray(size)
    base = mapped.base
    for n, at in places.items():
        if sections[n].kind != _EMPTY:
            memory[at : at + sections[n].size] = sections[n].of(obj)

    def address(symbol: int) -> int:
        _, _, _, home, value, _ = symbols[symbol]
        if home == 0:
            return imports.get(name(symbol)) or _of_process(name(symbol))
        require(home in places, "the section of a symbol")
        return int(base + places[home] + value)

    def stub(symbol: int) -> int:
        at = stubs + _STUB * symbol
        memory[at : at + _STUB] = _JUMP + struct.pack("<Qxx", address(symbol))
        return int(base + at)

    for home, relocations in rows:
        begin = places[home]
        for offset, kind, symbol, addend in relocations:
            at = begin + offset
            if kind == _ABSOLUTE:
                struct.pack_into("<Q", memory, at, (address(symbol) + addend) % (1 << 64))
                continue
            require(kind in _NEAR and (symbols[symbol][3] or kind != 2), "the kind of a relocation")
            far = kind in _FAR
            to = stub(symbol) + len(_JUMP) * far if far or not symbols[symbol][3] else address(symbol)
            distance = to + addend - (base + at)
            require(-(1 << 31) <= distance < 1 << 31, "a distance")
            struct.pack_into("<i", memory, at, distance)
    found = {name(n): n for n, (_, info, _, home, _, _) in enumerate(symbols) if info >> 4 and home}
    require(found.keys() >= {*exports}, "what it defines")
    require(len(memory) == size, "the size of a section")
    ctypes.memmove(base, bytes(memory), size)
    require(_libc().mprotect(base, code_bytes, mmap.PROT_READ | mmap.PROT_EXEC) == 0, "memory to execute")
    return mapped, {export: address(found[export]) for export in exports}


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _of_process(name: str) -> int:
    found = getattr(_libc(), name, None)
    require(found, f"{name}, which this process has not")
    return ctypes.cast(found, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # a function of a library


SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
PROGBITS, SYMBOLS, RELOCATIONS = 1, 2, 4  # section types
FUNCTION = 2  # a symbol type


@dataclass(slots=True)
class Section:
    """A section of an ELF file, from its section table."""

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
    """The sections of a 64-bit little-endian ELF file."""
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    return [Section(*SECTION.unpack_from(data, at + n * size)) for n in range(count)]
