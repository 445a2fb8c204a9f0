"""Makes machine code for this process by LLVM: target machine, optimisation, object code, linking.

LLVM is loaded only if something has to be compiled. If all code comes from the disk cache, so do the description of the
processor and the runtime's object code.
"""

import ast
import ctypes
import itertools
import os
import struct
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from quadrants_lab.backends import disk_cache, forks, linker, llvm_binding as binding
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.backends.llvm_binding import Machine, Module, llvm, text_of
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.ir.importing import importing

# With the default limits of four searches LLVM's time is quadratic: in the ifs of a kernel, for the number of blocks
# considered at a time when a register is chosen (10,000) and when equal ends of blocks are merged (150); in the memory
# accesses of a block, for the number of accesses ordered by pairs when instructions are scheduled (1,000); and in those
# of a loop, for the number of accesses among which it looks for elements that may be in registers (250).
_LINEAR = (
    b"-grow-region-complexity-budget=100", b"-tail-merge-threshold=20", b"-dag-maps-huge-region=200",
    b"-licm-mssa-max-acc-promotion=100",
)  # fmt: skip
_IMPROVING = ("AlwaysInliner", "SROA", "InstCombine", "SimplifyCFG")
ENTRY_NAME = "entry"  # the exported symbol of a kernel's code
_names = itertools.count()
_lock = forks.lock()  # one thread at a time uses LLVM's JIT and the start-up code


class Target(NamedTuple):
    """LLVM's description of this process and its processor."""

    triple: str
    layout: str
    processor: str
    features: str
    version: tuple[int, ...]


_target: list[Target] = []  # empty until the target is known


def target(cache: DiskCache | None = None) -> Target:
    """LLVM's description of this machine, from the cache if a process has stored it there since the system booted."""
    with _lock:
        if not _target:
            name = _system() if cache is not None else None
            kept = cache.get(name) if cache is not None and name else None
            known = None if kept is None else ast.literal_eval(syntax_tree(kept.decode(), "eval"))
            _target.append(_ask_llvm() if known is None else Target(*known))
            if cache is not None and name and kept is None:
                cache.put(name, repr(tuple(_target[0])).encode())
        return _target[0]


def _ask_llvm() -> Target:
    llvm.InitializeNativeTarget()
    features = sorted(text_of("GetHostCPUFeatures")[1].split(","), key=lambda feature: feature[1:])
    processor, described = text_of("GetHostCPUName")[1], ",".join(filter(None, features))
    layout = _machine(processor, described).layout
    return Target(text_of("GetProcessTriple")[1], layout, processor, described, binding.version())


def _system() -> str | None:
    """A cache key for LLVM and for this boot of the system, during which the processor stays the same; None if the
    system does not identify its boots."""
    with suppress(OSError):
        start = _text("/proc/sys/kernel/random/boot_id")
        found = find_spec("llvmlite")
        if found is not None and found.origin:
            at = os.stat(found.origin)
            return disk_cache.key("target", start, os.uname().machine, found.origin, f"{at.st_mtime_ns} {at.st_size}")
    return None


@cache
def target_machine() -> Machine:
    """LLVM's target machine for this processor."""
    llvm.InitializeNativeTarget()
    llvm.InitializeNativeAsmPrinter()
    llvm.InitializeNativeAsmParser()
    for option in _LINEAR:
        llvm.SetCommandLine(b"", option)
    return _machine(target().processor, target().features)


@cache
def _machine_without_gathers() -> Machine:
    """A target machine for which LLVM's own vectoriser emits no gathers: on many processors a gather takes longer than
    single loads."""
    target_machine()
    return _machine(target().processor, f"{target().features},+prefer-no-gather")


@cache
def _machine_with_gathers() -> Machine:
    """A machine for which LLVM keeps gathers whole. By default it makes a branch for each lane of a gather on
    processors without AVX-512 whose gathers it takes for slow, such as Zen 3. There the gradient of `scatter` in the
    sample mpm took four times as long to compile."""
    target_machine()
    return _machine(target().processor, f"{target().features},+fast-gather")


