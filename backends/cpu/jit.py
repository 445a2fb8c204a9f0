"""Machine code for this process: target machine, optimisation, object code, linking. All of it is made on first use.

LLVM is loaded for what has to be compiled. Where all code comes from the disk cache, what LLVM says of the processor
and the runtime's object come from there, too.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import itertools
import os
import struct
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from quadrants_lab.backends import disk_cache, forks
from quadrants_lab.backends._objects import linker
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.ir.importing import importing

# Without these LLVM takes a time that is quadratic in the ifs of a kernel: blocks over which it looks for a register at
# a time (10,000), and blocks of one successor among which it looks for equal ends (150).
_LINEAR = ("-grow-region-complexity-budget=100", "-tail-merge-threshold=20")
ENTRY_NAME = "entry"  # of a kernel's code
_names = itertools.count()
_lock = forks.lock()  # LLVM's JIT and our start-up are used by one thread at a time


class _Late:
    """llvmlite's binding of LLVM, imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        load_ahead()
        with importing():
            found = getattr(import_module("llvmlite.binding"), name)
        setattr(self, name, found)
        return found


@cache
def load_ahead() -> None:
    """Begins to load LLVM."""
    forks.start(_load_library, name="LLVM")


def _load_library() -> None:
    """Loads LLVM's 100 MB, while other threads run: where llvmlite does it, no thread runs Python. What fails here is
    llvmlite's to tell."""
    with suppress(AttributeError, OSError):
        found = find_spec("llvmlite")
        if found is not None and found.origin:
            name = "libllvmlite.dylib" if sys.platform == "darwin" else "libllvmlite.so"
            library = Path(found.origin).parent / "binding" / name
            ctypes.CDLL(None).dlopen(os.fsencode(library), os.RTLD_NOW)


llvm: Any = _Late()


class Target(NamedTuple):
    """What LLVM says of this process and its processor."""

    triple: str
    layout: str
    processor: str
    features: str
    version: tuple[int, ...]


_target: list[Target] = []  # once it is known


def target(cache: DiskCache | None = None) -> Target:
    """As LLVM says, or said in another process of this system since it was started."""
    with _lock:
        if not _target:
            name = _system() if cache is not None else None
            kept = cache.get(name) if cache is not None and name else None
            if kept is not None:
                triple, layout, processor, features, version = ast.literal_eval(kept.decode())
                _target.append(Target(triple, layout, processor, features, tuple(version)))
            else:
                _target.append(_asked())
                if cache is not None and name:
                    cache.put(name, repr(tuple(_target[0])).encode())
        return _target[0]


def _asked() -> Target:
    llvm.initialize_native_target()
    features = str(llvm.get_host_cpu_features().flatten())
    machine = _machine(str(llvm.get_host_cpu_name()), features)
    triple, layout = str(llvm.get_process_triple()), str(machine.target_data)
    return Target(triple, layout, str(llvm.get_host_cpu_name()), features, tuple(llvm.llvm_version_info))


def _system() -> str | None:
    """A key for this start of this system, on which the processor stays what it is, and for LLVM; None where it has no
    name."""
    with suppress(OSError):
        start = Path("/proc/sys/kernel/random/boot_id").read_text()
        found = find_spec("llvmlite")
        if found is not None and found.origin:
            at = os.stat(found.origin)
            return disk_cache.key("target", start, os.uname().machine, found.origin, f"{at.st_mtime_ns} {at.st_size}")
    return None


@cache
def target_machine() -> Any:
    """The host's machine; position independent code, because JITed code may lie far from what it calls."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    for option in _LINEAR:
        llvm.set_option("", option)
    return _machine(target().processor, target().features)


def _machine(processor: str, features: str, level: int = 2) -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=processor,
        features=features,
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


def triple_and_layout() -> tuple[str, str]:
    return target()[:2]


@cache
def vector_bytes() -> int:
    """Width of the vectors that tasks run in lanes of; 0 where there are none that gather and mask."""
    features = target().features.split(",")
    return 64 if {"+avx512f", "+avx512dq", "+avx512vl"} <= set(features) else 32 if "+avx2" in features else 0


def target_key() -> str:
    """What object code depends on besides the kernel and its options; part of a disk cache's key."""
    known = target()
    return f"{known.triple}/{known.processor}/{known.features}/llvm{known.version}"


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


