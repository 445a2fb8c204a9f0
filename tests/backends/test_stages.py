"""The stages of backends with a memory of their own: their texts, sizes, and the IR statement behind each line."""

from importlib import import_module

import pytest
from conformance.stage_kernels import BRANCHES
from conformance.tasks import AXPY, CHECKED, reduction, stacked
from rigs import EXACT, FAST

from quadrants_lab.backends.lower import lower
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk

GPUS = ("vulkan", "metal", "cuda")
SAMPLES = {
    "axpy": AXPY,
    "reduce": reduction("add", "f32", 30001),
    "stacked": stacked("f32", 64).replace("{OP}", "mul %9, %9"),
    "branches": BRANCHES.replace("sin %9", "mul %9, %9"),
    "checked": CHECKED,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("options", [EXACT, FAST], ids=["exact", "fast"])
@pytest.mark.parametrize("arch", [*GPUS, "wasm", pytest.param("amdgpu", marks=pytest.mark.needs("ld.lld"))])
def test_stages(arch: str, options: CompileOptions, name: str) -> None:
    backend, kernel = import_module(f"quadrants_lab.backends.{arch}"), parse_kernel(SAMPLES[name])
    known = {s.id for s in walk(lower(kernel, backend.lowering(options), options).body)}
    stores = {s.id for s in walk(kernel.body) if isinstance(s, N.Store)}
    made = backend.stages(kernel, options)
    assert tuple(made) == backend.STAGES
    for stage, make in made.items():
        shown = make()
        assert shown.name == stage
        assert shown.text.count("\n") + 1 == len(shown.ids) == shown.lines
        assert shown.bytes == len(shown.text.encode())
        assert shown.instructions > 5
        assert {i for i in shown.ids if i >= 0} <= known
        assert not stores or stores & set(shown.ids) or stage == "hsaco", stage  # there may be no disassembler


@pytest.mark.parametrize("arch", ["cuda", "amdgpu"])
def test_failed_asserts_do_not_return(arch: str) -> None:
    """A thread that returned would miss a barrier, so each program has one return, at its end."""
    text = import_module(f"quadrants_lab.backends.{arch}").stages(parse_kernel(CHECKED), EXACT)["llvm"]().text
    assert text.count("ret void") == text.count("_kernel void @")
