"""LLVM in this process: target machine, optimisation, object code, linking. All of it is made on first use."""

from __future__ import annotations

import ctypes
import itertools
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from quadrants_lab.backends import forks
from quadrants_lab.backends.disk_cache import Kept

# Without these LLVM takes a time that is quadratic in the ifs of a kernel: blocks over which it looks for a register at
# a time (10,000), and blocks of one successor among which it looks for equal ends (150).
_LINEAR = ("-grow-region-complexity-budget=100", "-tail-merge-threshold=20")
_names = itertools.count()
_lock = forks.lock()  # LLVM's JIT and our start-up are used by one thread at a time


@cache
def target_machine() -> Any:
    """The host's machine; position independent code, because JITed code may lie far from what it calls."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    for option in _LINEAR:
        llvm.set_option("", option)
    return _machine()


def _machine(level: int = 2) -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=cpu_features(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@cache
def cpu_features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


@cache
def triple_and_layout() -> tuple[str, str]:
    return str(llvm.get_process_triple()), str(target_machine().target_data)


@cache
def vector_bytes() -> int:
    """Width of the vectors that tasks run in lanes of; 0 where there are none that gather and mask."""
    features = cpu_features().split(",")
    return 64 if {"+avx512f", "+avx512dq", "+avx512vl"} <= set(features) else 32 if "+avx2" in features else 0


def target_key() -> str:
    """What object code depends on besides the kernel and its options; part of a disk cache's key."""
    return (
        f"{triple_and_layout()[0]}/{llvm.get_host_cpu_name()}/{cpu_features()}/llvm{llvm.llvm_version_info}"
    )


def parse(text: str) -> Any:
    with _lock:
        target_machine()
        return llvm.parse_assembly(text)


def optimise(module: Any, vectorise: bool) -> None:
    """In place. Without ``vectorise`` only what straight-line and loop code of our emitter gains from, at a quarter of
    the time; with it LLVM's pipeline at -O2, for the loop vectoriser."""
    with _lock:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = vectorise
        options.loop_interleaving = vectorise
        options.slp_vectorization = False
        options.loop_unrolling = False
        builder = llvm.create_pass_builder(target_machine(), options)
        if vectorise:
            passes = builder.getModulePassManager()
        else:
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
        passes.run(module, builder)


def object_code(module: Any) -> bytes:
    with _lock:
        return bytes(target_machine().emit_object(module))


def assembly(module: Any) -> str:
    with _lock:
        return str(target_machine().emit_assembly(module))


class Code:
    """Linked machine code; it stays while this object lives. ``address[name]`` of each exported symbol."""

    def __init__(self, tracker: Any, exports: tuple[str, ...]) -> None:
        self._tracker = tracker
        self.address: dict[str, int] = {name: int(tracker[name]) for name in exports}


@cache
def _linker() -> Any:
    """JITLink lays an object's sections side by side; the older linker may put them too far apart for their references,
    as in a process in which CUDA has taken address space, and then ends the process."""
    target_machine()
    return llvm.create_lljit_compiler(_machine(), use_jit_link=True)


def link(obj: bytes, exports: tuple[str, ...], imports: dict[str, int]) -> Code:
    """Links an object against ``imports`` and the libraries of the process."""
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(obj).add_current_process()
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        return Code(builder.link(_linker(), f"quadrants{next(_names)}"), exports)


def relink(obj: Kept, export: str, imports: dict[str, int]) -> Code | None:
    """The same for a kernel's object that comes from a disk; None where it is none for this machine."""
    try:
        if not obj.sealed:
            check_object(obj.content, export)
        return link(obj.content, (export,), imports)
    except (ValueError, RuntimeError):  # RuntimeError: LLVM's
        return None


def check_object(obj: bytes, export: str) -> None:
    """ValueError unless it is an object that can be given to `link`: LLVM ends the process where one is wrong."""
    from quadrants_lab.backends._objects import elf, macho

    check = macho.check_object if sys.platform == "darwin" else elf.check_relocatable
    check(obj, machine(), export.encode())


# --- the runtime module -----------------------------------------------------------------------------------------

_FOR_KERNELS = (
    "qd_parallel", "qd_poll", "qd_assert", "qd_overflow", "qd_print", "qd_copies", "qd_add_copies",
)  # fmt: skip
_FOR_PYTHON = ("qd_reset", "qd_start", "qd_stop", "qd_add_device", "qd_launch", "qd_call", "qd_drop_copies")
_PYTHON_SYMBOLS = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyErr_Occurred", "PyErr_Clear",
    "PyFloat_AsDouble", "PyLong_AsDouble", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyLong_FromUnsignedLongLong",
    "PyFloat_FromDouble", "PyBool_FromLong", "PyTuple_GetItem", "PyLong_AsVoidPtr", "Py_IncRef", "PyFloat_Type",
    "PyLong_Type", "PyBool_Type", "_Py_TrueStruct", "_Py_NoneStruct", "_Py_NotImplementedStruct", "_Py_EllipsisObject",
)  # fmt: skip


@cache
def machine() -> str:
    return "aarch64" if triple_and_layout()[0].split("-")[0] in ("aarch64", "arm64") else "x86_64"


@cache
def runtime() -> Code:
    """The runtime's code, for the life of the process.

    Instruction selection at level 0 costs a quarter of the usual and a launch 0.01 us.
    """
    with _lock:
        module = runtime_module(machine(), *triple_and_layout())
        python = {name: _python_address(name) for name in _PYTHON_SYMBOLS}
        return link(bytes(_machine(0).emit_object(module)), _FOR_KERNELS + _FOR_PYTHON, python)


def runtime_module(processor: str, triple: str, layout: str) -> Any:
    """runtime/*.c as a module for a system. ``processor``: x86_64 or aarch64."""
    head = f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n'
    folder = Path(__file__).parent / "runtime"
    module, differs = (parse(head + (folder / f"{name}.ll").read_text()) for name in ("runtime", processor))
    module.link_in(differs)
    return module


def _python_address(name: str) -> int:
    if name.endswith(("_Type", "Struct", "Object")):
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def kernel_imports() -> dict[str, int]:
    address = runtime().address
    return {name: address[name] for name in _FOR_KERNELS}