def compiled(text: str, vectorise: bool) -> bytes:
    """The object of a module's text."""
    module = parse(text)
    optimise(module, vectorise)
    return object_code(module)


def assembly(module: Any) -> str:
    with _lock:
        return str(target_machine().emit_assembly(module))


class Code:
    """Linked machine code; it stays while this object lives. ``address[name]`` of each exported symbol."""

    def __init__(self, held: Any, address: dict[str, int]) -> None:
        self._held = held
        self.address = address


@cache
def _linker() -> Any:
    """JITLink lays an object's sections side by side; the older linker may put them too far apart for their references,
    as in a process in which CUDA has taken address space, and then ends the process."""
    target_machine()
    return llvm.create_lljit_compiler(_machine(*target()[2:4]), use_jit_link=True)


def link(obj: bytes, exports: tuple[str, ...], imports: dict[str, int]) -> Code:
    """Links an object against ``imports`` and the libraries of the process."""
    if linker.usable(machine()):
        with suppress(ValueError, LookupError, struct.error):
            return Code(*linker.linked(obj, exports, imports))
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(obj).add_current_process()
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        tracker = builder.link(_linker(), f"quadrants{next(_names)}")
        return Code(tracker, {name: int(tracker[name]) for name in exports})


def relink(obj: bytes, export: str, imports: dict[str, int]) -> Code | None:
    """The same for a kernel's object that comes from a disk; None where it is none for this machine."""
    try:
        return link(obj, (export,), imports)
    except RuntimeError:  # LLVM's
        return None


# --- the runtime module -----------------------------------------------------------------------------------------

_FOR_KERNELS = (
    "qd_parallel", "qd_poll", "qd_assert", "qd_overflow", "qd_print", "qd_copies", "qd_add_copies",
    "qd_no_shares", "qd_sum_of_shares", "qd_product_of_shares",
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


_runtime: list[Code] = []  # once it is there


def runtime(cache: DiskCache | None = None) -> Code:
    """The runtime's code, for the life of the process. ``cache``: where its object and what LLVM says of the processor
    may be; whoever asks first gives it."""
    with _lock:
        if not _runtime:
            target(cache)
            obj = _runtime_object(DiskCache() if cache is None else cache)
            python = {name: _python_address(name) for name in _PYTHON_SYMBOLS}
            _runtime.append(link(obj, _FOR_KERNELS + _FOR_PYTHON, python))
        return _runtime[0]


def begin(cache: DiskCache) -> None:
    """Begins to make the runtime's code, for a caller that has Python to run meanwhile: LLVM needs none. What fails
    here fails again where the code is needed."""
    if not _runtime:
        with suppress(Exception):
            target(cache)
            forks.start(_try_runtime, cache, name="runtime")


def _try_runtime(cache: DiskCache) -> None:
    with suppress(Exception):
        runtime(cache)


def _runtime_object(cache: DiskCache) -> bytes:
    """Instruction selection at level 0 costs a quarter of the usual and a launch 0.01 us."""
    texts = _runtime_texts(machine())
    name = disk_cache.key("runtime", target_key(), hashlib.sha256(Path(__file__).read_bytes()).hexdigest(), *texts)
    kept = cache.get(name)
    if kept is not None:
        return kept
    module = runtime_module(machine(), *triple_and_layout())
    target_machine()
    obj = bytes(_machine(*target()[2:4], 0).emit_object(module))
    cache.put(name, obj)
    return obj


def _runtime_texts(processor: str) -> list[str]:
    folder = Path(__file__).parent / "runtime"
    return [(folder / f"{name}.ll").read_text() for name in ("runtime", processor)]


def runtime_module(processor: str, triple: str, layout: str) -> Any:
    """runtime/*.c as a module for a system. ``processor``: x86_64 or aarch64."""
    head = f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n'
    module, differs = (parse(head + text) for text in _runtime_texts(processor))
    module.link_in(differs)
    return module


def _python_address(name: str) -> int:
    if name.endswith(("_Type", "Struct", "Object")):
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def kernel_imports() -> dict[str, int]:
    address = runtime().address
    return {name: address[name] for name in _FOR_KERNELS}
