"""Makes NVIDIA's GPUs a target of `_simt`: intrinsics, the math library, and LLVM's optimisation and PTX."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from quadrants_lab.backends import forks, llvm_binding as binding
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._llvm.ops import Ctx, library
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends._simt.body import SimtBody, Target
from quadrants_lab.backends.cuda import PTX_VERSIONS, SHAPE, approximate, libdevice, sine
from quadrants_lab.backends.llvm_binding import Machine, Module as Compiled, llvm
from quadrants_lab.ir import nodes as N

TRIPLE = "nvptx64-nvidia-cuda"
_lock = forks.lock()


@cache
def _compute_halves_in_f32() -> None:
    """Makes LLVM compute f16 in f32, for the whole process. Otherwise the flag that flushes f32 denormals would flush
    denormals of f16 too, which must be preserved; rounded results are the same. The option can be set only once."""
    llvm.SetCommandLine(b"", b"-nvptx-no-f16-math")


@cache
def machine(chip: int) -> Machine:
    """LLVM's target machine for the chip."""
    with _lock:
        _compute_halves_in_f32()
        binding.initialise_all()
        return Machine(TRIPLE, f"sm_{chip}", f"+ptx{PTX_VERSIONS[chip]}", 3)


# match.all.sync needs the whole warp: if only a part of it is active, the answer is no
_MEET = """\
define internal i1 @qd.meet(i64 %number) alwaysinline convergent nounwind {
  %all = call i32 asm sideeffect "{ .reg .pred whole, same; .reg .b32 mask; setp.ne.u32 same, 0, 0; \
activemask.b32 mask; setp.eq.u32 whole, mask, 0xffffffff; @whole match.all.sync.b64 mask|same, $1, 0xffffffff; \
selp.b32 $0, 1, 0, same; }", "=r,l"(i64 %number) convergent
  %same = icmp ne i32 %all, 0
  ret i1 %same
}"""


class Nvptx(Target):
    """An NVIDIA chip as a target of the emitter. ``chip``: a key of `cuda.PTX_VERSIONS`."""

    warp = 32
    shape = SHAPE
    global_space = 1
    block_memory = 40 << 10  # of the 48 KiB that a program may declare; reductions use some of the rest
    triple = TRIPLE

    def __init__(self, chip: int) -> None:
        self.chip = chip
        self.name = f"sm_{chip}"
        self.layout = machine(chip).layout
        self.own = OWN

    def head(self, program: Program, group: int, frame_bytes: int) -> str:
        how = f" byval([{frame_bytes} x i8]) align 8" if self.shape.passed_by_value(frame_bytes) else ""
        return f'define ptx_kernel void @{program.name}(ptr %state, ptr{how} %frame) "nvvm.maxntid"="{group}" #1'

    def _register(self, fn: Function, name: str) -> str:
        return fn.call("i32", f"llvm.nvvm.read.ptx.sreg.{name}")

    def thread(self, fn: Function) -> str:
        first = fn.let(f"mul nuw i32 {self._register(fn, 'ctaid.x')}, {self._register(fn, 'ntid.x')}")
        return fn.let(f"add nuw i32 {first}, {self._register(fn, 'tid.x')}")

    def threads(self, fn: Function) -> str:
        return fn.let(f"mul nuw i32 {self._register(fn, 'nctaid.x')}, {self._register(fn, 'ntid.x')}")

    def place(self, fn: Function) -> str:
        return self._register(fn, "tid.x")

    def shuffle_down(self, fn: Function, word: str, distance: int) -> str:
        args = (("i32", "-1"), ("i32", word), ("i32", str(distance)), ("i32", "31"))
        return fn.call("i32", "llvm.nvvm.shfl.sync.down.i32", *args)

    def same(self, fn: Function, number: str) -> str:
        fn.module.helper("qd.meet", _MEET)
        return fn.call("i1", "qd.meet", ("i64", number))

    def barrier(self, fn: Function, threads: int) -> None:
        """Emits a barrier for ``threads`` threads of a group. For the threads of a single warp it takes fewer cycles.
        """
        if threads <= self.warp:
            fn.call("void", "llvm.nvvm.bar.warp.sync", ("i32", "-1"))
        else:
            fn.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ("i32", "0"))

    def statement(self, body: SimtBody, stmt: N.Stmt) -> bool:
        return approximate.in_company(body, stmt)

    def finish(self, mod: Module, kernel: Any) -> None:
        mod.metadata = [
            *mod.metadata,
            f"attributes #1 = {{ nounwind {sine.DENORMALS} }}",
            "!llvm.module.flags = !{!900000}",
            '!900000 = !{i32 4, !"nvvm-reflect-ftz", i32 1}',
        ]


# --- the math library -------------------------------------------------------------------------------------------


def _nv(name: str) -> Callable[[Ctx], str]:
    """Returns a function that emits a call of libdevice's function for ``name``."""

    def sequence(c: Ctx) -> str:
        t = c.t.text
        return c.fn.call(t, library(name, c.t.dtype), *((t, a) for a in c.args), attrs="#0")

    return sequence


OWN: dict[str, Callable[[Ctx], str]] = {prim: _nv(name) for prim, name in libdevice.NAMES.items()}
OWN |= {prim: approximate.quick(prim, sine.short(prim, OWN[prim])) for prim in ("sin", "cos")}
OWN |= {f"unit_{prim}": approximate.unit(prim) for prim in ("sin", "cos")}


# --- LLVM -------------------------------------------------------------------------------------------------------

# NVIDIA's assembler optimises again, so a few passes suffice; shorter code makes both compilations faster
PASSES = ("SROA", "SimplifyCFG", "InstCombine", "SimplifyCFG", "LoopRotate", "SimplifyCFG")


def optimised(text: str, chip: int, calls: list[str]) -> Compiled:
    """Parses and optimises a module's text, with the functions ``calls`` of the math library inlined."""
    with _lock:
        target = machine(chip)
        module = binding.parse(text, library={name: libdevice.function(name, target) for name in calls})
        for fn in module.functions():
            if not fn.is_declaration and fn.name in calls:
                fn.export(False)
                fn.add_attribute("alwaysinline")
        binding.optimise(module, target, ("AlwaysInliner", "GlobalDCE", *PASSES))
        return module


def library_calls(module: Module) -> list[str]:
    """The names of the functions of the math library that the module calls."""
    return sorted(name for name in module.declared if name.startswith("__nv_"))


def ptx(module: Compiled, chip: int) -> str:
    with _lock:
        return machine(chip).assembly(module)


@binding.remembered
def compiled(text: str, chip: int, calls: list[str]) -> str:
    """Compiles a module's text to PTX."""
    return ptx(optimised(text, chip, calls), chip)