def _machine_for(module: Module) -> Machine:
    """The machine for a module: whether it gathers depends on whether lanes ask for gathers."""
    if not vector_bytes():
        return target_machine()
    return _machine_with_gathers() if "@llvm.vp.gather" in str(module.source) else _machine_without_gathers()


@cache
def _machine(processor: str, features: str, level: int = 2) -> Machine:
    """LLVM's target machine with position-independent code, which is needed because the code may lie far from the
    functions that it calls. On x86-64, where an access computes the address of its element itself, loops are as fast
    without `Machine.strides`, which takes a third of LLVM's time for the code of a small loop."""
    return Machine("", processor, features, level, "pic", "small", jit=True, strides=os.uname().machine != "x86_64")


def triple_and_layout() -> tuple[str, str]:
    return target()[:2]


@cache
def vector_bytes() -> int:
    """The number of bytes of a vector register; 0 if the processor has no gathers and masks."""
    features = target().features.split(",")
    return 64 if {"+avx512f", "+avx512dq", "+avx512vl"} <= set(features) else 32 if "+avx2" in features else 0


def target_key() -> str:
    """Everything besides the kernel and its options that object code depends on, as part of a key of the disk cache."""
    known = target()
    return f"{known.triple}/{known.processor}/{known.features}/llvm{known.version}"


def parse(text: str) -> Module:
    with _lock:
        target_machine()
        return binding.parse(text)


def optimise(module: Module, vectorise: bool, unroll: bool) -> None:
    """Optimises the module in place. With ``vectorise`` or ``unroll``, LLVM's pipeline at -O2 runs with these loop
    passes; otherwise only the passes that improve the emitter's code, which takes a quarter of the time."""
    with _lock:
        binding.optimise(
            module, _machine_for(module), () if vectorise or unroll else _IMPROVING, loop_vectorization=vectorise,
            loop_interleaving=vectorise, slp_vectorization=False, loop_unrolling=unroll,
        )  # fmt: skip


def object_code(module: Module) -> bytes:
    with _lock:
        return _machine_for(module).object_code(module)


@binding.remembered
def compiled(text: str, vectorise: bool, unroll: bool) -> bytes:
    """Compiles the text of a module to object code."""
    module = parse(text)
    optimise(module, vectorise, unroll)
    return object_code(module)


def assembly(module: Module) -> str:
    with _lock:
        return _machine_for(module).assembly(module)


class Code:
    """Linked machine code; it is unloaded when this object is deleted. ``address``: exported symbol -> address."""

    def __init__(self, memory: Any, address: dict[str, int]) -> None:
        self._memory = memory
        self.address = address


@cache
def _linker() -> tuple[Any, Any]:
    """llvmlite's module, and LLVM's JITLink, which places the sections of an object next to each other. LLVM's older
    linker may place them too far apart, for instance if CUDA has taken address space, and then it ends the process."""
    with importing():
        import llvmlite.binding as llvmlite

    target_machine()
    processor, features = target()[2:4]
    machine = llvmlite.Target.from_default_triple().create_target_machine(
        cpu=processor, features=features, opt=2, reloc="pic", codemodel="small", jit=True
    )
    return llvmlite, llvmlite.create_lljit_compiler(machine, use_jit_link=True)


def link(obj: bytes, exports: tuple[str, ...], imports: dict[str, int]) -> Code:
    """Links an object against ``imports`` (symbol -> address) and the libraries of the process."""
    if linker.usable(architecture()):
        with suppress(ValueError, LookupError, struct.error):
            return Code(*linker.linked(obj, exports, imports))
    with _lock, forks.llvm:
        llvmlite, jit_link = _linker()
        builder = llvmlite.JITLibraryBuilder().add_object_img(obj).add_current_process()
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        tracker = builder.link(jit_link, f"quadrants{next(_names)}")
        return Code(tracker, {name: int(tracker[name]) for name in exports})


