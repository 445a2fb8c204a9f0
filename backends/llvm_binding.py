"""Binds LLVM's C functions in llvmlite's library, such that the memory of a process which compiles for days does
not grow.

llvmlite's own Python modules are not used: importing them takes twice as long as loading LLVM, and three times as long
as compiling a small kernel. Each module has its own LLVM context, because a context never frees a type or a constant.
LLVM never frees 1.5 KB of every pass builder, so the results of the last compilations are cached (`remembered`).
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from quadrants_lab.backends import forks
from quadrants_lab.backends.disk_cache import hashed

P = ParamSpec("P")
R = TypeVar("R")
NOTHING: Mapping[str, str] = MappingProxyType({})
_LAST = 64  # how many results `remembered` caches for each function
_EXTERNAL, _INTERNAL = 0, 8  # LLVM's codes for external and internal linkage
_TUNING = {
    "loop_vectorization": "LoopVectorization", "loop_interleaving": "LoopInterleaving",
    "slp_vectorization": "SLPVectorization", "loop_unrolling": "LoopUnrolling",
}  # fmt: skip

# function name without the prefix LLVMPY_ -> letters of `_KINDS` for its result and then for each argument
SIGNATURES = {
    "GetVersionInfo": "u", "SetCommandLine": "-ss", "DisposeString": "-p",
    "InitializeNativeTarget": "-", "InitializeNativeAsmPrinter": "-", "InitializeNativeAsmParser": "-",
    "InitializeAllTargetInfos": "-", "InitializeAllTargets": "-", "InitializeAllTargetMCs": "-",
    "InitializeAllAsmPrinters": "-",
    "GetHostCPUName": "-t", "GetHostCPUFeatures": "it", "GetProcessTriple": "-t", "GetDefaultTargetTriple": "-t",
    "GetTargetFromTriple": "pst", "CreateTargetMachine": "ppsssissiis", "DisposeTargetMachine": "-p",
    "GetTargetMachineTriple": "-pt", "TargetMachineEmitToMemory": "pppit",
    "CreateTargetMachineData": "pp", "CopyStringRepOfTargetData": "-pt", "DisposeTargetData": "-p",
    "GetBufferStart": "pp", "GetBufferSize": "np", "DisposeMemoryBuffer": "-p",
    "ContextCreate": "p", "ContextDispose": "-p",
    "ParseAssembly": "ppst", "ParseBitcode": "ppsnt", "CloneModule": "pp", "LinkModules": "ippt", "VerifyModule": "bpt",
    "PrintModuleToString": "-pt", "SetTarget": "-ps", "SetDataLayout": "-ps",
    "ModuleFunctionsIter": "pp", "FunctionsIterNext": "pp", "DisposeFunctionsIter": "-p",
    "GetNamedFunction": "pps", "GetValueName": "sp", "IsDeclaration": "ip", "SetLinkage": "-pi",
    "GlobalGetValueType": "pp", "PrintType": "pp",
    "GetEnumAttributeKindForName": "usn", "AddFunctionAttr": "-pu",
    "CreatePipelineTuningOptions": "p", "DisposePipelineTuningOptions": "-p",
    "PTOSetLoopInterleaving": "-pb", "PTOSetLoopVectorization": "-pb", "PTOSetSLPVectorization": "-pb",
    "PTOSetLoopUnrolling": "-pb",
    "CreatePassBuilder": "ppp", "buildPerModuleDefaultPipeline": "ppii", "DisposePassBuilder": "-p",
    "CreateNewModulePassManager": "p", "RunNewModulePassManager": "-ppp", "DisposeNewModulePassManger": "-p",
    "module_AddAlwaysInlinerPass": "-p", "module_AddGlobalDCEPass": "-p", "module_AddInstCombinePass": "-p",
    "module_AddLoopRotatePass": "-p", "module_AddSROAPass": "-p", "module_AddSimplifyCFGPass": "-p",
}  # fmt: skip

# the letters' types, in order: nothing, a pointer, text or bytes, a pointer through which LLVM returns a text, an int,
# an unsigned int, a bool, a size
_KINDS = {
    "-": None, "p": ctypes.c_void_p, "s": ctypes.c_char_p, "t": ctypes.POINTER(ctypes.c_void_p), "i": ctypes.c_int,
    "u": ctypes.c_uint, "b": ctypes.c_bool, "n": ctypes.c_size_t,
}  # fmt: skip


@cache
def library_path() -> str:
    """The path of LLVM's library in llvmlite."""
    package = find_spec("llvmlite")
    assert package is not None
    assert package.origin is not None
    name = "libllvmlite.dylib" if sys.platform == "darwin" else "libllvmlite.so"
    return os.path.join(os.path.dirname(package.origin), "binding", name)


