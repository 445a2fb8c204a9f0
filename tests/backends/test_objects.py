"""What is looked at before a linker, a loader or a driver gets it: what was cut or changed does not end the process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import metal_rig
import numpy as np
import pytest
from child import run
from conformance_tasks import AXPY, CHECKED, stacked

from quadrants_lab.backends._gpu.programs import programs
from quadrants_lab.backends._objects import elf, macho
from quadrants_lab.backends._spirv import kernel as spirv
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.check import is_module
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.backends.cpu import tasks
from quadrants_lab.backends.disk_cache import Kept
from quadrants_lab.backends.metal import simulator
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel

STACKED = stacked("f32", 64).replace("{OP}", "sin %9")
SOURCES = {"axpy": AXPY, "stacked": STACKED, "checked": CHECKED}
CHECKS: dict[str, tuple[str, str]] = {  # triple -> processor, and its name in a format
    "x86_64-unknown-linux-gnu": ("x86-64", "x86_64"),
    "aarch64-unknown-linux-gnu": ("generic", "aarch64"),
    "x86_64-apple-darwin23": ("haswell", "x86_64"),
    "arm64-apple-darwin23": ("apple-m1", "aarch64"),
}
on_every_target = pytest.mark.parametrize("triple", CHECKS)


@cache
def object_of(triple: str, source: str) -> bytes:
    """A kernel's object, made as `cpu.jit` makes it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=CHECKS[triple][0], opt=2, reloc="pic", codemodel="small", jit=True)
    kernel = parse_kernel(SOURCES[source])
    made = tasks.module(kernel, CompileOptions(debug=True), [0] * len(kernel.body), triple, str(machine.target_data))
    return bytes(machine.emit_object(llvm.parse_assembly("\n".join(made.lines()[0]))))


def check(triple: str, code: bytes) -> None:
    of = macho.check_object if "apple" in triple else elf.check_relocatable
    of(code, CHECKS[triple][1], tasks.ENTRY_NAME.encode())


@on_every_target
@pytest.mark.parametrize("source", SOURCES)
def test_objects_of_kernels_pass(triple: str, source: str) -> None:
    check(triple, object_of(triple, source))


@on_every_target
@pytest.mark.parametrize("source", SOURCES)
def test_cut_objects_do_not_pass(triple: str, source: str) -> None:
    code = object_of(triple, source)
    for n in range(len(code)):
        with pytest.raises(ValueError, match="an object file is wrong about"):
            check(triple, code[:n])


@on_every_target
def test_other_objects_do_not_pass(triple: str) -> None:
    code = object_of(triple, "axpy")
    others = [object_of(other, "axpy") for other in CHECKS if other != triple]
    for wrong in (*others, b"", bytes(len(code)), code + code, code.replace(b"entry", b"other")):
        with pytest.raises(ValueError, match="an object file is wrong about"):
            check(triple, wrong)


