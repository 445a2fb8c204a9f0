"""Makes AMD's GPUs a target of `_simt`: intrinsics, and LLVM's optimisation, assembly and object code."""

from functools import cache
from typing import Any

from quadrants_lab.backends import forks, llvm_binding as binding
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends._simt.body import Target, module
from quadrants_lab.backends.amdgpu import SHAPE, WAVES
from quadrants_lab.backends.llvm_binding import Machine, Module as Compiled
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions

TRIPLE = "amdgcn-amd-amdhsa"
OBJECT_VERSION = 5
_ROW = 16  # how many lanes a row has; DPP instructions shuffle within a row
_GRID_SIZE_AT = 12  # the offset, in the dispatch packet, of a u32: how many threads the grid has along x
_NOTE = 900_000  # the first index of our metadata in the module
# what LLVM may assume: atomics access only the device's own memory, and may flush denormals
_NATIVE = ("amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory", "amdgpu.ignore.denormal.mode")
_lock = forks.lock()


@cache
def machine(chip: str) -> Machine:
    """LLVM's target machine for the chip."""
    with _lock:
        binding.initialise_all()
        return Machine(TRIPLE, chip, level=3, relocation="pic")


class Gcn(Target):
    """An AMD chip as a target of the emitter. ``chip``: a key of `amdgpu.WAVES`."""

    shape = SHAPE
    global_space = 1
    private_space = 5
    atomic_scope = 'syncscope("agent") '
    atomic_notes = "".join(f", !{name} !{_NOTE}" for name in _NATIVE)
    prologue = (
        "%state = addrspacecast ptr addrspace(1) %written to ptr",
        "%frame = addrspacecast ptr addrspace(4) %words to ptr",
    )
    triple = TRIPLE

    def __init__(self, chip: str) -> None:
        self.name = chip
        self.warp = WAVES[chip]
        self.layout = machine(chip).layout

    def head(self, program: Program, group: int, frame_bytes: int) -> str:
        how = f" byref([{frame_bytes} x i8]) align 8" if self.shape.passed_by_value(frame_bytes) else ""
        return (
            f"define amdgpu_kernel void @{program.name}(ptr addrspace(1) %written, ptr addrspace(4){how} %words) "
            f'"amdgpu-flat-work-group-size"="{group},{group}" "uniform-work-group-size"="true" #1'
        )

    def thread(self, fn: Function) -> str:
        group = fn.call("i32", "llvm.amdgcn.workgroup.id.x")
        size = fn.lines[0].split('"amdgpu-flat-work-group-size"="')[1].split(",")[0]
        return fn.let(f"add nuw i32 {fn.let(f'mul nuw i32 {group}, {size}')}, {self.place(fn)}")

    def threads(self, fn: Function) -> str:
        packet = fn.call("ptr addrspace(4)", "llvm.amdgcn.dispatch.ptr")
        at = fn.let(f"getelementptr inbounds i8, ptr addrspace(4) {packet}, i64 {_GRID_SIZE_AT}")
        return fn.let(f"load i32, ptr addrspace(4) {at}, !invariant.load !{_NOTE}")

    def place(self, fn: Function) -> str:
        return fn.call("i32", "llvm.amdgcn.workitem.id.x")

    def shuffle_down(self, fn: Function, word: str, distance: int) -> str:
        if distance < _ROW:  # lanes past the end of the row get 0, and reductions do not use them
            control = 0x100 + distance  # row_shl
            how = (("i32", str(control)), ("i32", "15"), ("i32", "15"), ("i1", "true"))
            return fn.call("i32", "llvm.amdgcn.update.dpp.i32", ("i32", "0"), ("i32", word), *how)
        lane = fn.call("i32", "llvm.amdgcn.mbcnt.lo", ("i32", "-1"), ("i32", "0"))
        if self.warp == 64:
            lane = fn.call("i32", "llvm.amdgcn.mbcnt.hi", ("i32", "-1"), ("i32", lane))
        address = fn.let(f"shl i32 {fn.let(f'add i32 {lane}, {distance}')}, 2")
        return fn.call("i32", "llvm.amdgcn.ds.bpermute", ("i32", address), ("i32", word))

    def barrier(self, fn: Function, threads: int) -> None:
        fn.put('fence syncscope("workgroup") release')
        fn.call("void", "llvm.amdgcn.s.barrier")
        fn.put('fence syncscope("workgroup") acquire')

    def finish(self, mod: Module, kernel: Any) -> None:
        mod.helpers = {name: text.replace(") {\n", ") #1 {\n", 1) for name, text in mod.helpers.items()}
        mod.metadata = [
            *mod.metadata,
            'attributes #1 = { nounwind "denormal-fp-math-f32"="preserve-sign,preserve-sign" }',
            f"!{_NOTE} = !{{}}",
            f"!llvm.module.flags = !{{!{_NOTE + 1}}}",
            f'!{_NOTE + 1} = !{{i32 1, !"amdhsa_code_object_version", i32 {100 * OBJECT_VERSION}}}',
        ]


def emitted(kernel: Kernel, options: CompileOptions, chip: str) -> Module:
    return module(kernel, options, Gcn(chip))


# --- LLVM -------------------------------------------------------------------------------------------------------


def optimised(text: str, chip: str) -> Compiled:
    """The optimised LLVM module."""
    with _lock:
        target = machine(chip)
        made = binding.parse(text)
        binding.optimise(
            made, target, level=3, loop_vectorization=False, loop_interleaving=False, slp_vectorization=False
        )
        return made


# generating code changes a module, so each of these functions works on a clone


def assembly(made: Compiled, chip: str) -> str:
    with _lock:
        return machine(chip).assembly(made.clone())


def object_code(made: Compiled, chip: str) -> bytes:
    """Compiles a module to a relocatable ELF object."""
    with _lock:
        return machine(chip).object_code(made.clone())


@binding.remembered
def compiled(text: str, chip: str) -> bytes:
    """Compiles a module's text to a relocatable ELF object."""
    return object_code(optimised(text, chip), chip)