class _Functions:
    """LLVM's functions as attributes. The first access loads LLVM."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        result, *arguments = (_KINDS[letter] for letter in SIGNATURES[name])
        function = getattr(_library(), f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments

        def call(*args: Any) -> Any:
            with forks.llvm:
                return function(*args)

        setattr(self, name, call)
        return call


@cache
def _library() -> Any:
    return ctypes.CDLL(library_path())


@cache
def load_soon() -> None:
    """Starts to load LLVM on another thread, while Python goes on. The first call of a function waits for that thread.
    """
    forks.start(_open, library_path().encode(), name="LLVM")


def _open(path: bytes) -> None:
    """Opens the library like `_library`, but without holding Python's lock."""
    ctypes.CDLL(None).dlopen(path, os.RTLD_NOW | os.RTLD_LOCAL)


llvm: Any = _Functions()


def text_of(name: str, *args: Any) -> tuple[Any, str]:
    """Calls the function ``name`` of LLVM, which returns a text through its last argument. Returns the function's
    result and the text."""
    place = ctypes.c_void_p()
    result = getattr(llvm, name)(*args, ctypes.byref(place))
    return result, _taken(place.value)


def _taken(pointer: int | None) -> str:
    """The text at a pointer from LLVM, whose memory is then freed."""
    if pointer is None:
        return ""
    text = ctypes.string_at(pointer).decode()
    llvm.DisposeString(pointer)
    return text


def _freed(owner: object, end: Callable[..., None], *pointers: int) -> None:
    """Registers ``end(*pointers)`` to be called when ``owner`` is freed, but not when the process ends."""
    weakref.finalize(owner, end, *pointers).atexit = False


@cache
def version() -> tuple[int, ...]:
    """LLVM's version."""
    return tuple(llvm.GetVersionInfo().to_bytes(4, "big").lstrip(b"\0"))


@cache
def initialise_all() -> None:
    """Enables code generation for all processors that LLVM knows; otherwise only this machine's is enabled."""
    for part in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        getattr(llvm, f"InitializeAll{part}")()


class Machine:
    """LLVM's target machine, which generates code for a processor. ``triple``: the target's triple, by default this
    system's. ``strides``: whether LLVM's pass "loop strength reduction" runs, which replaces the products that compute
    addresses in a loop by sums."""

    def __init__(
        self, triple: str = "", processor: str = "", features: str = "", level: int = 2, relocation: str = "default",
        model: str = "jitdefault", jit: bool = False, strides: bool = True,
    ) -> None:  # fmt: skip
        self.strides = strides
        triple = triple or text_of("GetDefaultTargetTriple")[1]
        target, why = text_of("GetTargetFromTriple", triple.encode())
        if not target:
            raise RuntimeError(why)
        words = (triple.encode(), processor.encode(), features.encode(), level, relocation.encode(), model.encode())
        self.pointer = llvm.CreateTargetMachine(target, *words, 0, jit, b"")
        self.triple = text_of("GetTargetMachineTriple", self.pointer)[1]
        _freed(self, llvm.DisposeTargetMachine, self.pointer)

    @property
    def layout(self) -> str:
        """The data layout string: sizes and alignments of types, in LLVM's notation."""
        data = llvm.CreateTargetMachineData(self.pointer)
        try:
            return text_of("CopyStringRepOfTargetData", data)[1]
        finally:
            llvm.DisposeTargetData(data)

    def object_code(self, module: Module) -> bytes:
        """Compiles the module to object code; this modifies the module."""
        return self._emitted(module, True)

    def assembly(self, module: Module) -> str:
        """Compiles the module to assembly; this modifies the module."""
        return self._emitted(module, False).decode()

    def _emitted(self, module: Module, as_object: bool) -> bytes:
        # LLVM has this option only for all machines of the process
        llvm.SetCommandLine(b"", b"-disable-lsr=false" if self.strides else b"-disable-lsr")
        buffer, why = text_of("TargetMachineEmitToMemory", self.pointer, module.pointer, as_object)
        if not buffer:
            raise RuntimeError(why)
        try:
            return ctypes.string_at(llvm.GetBufferStart(buffer), llvm.GetBufferSize(buffer))
        finally:
            llvm.DisposeMemoryBuffer(buffer)


