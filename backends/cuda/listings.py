"""Shows CUDA's stages of code generation as text: LLVM IR, PTX, and SASS if NVIDIA's tools are found; each line
with its IR statement."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from quadrants_lab.backends import Stage, tools
from quadrants_lab.backends._llvm.statement_of_line import Assembly, stage, with_locations
from quadrants_lab.backends._simt.body import module
from quadrants_lab.backends.cuda import nvptx, toolkit
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions


def ptx_of(kernel: Kernel, options: CompileOptions, chip: int) -> str:
    """Compiles a kernel to PTX for a chip (a key of `nvptx.PTX_VERSIONS`)."""
    made = module(kernel, options, nvptx.Nvptx(chip))
    lines, _ = made.lines()
    return nvptx.compiled("\n".join(lines), chip, nvptx.library_calls(made))


def stages(kernel: Kernel, options: CompileOptions, chip: int) -> dict[str, Callable[[], Stage]]:
    """The stages of code generation. "llvm": LLVM IR as emitted; "ptx": optimised PTX; "sass", only if ptxas and
    nvdisasm are found: machine code, with its use of registers and memory."""
    @lru_cache(maxsize=1)
    def emitted() -> tuple[list[str], list[int], list[str]]:
        made = module(kernel, options, nvptx.Nvptx(chip))
        return *made.lines(), nvptx.library_calls(made)

    @lru_cache(maxsize=1)
    def assembly() -> str:
        lines, ids, calls = emitted()
        text = with_locations(lines, ids, emission="DebugDirectivesOnly")
        return nvptx.ptx(nvptx.optimised(text, chip, calls), chip)

    def sass() -> Stage:
        made = assembled(assembly(), chip, lines=True)
        shown = SASS.stage("sass", disassembled(made.code), [p.words() for p in made.programs])
        most = max((p.registers for p in made.programs), default=0)
        return replace(shown, code_bytes=16 * shown.instructions, registers=(("registers", most),))

    made = {"llvm": lambda: stage("llvm", *emitted()[:2]), "ptx": lambda: PTX.stage("ptx", assembly())}
    return {**made, "sass": sass} if has_assembler() else made


def has_assembler() -> bool:
    return bool(toolkit.tool("ptxas") and toolkit.tool("nvdisasm"))


# --- ptxas ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """What a program uses: registers of a thread; bytes of a thread's local memory, and how many of these bytes are
    spilled registers; bytes of a group's shared memory."""

    name: str
    registers: int
    local: int
    spilled: int
    shared: int

    def words(self) -> str:
        """All resources in a comment."""
        memory = f"{self.local} bytes local, {self.spilled} spilled, {self.shared} bytes shared"
        return f"// {self.name}: {self.registers} registers, {memory}"


class Assembled(NamedTuple):
    """What ptxas made of PTX. ``code``: a cubin."""

    code: bytes
    programs: tuple[Resources, ...]


_PROGRAM = re.compile(r"Compiling entry function '(\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def assembled(text: str, chip: int, lines: bool = False) -> Assembled:
    """Assembles PTX by ptxas.

    Raises QuadrantsRuntimeError if there is no ptxas, or with its message if it refuses the PTX.
    """
    ptxas = toolkit.tool("ptxas")
    if not ptxas:
        raise QuadrantsRuntimeError("ptxas was not found: pip install nvidia-cuda-nvcc", code="QL3011")
    options = ["-v", f"-arch=sm_{chip}", *(["-lineinfo"] if lines else [])]
    code, words = tools.made(ptxas, text.encode(), "ptxas refuses the PTX", *options)
    return Assembled(code, tuple(_resources(words)))


def _resources(words: str) -> list[Resources]:
    out = []
    for part in re.split(r"(?=Compiling entry function)", words)[1:]:
        name, frame, used, shared = (r.search(part) for r in (_PROGRAM, _FRAME, _USED, _SHARED))
        assert name
        assert used
        local, stores, loads = (int(frame[n]) for n in (1, 2, 3)) if frame else (0, 0, 0)
        out.append(Resources(name[1], int(used[1]), local, max(stores, loads), int(shared[1]) if shared else 0))
    return out


def disassembled(code: bytes) -> str:
    """The disassembly of a cubin by nvdisasm, with line numbers."""
    done = tools.listed(toolkit.tool("nvdisasm"), code, "-c", "-g")
    return done.stdout if not done.returncode else done.stderr


# --- lines ------------------------------------------------------------------------------------------------------

PTX = Assembly(
    re.compile(r"\t[^.]"),
    re.compile(r"^\s*(\.file|\.section|\.loc|//|$|\.b8|\.b32|\.b64|\$L__tmp\d+:|\$L__func\w+:)|^\s*\{\s*//"),
    re.compile(r"\s+// .*$"),
)

SASS = Assembly(
    re.compile(r"\s+/\*[0-9a-f]{4,}\*/"),
    re.compile(r"(?!\s+/\*[0-9a-f]{4,}\*/|\.text\.|\.L_)"),
    re.compile(r"\s+$"),
    re.compile(r'^\s*//## File ".*", line (\d+)'),
)
