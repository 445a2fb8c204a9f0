"""The CPU's stages as text: LLVM IR as emitted and optimised, and assembly, each line with its statement.

Statements travel through LLVM as debug locations whose line number is the statement's id.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache

from quadrants_lab.backends.cpu import jit, tasks
from quadrants_lab.backends.stage import Stage
from quadrants_lab.ir.nodes import NO_ID, Kernel
from quadrants_lab.ir.options import CompileOptions


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    @lru_cache(maxsize=1)
    def emitted() -> tuple[list[str], list[int]]:
        return tasks.module(kernel, options, *jit.triple_and_layout()).lines()

    @lru_cache(maxsize=1)
    def optimised() -> object:
        module = jit.parse(with_locations(*emitted()))
        jit.optimise(module, tasks.vectorisable(kernel))
        return module

    def llvm() -> Stage:
        lines, ids = emitted()
        return Stage("llvm", "\n".join(lines), tuple(ids), _count_llvm(lines))

    def llvm_opt() -> Stage:
        lines, ids = without_locations(str(optimised()))
        return Stage("llvm-opt", "\n".join(lines), tuple(ids), _count_llvm(lines))

    def asm() -> Stage:
        module = optimised()
        lines, ids = from_assembly(jit.assembly(module))
        count = sum(1 for line in lines if line.startswith("\t"))
        return Stage("asm", "\n".join(lines), tuple(ids), count, text_bytes(jit.object_code(module)))

    return {"llvm": llvm, "llvm-opt": llvm_opt, "asm": asm}


def _count_llvm(lines: list[str]) -> int:
    return sum(1 for line in lines if line.startswith("  ") and not line.lstrip().startswith((";", "]")))


# --- debug locations --------------------------------------------------------------------------------------------

FIRST = 100_000  # numbers of metadata that the emitter does not reach
_DEFINE = re.compile(r"^define .*\{$")


def with_locations(lines: list[str], ids: list[int]) -> str:
    """The text with a location on each instruction that belongs to a statement."""
    out: list[str] = []
    numbers: dict[tuple[int, int], int] = {}
    scope = -1
    scopes: list[str] = []
    for line, id in zip(lines, ids, strict=True):
        if _DEFINE.match(line) and "@qd.pow" not in line:
            scope = FIRST + 10 + len(scopes)
            scopes.append(re.search(r"@([\w.]+)\(", line).group(1))  # type: ignore[union-attr]  # a define has one
            line = f"{line[:-1]}!dbg !{scope} {{"
        elif line.startswith("define"):
            scope = -1
        elif line.startswith("  ") and scope >= 0:
            key = (scope, max(id, 0))
            number = numbers.setdefault(key, 2 * FIRST + len(numbers))
            line += f", !dbg !{number}"
        out.append(line)
    unit, file, flag, kind, none = (f"!{FIRST + n}" for n in range(5))
    about = "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly"
    out += [
        f"!llvm.dbg.cu = !{{{unit}}}",
        f"!llvm.module.flags = !{{{flag}}}",
        f"{unit} = distinct !DICompileUnit(language: DW_LANG_C, file: {file}, {about})",
        f'{file} = !DIFile(filename: "kernel", directory: "")',
        f'{flag} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f"{kind} = !DISubroutineType(types: {none})",
        f"{none} = !{{null}}",
    ]
    for n, name in enumerate(scopes):
        out.append(
            f'!{FIRST + 10 + n} = distinct !DISubprogram(name: "{name}", scope: {file}, file: {file}, line: 0, '
            f"type: {kind}, unit: {unit}, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
    out += [f"!{n} = !DILocation(line: {id}, scope: !{s})" for (s, id), n in numbers.items()]
    return "\n".join(out)


_USE = re.compile(r",? !dbg !(\d+)")
_LOCATION = re.compile(r"^!(\d+) = !DILocation\(line: (\d+),")


def without_locations(text: str) -> tuple[list[str], list[int]]:
    """The text as it would be without locations, and the statement id of each line."""
    where = {m[1]: int(m[2]) for m in (_LOCATION.match(line) for line in text.splitlines()) if m}
    lines: list[str] = []
    ids: list[int] = []
    for line in text.splitlines():
        if line.startswith(("!", "; ModuleID", "source_filename")):
            continue
        use = _USE.search(line)
        lines.append(_USE.sub("", line))
        ids.append((where.get(use[1], 0) or NO_ID) if use and not line.startswith("define") else NO_ID)
    while lines and not lines[-1]:
        lines.pop(), ids.pop()
    return lines, ids


_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_NOISE = re.compile(r"^\s*(\.(cfi|file|loc|section|p2align|type|size|text|globl|ident|addrsig|set)|#|;|$)")
_LOCAL = re.compile(r"^\.?L(tmp|func|debug|sec|line)\w*:|^Ltmp")


def from_assembly(text: str) -> tuple[list[str], list[int]]:
    """Labels, instructions and constants, and the statement id of each line; debug sections go."""
    lines: list[str] = []
    ids: list[int] = []
    now, in_debug = NO_ID, False
    for line in text.splitlines():
        if ".section" in line or line.lstrip().startswith(".text"):
            in_debug = "debug" in line or "note" in line
        loc = _LOC.match(line)
        if loc:
            now = int(loc[1]) or NO_ID
        if in_debug or _NOISE.match(line) or _LOCAL.match(line):
            continue
        lines.append(re.sub(r"\s+(##|#|//) .*$", "", line))
        instruction = line.startswith("\t") and not line.startswith("\t.")
        ids.append(now if instruction else NO_ID)
    return lines, ids


def text_bytes(obj: bytes) -> int:
    """Size of the machine code in an ELF or Mach-O object, 64-bit little endian."""
    if obj[:4] == b"\x7fELF":
        (at,) = struct.unpack_from("<Q", obj, 40)
        size, count = struct.unpack_from("<HH", obj, 58)
        total = 0
        for n in range(count):
            kind, flags = struct.unpack_from("<IQ", obj, at + n * size + 4)
            (length,) = struct.unpack_from("<Q", obj, at + n * size + 32)
            total += length if kind == 1 and flags & 4 else 0
        return total
    (commands,) = struct.unpack_from("<I", obj, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", obj, at)
        if command == 0x19:  # LC_SEGMENT_64
            (sections,) = struct.unpack_from("<I", obj, at + 64)
            found = [at + 72 + 80 * n for n in range(sections)]
            return sum(
                struct.unpack_from("<Q", obj, s + 40)[0]
                for s in found
                if obj[s : s + 16].rstrip(b"\0") == b"__text"
            )
        at += size
    return 0
