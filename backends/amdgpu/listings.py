"""Shows AMDGPU's stages of code generation as text: LLVM IR, assembly, and the code object if LLVM's linker is
found; each line with its IR statement."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from quadrants_lab.backends import Stage
from quadrants_lab.backends._llvm.statement_of_line import (
    Assembly,
    headed,
    stage,
    with_locations,
    without_locations,
)
from quadrants_lab.backends.amdgpu import gcn, hsaco
from quadrants_lab.ir.nodes import NO_ID, Kernel
from quadrants_lab.ir.options import CompileOptions


def object_of(kernel: Kernel, options: CompileOptions, chip: str) -> bytes:
    """Compiles a kernel to a relocatable object for a chip, a key of `amdgpu.WAVES`."""
    return gcn.compiled("\n".join(gcn.emitted(kernel, options, chip).lines()[0]), chip)


def code_of(kernel: Kernel, options: CompileOptions, chip: str) -> bytes:
    """Compiles a kernel to a code object for a chip. Raises QuadrantsRuntimeError if it cannot be linked."""
    return hsaco.linked(object_of(kernel, options, chip))


def stages(kernel: Kernel, options: CompileOptions, chip: str) -> dict[str, Callable[[], Stage]]:
    """The stages of code generation. "llvm": LLVM IR as emitted; "llvm-opt": optimised LLVM IR; "isa": assembly;
    "hsaco": the code object, only if LLVM's linker is found. The last two begin with each program's use of
    registers and memory."""
    @lru_cache(maxsize=1)
    def emitted() -> tuple[list[str], list[int]]:
        return gcn.emitted(kernel, options, chip).lines()

    @lru_cache(maxsize=1)
    def optimised() -> Any:
        return gcn.optimised(with_locations(*emitted(), emission="DebugDirectivesOnly"), chip)

    @lru_cache(maxsize=1)
    def instructions() -> tuple[list[str], list[int]]:
        return ISA.lines(gcn.assembly(optimised(), chip))

    @lru_cache(maxsize=1)
    def plain() -> bytes:
        return gcn.compiled("\n".join(emitted()[0]), chip)

    def isa() -> Stage:
        lines, ids = instructions()
        return _headed("isa", ";", hsaco.CodeObject(plain()).programs, lines, ids, ISA.count(lines))

    def code() -> Stage:
        made = hsaco.linked(plain())
        about = hsaco.CodeObject(made)
        lines = from_disassembly(hsaco.disassembled(made, chip))
        count = ISA.count(lines) or isa().instructions
        ids = statements(lines, *instructions())
        if not lines:  # without a disassembler, the metadata of the code object are shown
            lines = outline(about.metadata)
            ids = [NO_ID] * len(lines)
        lines, ids = [f"// {len(made)} bytes for {chip}", *lines], [NO_ID, *ids]
        return _headed("hsaco", "//", about.programs, lines, ids, count)

    return {
        "llvm": lambda: stage("llvm", *emitted()),
        "llvm-opt": lambda: stage("llvm-opt", *without_locations(str(optimised()))),
        "isa": isa,
        "hsaco": code,
    }


def _headed(
    name: str, comment: str, programs: tuple[hsaco.Resources, ...], lines: list[str], ids: list[int], count: int
) -> Stage:
    """Makes a stage that begins with the resources of its programs."""
    most = {kind: max((getattr(p, kind.lower()) for p in programs), default=0) for kind in ("VGPRs", "AGPRs", "SGPRs")}
    registers, size = tuple((kind, n) for kind, n in most.items() if n), sum(p.code for p in programs)
    head = [f"{comment} {p.words()}" for p in programs]
    return headed(name, head, lines, ids, count, code_bytes=size, registers=registers)


def outline(value: Any, depth: int = 0) -> list[str]:
    """Prints nested maps and lists as indented lines."""
    out = []
    for key, v in value.items() if isinstance(value, dict) else (("-", v) for v in value):
        nested = isinstance(v, (dict, list))
        out.append("  " * depth + (f"{key}:" if nested else f"{key}: {v}"))
        out += outline(v, depth + 1) if nested else []
    return out


# --- lines ------------------------------------------------------------------------------------------------------

_INSTRUCTION = re.compile(r"^\t[a-z]\w+")
ISA = Assembly(_INSTRUCTION, re.compile(r"(?!\t[a-z]\w+|(\.LBB\w+|[A-Za-z]\w*):)"), re.compile(r"\s+;.*$"))

_SYMBOL = re.compile(r"^[0-9a-f]+ <([\w.$]+)>:")
_PADDING = re.compile(r"^\ts_(nop 0|code_end)\b")


def from_disassembly(text: str) -> list[str]:
    """The lines to show of a disassembly: the names of programs, and their instructions with addresses and encodings.
    """
    lines: list[str] = []
    ended = False  # padding follows the last instruction of a program
    for line in text.splitlines():
        symbol = _SYMBOL.match(line)
        if symbol:
            lines.append(f"{symbol[1]}:")
            ended = False
        elif _INSTRUCTION.match(line) and not (ended and _PADDING.match(line)):
            lines.append(line.rstrip())
            ended = ended or line.startswith("\ts_endpgm")
    return lines


def statements(lines: list[str], assembly: list[str], ids: list[int]) -> list[int]:
    """The statement id of each line of a disassembly, found from the ``assembly`` and its ``ids``. The disassembly has
    the instructions of the assembly in the same order, and also s_nop, by which the assembler aligns loops."""
    pairs = iter([(line.split()[0], i) for line, i in zip(assembly, ids, strict=True) if _counts(line)])
    out = []
    for line in lines:
        name, id = next(pairs, ("", NO_ID)) if _counts(line) else ("", NO_ID)
        if name and name != line.split()[0]:
            return [NO_ID] * len(lines)
        out.append(id)
    return out


def _counts(line: str) -> bool:
    return line.startswith("\t") and not line.startswith("\ts_nop")