CHANGED = """
import sys
import llvmlite.binding as llvm
import numpy as np
from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends._objects import elf, linker, macho

path, format, processor = sys.argv[1:]
check = getattr({"elf": elf, "macho": macho}[format], {"elf": "check_relocatable", "macho": "check_object"}[format])
lead = "_" if format == "macho" else ""
imports = {**jit.kernel_imports(), "sinf": jit.runtime().address["qd_poll"]}

def link(code, number):
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    builder.export_symbol(lead + "entry")
    for name, address in imports.items():
        builder.import_symbol(lead + name, address)
    builder.link(jit._linker(), f"changed{number}")

code = open(path, "rb").read()
link(code, "not")
passed = refused = 0
for n in range(3 * len(code)):
    at, mask = n // 3, (0x01, 0x80, 0xFF)[n % 3]
    changed = code[:at] + bytes([code[at] ^ mask]) + code[at + 1 :]
    try:
        check(changed, processor, b"entry")
    except ValueError:
        refused += 1
        continue
    passed += 1
    try:
        link(changed, n)
    except RuntimeError:
        pass
    if format == "elf" and linker.usable(processor):
        try:
            linker.linked(changed, ("entry",), imports)
        except ValueError:
            pass
print(passed, refused)
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="the linker of Linux takes objects of every system")
@on_every_target
@pytest.mark.parametrize("source", ["axpy", "stacked"])
def test_changed_objects_do_not_end_the_linker(triple: str, source: str, tmp_path: Path) -> None:
    """Each byte of an object is changed in three ways; what passes is linked."""
    path = tmp_path / "changed.o"
    path.write_bytes(object_of(triple, source))
    format = "macho" if "apple" in triple else "elf"
    command = [sys.executable, "-c", CHANGED, str(path), format, CHECKS[triple][1]]
    done = run(*command)
    passed, refused = map(int, done.stdout.split())
    assert passed > 100  # changed instructions, above all
    assert refused > 100


# --- shared objects -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library() -> bytes:
    """A compiled simulation."""
    if simulator.probe():
        pytest.skip(simulator.probe())
    _, made = simulator._compiled(simulator._unit("key", metal_rig.load(AXPY).source))
    return made


def opened(code: bytes) -> object:
    return simulator._opened(Kept(code, sealed=False))


def test_a_simulation_is_loaded_again(library: bytes) -> None:
    first, second = opened(library), opened(library)
    assert first is not None
    assert second is not None
    assert first.qd_run_key_task0 is not None  # type: ignore[attr-defined]  # a library's function


def test_a_simulation_that_is_cut_is_not_loaded(library: bytes) -> None:
    for n in range(0, len(library), 64):
        assert opened(library[:n]) is None


def test_a_simulation_whose_header_is_changed_is_not_loaded(library: bytes) -> None:
    for at in [n for n in range(64) if n not in (*range(7, 16), *range(24, 32), *range(48, 52), 62, 63)]:
        assert opened(library[:at] + bytes([library[at] ^ 0x80]) + library[at + 1 :]) is None


# --- SPIR-V -------------------------------------------------------------------------------------------------------


@cache
def module_of(source: str) -> tuple[bytes, list[str]]:
    kernel = parse_kernel(SOURCES[source])
    target = Target(f64=True, i16=True, i8=True)
    return spirv.module(kernel, CompileOptions(debug=True), target).words(), [p.name for p in programs(kernel)]


@pytest.mark.parametrize("source", SOURCES)
def test_modules_pass_and_cut_ones_do_not(source: str) -> None:
    code, names = module_of(source)
    assert is_module(code, names)
    assert not any(is_module(code[:n], names) for n in range(len(code)))


def without_a_type(code: bytes) -> bytes:
    """The module without an instruction that defines an id which others use."""
    words, at = np.frombuffer(code, np.uint32), 5
    while words[at] & 0xFFFF != C.OPS["TypeFloat"][0]:
        at += words[at] >> 16
    return code[: 4 * at] + code[4 * (at + (words[at] >> 16)) :]


@pytest.mark.parametrize(
    "change",
    [
        without_a_type, lambda b: b"", lambda b: bytes(len(b)), lambda b: b + b[20:], lambda b: b[:20] + b[24:],
        lambda b: b[:12] + b"\2\0\0\0" + b[16:], lambda b: b[:12] + b"\xff\xff\xff\xff" + b[16:],
    ],
    ids=["an instruction less", "nothing", "zeros", "twice", "a word less", "ids beyond the bound", "an endless bound"],
)  # fmt: skip
def test_other_modules_do_not_pass(change: Callable[[bytes], bytes]) -> None:
    code, names = module_of("stacked")
    assert not is_module(change(code), names)


def test_a_module_of_other_programs_does_not_pass() -> None:
    code, names = module_of("axpy")
    assert not is_module(code, [*names, "another"])
    assert not is_module(code, names[1:])
