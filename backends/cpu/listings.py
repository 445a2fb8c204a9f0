"""The CPU's stages as text: LLVM IR as emitted and optimised, and assembly, each line with its statement.

Statements travel through LLVM as debug locations whose line number is the statement's id.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache

from quadrants_lab.backends._llvm.listings import stage, with_locations, without_locations
from quadrants_lab.backends.cpu import jit, tasks
from quadrants_lab.backends.stage import Stage
from quadrants_lab.ir.nodes import NO_ID, Kernel
from quadrants_lab.ir.options import CompileOptions


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    widths = tasks.widths_of(kernel)

    @lru_cache(maxsize=1)
    def emitted() -> tuple[list[str], list[int]]:
        return tasks.module(kernel, options, widths, *jit.triple_and_layout()).lines()

    @lru_cache(maxsize=1)
    def optimised() -> object:
        module = jit.parse(with_locations(*emitted()))
        jit.optimise(module, tasks.vectorisable(kernel, widths))
        return module

    def llvm() -> Stage:
        return stage("llvm", *emitted())

    def llvm_opt() -> Stage:
        return stage("llvm-opt", *without_locations(str(optimised())))

    def asm() -> Stage:
        module = optimised()
        lines, ids = from_assembly(jit.assembly(module))
        count = sum(1 for line in lines if _is_instruction(line))
        return Stage("asm", "\n".join(lines), tuple(ids), count, text_bytes(jit.object_code(module)))

    return {"llvm": llvm, "llvm-opt": llvm_opt, "asm": asm}


# --- assembly ---------------------------------------------------------------------------------------------------

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
        ids.append(now if _is_instruction(line) else NO_ID)
    return lines, ids


def _is_instruction(line: str) -> bool:
    """Neither a label nor a directive, such as those that lay out data."""
    return line.startswith("\t") and not line.startswith("\t.")


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
