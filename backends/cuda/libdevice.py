"""Extracts from NVIDIA's math library the functions that a kernel calls.

Parsing the whole library takes longer than compiling a kernel. So the user's cache folder holds the part of it that
primitives can call, and each function by itself, optimised.
"""

import hashlib
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

from quadrants_lab.backends import forks, llvm_binding as binding
from quadrants_lab.backends.cuda import toolkit
from quadrants_lab.backends.disk_cache import DiskCache, default_path, key
from quadrants_lab.backends.llvm_binding import Machine, Module
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.prims import PRIMS

# primitive -> the library's f64 function; the f32 function has an f after this name
NAMES = {p.name: f"__nv_{p.name}" for p in PRIMS.values() if p.llvm[0] == "@math"} | {"raw_mod": "__nv_fmod"}

_lock = forks.lock()

# a module flag that selects the variants of functions that flush f32 denormals, as the kernels do
_FLUSH = """\
target datalayout = "{layout}"
target triple = "{triple}"
!llvm.module.flags = !{{!0}}
!0 = !{{i32 4, !"nvvm-reflect-ftz", i32 1}}
"""


def function(name: str, machine: Machine) -> str:
    """The LLVM IR of the library's function ``name`` and of the functions that it calls, optimised for the target
    machine.

    Raises QuadrantsRuntimeError if there is no library, or no such function in it.
    """
    with _lock:
        return _function(name, machine)


@cache
def _function(name: str, machine: Machine) -> str:
    def make() -> str:
        part = binding.parse(_FLUSH.format(layout=machine.layout, triple=machine.triple))
        part.link(_cut(part.parsed(_common(machine)), [name], machine))
        binding.optimise(part, machine, level=3, loop_unrolling=False)
        return str(part)

    return _kept(f"{name}-{_version()}", make)


def prepare(machine: Machine) -> None:
    """Extracts the functions that primitives can call, if the cache does not have them yet."""
    with _lock:
        _common(machine)


@cache
def _common(machine: Machine) -> str:
    def make() -> str:
        names = [n + suffix for n in NAMES.values() for suffix in ("", "f")]
        return str(_cut(binding.parse(_whole()), names, machine))

    return _kept(f"all-{_version()}", make)


@cache
def _whole() -> bytes:
    path = toolkit.libdevice()
    if path is None:
        raise QuadrantsRuntimeError(toolkit.missing_libdevice(), code="QL3011")
    return path.read_bytes()


def _cut(part: Module, names: Collection[str], machine: Machine) -> Module:
    """Reduces the library to these functions and the functions that they call."""
    part.set_system(machine.triple, machine.layout)
    missing = set(names)
    for fn in part.functions():
        if not fn.is_declaration:
            fn.export(fn.name in missing)
            missing.discard(fn.name)
    if missing:
        raise QuadrantsRuntimeError(
            f"{toolkit.libdevice()} has no function {', '.join(sorted(missing))}", code="QL3011"
        )
    binding.optimise(part, machine, ("GlobalDCE",))
    return part


# --- the cache --------------------------------------------------------------------------------------------------


@cache
def _version() -> str:
    """A hash of what the cached text depends on: the library, LLVM, the functions' names, and this file."""
    digest = hashlib.sha256(Path(__file__).read_bytes() + repr(NAMES).encode())
    digest.update(_whole())
    digest.update(repr(binding.version()).encode())
    return digest.hexdigest()[:24]


@cache
def _disk() -> DiskCache:
    return DiskCache(default_path(), below="libdevice")


def _kept(name: str, make: Callable[[], str]) -> str:
    """The text in the cache under this name; if there is none, what ``make`` returns, which is then stored there."""
    kept = _disk().get(key(name))
    if kept is not None:
        return kept.decode()
    text = make()
    _disk().put(key(name), text.encode())
    return text
