"""The CPU runtime: LLVM text that is compiled from C when developing, and is checked in."""

from __future__ import annotations

import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from child import run
from conftest import ROOT

from quadrants_lab.backends.cpu import jit

SCRIPT = ROOT / "scripts" / "cpu_runtime.py"
FOLDER = ROOT / "quadrants_lab" / "backends" / "cpu" / "runtime"
TEXTS = ("aarch64.ll", "runtime.ll", "x86_64.ll")


def test_the_text_is_of_these_sources() -> None:
    """Where this fails: make cpu-runtime."""
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
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = f"{processor}-{system}"
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(opt=0, reloc="pic", codemodel="small", jit=True)
    module = jit.runtime_module(processor, triple, str(machine.target_data))
    module.verify()
    code = machine.emit_object(module)
    assert all(export.encode() in code for export in (*jit._FOR_KERNELS, *jit._FOR_PYTHON))
    undefined = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    assert not any(f.startswith("qd_") for f in undefined)
