"""The CPU runtime: LLVM text that is compiled from C when developing, and is checked in."""

import ctypes
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from child import ANSWER, run
from conformance.tasks import AXPY
from conftest import ROOT
from rigs import cpu_rig

from quadrants_lab.backends import llvm_binding
from quadrants_lab.backends.cpu import jit

SCRIPT = ROOT / "scripts" / "cpu_runtime.py"
FOLDER = ROOT / "quadrants_lab" / "backends" / "cpu" / "runtime"
TEXTS = ("aarch64.ll", "runtime.ll", "x86_64.ll")
CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64)
PARALLEL = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, CHUNK, *[ctypes.c_uint64] * 4)


def test_the_text_is_of_these_sources() -> None:
    """If this fails, run `make cpu-runtime`."""
    program = "import cpu_runtime; print(cpu_runtime.sources())"
    out = run(sys.executable, "-c", program, env={"PYTHONPATH": str(SCRIPT.parent)})
    for name in TEXTS:
        assert (FOLDER / name).read_text().splitlines()[0].endswith(f" {out.stdout.strip()}")


@pytest.mark.needs("clang-19")
def test_the_text_is_what_clang_makes_of_them(tmp_path: Path) -> None:
    run(sys.executable, SCRIPT, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in FOLDER.glob("*.ll")) == list(TEXTS)
    for name in TEXTS:
        assert (tmp_path / name).read_text() == (FOLDER / name).read_text()


@pytest.mark.parametrize("system", ["unknown-linux-gnu", "apple-darwin23"])
@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_the_text_becomes_code_for_every_system(processor: str, system: str) -> None:
    llvm_binding.initialise_all()
    triple = f"{processor}-{system}"
    machine = llvm_binding.Machine(triple, level=0, relocation="pic", model="small", jit=True)
    module = jit.runtime_module(processor, triple, machine.layout)
    module.verify()
    code = machine.object_code(module)
    assert all(export.encode() in code for export in (*jit._FOR_KERNELS, *jit._FOR_PYTHON))
    undefined = {f.name for f in module.functions() if f.is_declaration and not f.name.startswith("llvm.")}
    assert not any(f.startswith("qd_") for f in undefined)


def test_workers_take_part() -> None:
    """Two chunks, on two threads, wait for each other; a single chunk is told that it is alone."""
    x = np.zeros(2, np.float32)
    frame = cpu_rig.bind(cpu_rig.load(AXPY), {"x": x, "y": x})
    parallel = PARALLEL(jit.runtime().address["qd_parallel"])
    meeting, seen = threading.Barrier(2, timeout=ANSWER), set()
    def meet(frame: int, begin: int, end: int, worker: int) -> None:
        meeting.wait()
        seen.add((begin, end, worker))
    assert parallel(frame.address, CHUNK(meet), 2, 1, 0, 0) == 1
    assert seen in ({(0, 1, 0), (1, 2, 1)}, {(0, 1, 1), (1, 2, 0)})
    alone: list[int] = []
    assert parallel(frame.address, CHUNK(lambda *job: alone.append(job[-1])), 1, 1, 0, 0) == 0
    assert alone == [-1]