def relink(obj: bytes, export: str, imports: dict[str, int]) -> Code | None:
    """Like `link`, for an object from the disk cache; None if the object is not for this machine."""
    try:
        return link(obj, (export,), imports)
    except RuntimeError:  # LLVM raises this if the object is for another machine
        return None


# --- the runtime module -----------------------------------------------------------------------------------------

_FOR_KERNELS = (
    "qd_parallel", "qd_poll", "qd_assert", "qd_overflow", "qd_print", "qd_copies", "qd_add_copies", "qd_copy_pages",
    "qd_move", "qd_no_shares", "qd_sum_of_shares", "qd_product_of_shares",
)  # fmt: skip
_FOR_PYTHON = ("qd_reset", "qd_start", "qd_stop", "qd_add_device", "qd_launch", "qd_call", "qd_drop_copies")
_PYTHON_SYMBOLS = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyErr_Occurred", "PyErr_Clear",
    "PyFloat_AsDouble", "PyLong_AsDouble", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyLong_FromUnsignedLongLong",
    "PyFloat_FromDouble", "PyBool_FromLong", "PyTuple_GetItem", "PyLong_AsVoidPtr", "Py_IncRef", "PyFloat_Type",
    "PyLong_Type", "PyBool_Type", "_Py_TrueStruct", "_Py_NoneStruct", "_Py_NotImplementedStruct", "_Py_EllipsisObject",
)  # fmt: skip


@cache
def architecture() -> str:
    return "aarch64" if triple_and_layout()[0].split("-")[0] in ("aarch64", "arm64") else "x86_64"


_runtime: list[Code] = []  # empty until the runtime is linked


def runtime(cache: DiskCache | None = None) -> Code:
    """The C runtime's code, loaded for the life of the process. ``cache``: may hold the runtime's object code and
    LLVM's description of the processor; only the first call uses it."""
    with _lock:
        if not _runtime:
            target(cache)
            obj = _runtime_object(DiskCache() if cache is None else cache)
            python = {name: _python_address(name) for name in _PYTHON_SYMBOLS}
            _runtime.append(link(obj, _FOR_KERNELS + _FOR_PYTHON, python))
        return _runtime[0]


def _runtime_object(cache: DiskCache) -> bytes:
    """The object code of the C runtime. It changes only if this package changes, so it is stored beside the package's
    bytecode if that folder is writable, else in ``cache``. Instruction selection at level 0 takes a quarter of the time
    and costs 0.01 us a launch."""
    texts = _runtime_texts(architecture())
    name = disk_cache.key("runtime", target_key(), _text(__file__), *texts)
    cache = disk_cache.beside_bytecode(__file__) or cache
    kept = cache.get(name)
    if kept is not None:
        return kept
    module = runtime_module(architecture(), *triple_and_layout())
    target_machine()
    obj = _machine(*target()[2:4], 0).object_code(module)
    cache.put(name, obj)
    return obj


def _runtime_texts(processor: str) -> list[str]:
    folder = os.path.join(os.path.dirname(__file__), "runtime")
    return [_text(os.path.join(folder, f"{name}.ll")) for name in ("runtime", processor)]


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def runtime_module(processor: str, triple: str, layout: str) -> Module:
    """The LLVM module of runtime/*.c for a system. ``processor``: x86_64 or aarch64."""
    head = f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n'
    with _lock:
        target_machine()
        return binding.parse(*(head + text for text in _runtime_texts(processor)))


def _python_address(name: str) -> int:
    if name.endswith(("_Type", "Struct", "Object")):
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def kernel_imports() -> dict[str, int]:
    address = runtime().address
    return {name: address[name] for name in _FOR_KERNELS}
