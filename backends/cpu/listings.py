"""Shows the CPU's compilation stages as text: LLVM IR as emitted and after optimisation, and assembly, each line
with its IR statement."""

import re
from collections.abc import Callable
from functools import lru_cache

from quadrants_lab.backends import Stage
from quadrants_lab.backends._llvm.statement_of_line import Assembly, stage, with_locations, without_locations
from quadrants_lab.backends.cpu import jit, tasks
from quadrants_lab.backends.llvm_binding import Module
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions


def stages(kernel: Kernel, options: CompileOptions) -> dict[str, Callable[[], Stage]]:
    @lru_cache(maxsize=1)
    def lowered() -> Kernel:
        return tasks.lowered(kernel, options)

    @lru_cache(maxsize=1)
    def emitted() -> tuple[list[str], list[int]]:
        return tasks.module(lowered(), options, *jit.triple_and_layout()).lines()

    def optimised() -> Module:
        """Makes a new optimised module at each call, because generating machine code from a module changes the
        module."""
        module = jit.parse(with_locations(*emitted()))
        jit.optimise(module, *tasks.loop_passes(lowered()))
        return module

    def asm() -> Stage:
        size = text_bytes(jit.compiled("\n".join(emitted()[0]), *tasks.loop_passes(lowered())))
        return ASSEMBLY.stage("asm", of_code(jit.assembly(optimised())), code_bytes=size)

    return {
        "llvm": lambda: stage("llvm", *emitted()),
        "llvm-opt": lambda: stage("llvm-opt", *without_locations(str(optimised()))),
        "asm": asm,
    }


# --- assembly ---------------------------------------------------------------------------------------------------

ASSEMBLY = Assembly(
    re.compile(r"\t[^.]"),
    re.compile(
        r"^\s*(\.(cfi|file|section|p2align|type|size|text|globl|ident|addrsig|set)|#|;|$)|^\.?L(tmp|func|debug|sec|line)\w*:"
    ),
    re.compile(r"\s+(##|#|//) .*$"),
)


def of_code(text: str) -> str:
    """The part of the assembly that is code: without debug sections and notes."""
    lines, outside = [], True
    for line in text.splitlines():
        if ".section" in line or line.lstrip().startswith(".text"):
            outside = "debug" not in line and "note" not in line
        lines += [line] if outside else []
    return "\n".join(lines)


def text_bytes(obj: bytes) -> int:
    """The size in bytes of the machine code in an object file."""
    from llvmlite.binding import ObjectFileRef

    return sum(s.size() for s in ObjectFileRef.from_data(obj).sections() if s.is_text())