class Module:
    """LLVM IR in a context. The context is freed with its last module. ``source``: the text or bitcode that the module
    was parsed from."""

    def __init__(self, pointer: int, context: _Context, source: str | bytes) -> None:
        self.pointer = pointer
        self.source = source
        self._context = context

    def __str__(self) -> str:
        return text_of("PrintModuleToString", self.pointer)[1]

    def verify(self) -> None:
        """Raises RuntimeError if the module is not valid."""
        wrong, why = text_of("VerifyModule", self.pointer)
        if wrong:
            raise RuntimeError(why)

    def clone(self) -> Module:
        return Module(llvm.CloneModule(self.pointer), self._context, self.source)

    def set_system(self, triple: str, layout: str) -> None:
        llvm.SetTarget(self.pointer, triple.encode())
        llvm.SetDataLayout(self.pointer, layout.encode())

    def functions(self) -> Iterator[Function]:
        at = llvm.ModuleFunctionsIter(self.pointer)
        try:
            while function := llvm.FunctionsIterNext(at):
                yield Function(function)
        finally:
            llvm.DisposeFunctionsIter(at)

    def type_of(self, name: str) -> str:
        """The type of the function with this name."""
        return _taken(llvm.PrintType(llvm.GlobalGetValueType(llvm.GetNamedFunction(self.pointer, name.encode()))))

    def parsed(self, text: str | bytes) -> Module:
        """Parses another text into a module of the same context as this one."""
        return self._context.parsed(text)

    def link(self, other: Module) -> None:
        """Links another module of the same context into this one. The other module cannot be used any more."""
        failed, why = text_of("LinkModules", self.pointer, other.pointer)
        if failed:
            raise RuntimeError(why)


class Function:
    """A function of a module."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer
        self.name: str = llvm.GetValueName(pointer).decode()
        self.is_declaration = bool(llvm.IsDeclaration(pointer))

    def export(self, exported: bool) -> None:
        llvm.SetLinkage(self.pointer, _EXTERNAL if exported else _INTERNAL)

    def add_attribute(self, name: str) -> None:
        llvm.AddFunctionAttr(self.pointer, llvm.GetEnumAttributeKindForName(name.encode(), len(name)))


class _Context:
    """An LLVM context. When it is freed, LLVM frees its modules too, whatever the order in which Python frees the
    objects."""

    def __init__(self) -> None:
        self.pointer = llvm.ContextCreate()
        _freed(self, llvm.ContextDispose, self.pointer)

    def parsed(self, text: str | bytes) -> Module:
        """Parses a text, or bitcode, into a module of this context."""
        if isinstance(text, str):
            pointer, why = text_of("ParseAssembly", self.pointer, text.encode())
        else:
            pointer, why = text_of("ParseBitcode", self.pointer, text, len(text))
        if not pointer:
            raise RuntimeError(f"LLVM IR parsing error\n{why}")
        return Module(pointer, self, text)


def parse(*texts: str | bytes, library: Mapping[str, str] = NOTHING) -> Module:
    """Parses the first text, or bitcode, into a module, and links the others into it. ``library``: name of a function
    -> the text of its module; the functions that the module calls are linked too. Raises TypeError if the module
    declares one of them with other types."""
    module = _Context().parsed(texts[0])
    for text in texts[1:]:
        module.link(module.parsed(text))
    for name, body in library.items():
        part = module.parsed(body)
        asked, made = module.type_of(name), part.type_of(name)
        if asked != made:
            raise TypeError(f"{name} is called as {asked}, but the library's is {made}")
        module.link(part)
    return module


def optimise(module: Module, machine: Machine, passes: Sequence[str] = (), level: int = 2, **options: bool) -> None:
    """Optimises the module in place, with these passes; if there are none, with LLVM's pipeline for the given level and
    its tuning ``options``."""
    tuning = llvm.CreatePipelineTuningOptions()
    for name, value in options.items():
        getattr(llvm, f"PTOSet{_TUNING[name]}")(tuning, value)
    # each module needs a builder of its own, because a builder refers to data that its last run leaves behind
    builder = llvm.CreatePassBuilder(machine.pointer, tuning)
    # LLVM before 21 takes one more argument, a level for size, which other versions ignore
    manager = llvm.CreateNewModulePassManager() if passes else llvm.buildPerModuleDefaultPipeline(builder, level, 0)
    try:
        for name in passes:
            getattr(llvm, f"module_Add{name}Pass")(manager)
        llvm.RunNewModulePassManager(manager, module.pointer, builder)
    finally:
        llvm.DisposeNewModulePassManger(manager)
        llvm.DisposePassBuilder(builder)
        llvm.DisposePipelineTuningOptions(tuning)


def remembered(make: Callable[P, R]) -> Callable[P, R]:
    """A decorator that caches a function's last results. The function's result must depend only on its arguments, which
    must be hashable."""
    known: OrderedDict[bytes, R] = OrderedDict()

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        key = hashed(repr((args, kwargs)).encode()).digest()
        result = known.pop(key, None)
        if result is None:
            result = make(*args, **kwargs)
        known[key] = result
        if len(known) > _LAST:
            known.popitem(last=False)
        return result

    return call
