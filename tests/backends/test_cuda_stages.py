"""CUDA's stages: the PTX of three kernels, sizes, chips, the math library, and messages where a tool is missing."""

from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from conformance.tasks import AXPY, reduction, stacked
from rigs.cuda_rig import EXACT, FAST

from quadrants_lab.backends import cuda
from quadrants_lab.backends._gpu.schedule import short
from quadrants_lab.backends.cuda import libdevice, listings, nvptx, toolkit
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel

HERE = Path(__file__).resolve().parent
SAMPLES = {
    "axpy": AXPY,
    "reduce": reduction("add", "f32", 30001),
    "stacked": stacked("f32", 64).replace("{OP}", "mul %9, %9"),
}
needs_assembler = pytest.mark.skipif(not listings.has_assembler(), reason="ptxas or nvdisasm is not here")
needs_library = pytest.mark.skipif(bool(toolkit.missing_libdevice()), reason="libdevice is not here")


@pytest.mark.skipif(llvm.llvm_version_info[0] != 22, reason="another LLVM words its PTX differently")
@pytest.mark.parametrize("name", SAMPLES)
def test_ptx_reads_as_it_should(name: str, golden: Callable[[Path, str], None]) -> None:
    golden(HERE / f"{name}.ptx", listings.ptx_of(parse_kernel(SAMPLES[name]), FAST, 90))


@needs_assembler
def test_sass_says_what_a_program_needs() -> None:
    shown = cuda.stages(parse_kernel(AXPY), FAST)["sass"]()
    assert "registers" in shown.text.split("\n")[0]
    assert shown.code_bytes > 100
    assert shown.code_bytes % 16 == 0


@pytest.mark.skipif(not toolkit.tool("ptxas"), reason="ptxas is not here")
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("chip", cuda.PTX_VERSIONS)
def test_every_chip(name: str, chip: int) -> None:
    """The code uses few registers and spills none of them."""
    text = listings.ptx_of(parse_kernel(SAMPLES[name]), FAST, chip)
    (program,) = listings.assembled(text, chip).programs
    assert program.name == "task0"
    assert program.registers <= 64
    assert program.spilled == 0


def test_chips() -> None:
    assert [cuda.chip_for(c) for c in (75, 86, 87, 90, 103, 121)] == [75, 86, 86, 90, 100, 120]
    with pytest.raises(QuadrantsRuntimeError, match="too old"):
        cuda.chip_for(70)


def test_exact_code_contracts_nothing() -> None:
    kernel = parse_kernel(AXPY)
    assert "fma" in listings.ptx_of(kernel, FAST, 90)
    exact = listings.ptx_of(kernel, EXACT, 90)
    assert "fma" not in exact
    assert "mul.rn.ftz.f32" in exact  # without .rn, ptxas contracts too


@needs_library
def test_functions_of_the_library_are_inlined() -> None:
    kernel = parse_kernel(stacked("f64", 64).replace("{OP}", "sin %9"))
    text = listings.ptx_of(kernel, EXACT, 90)
    assert "__nv_sin" not in text
    assert "fma.rn.f64" in text


def test_without_the_library_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "libdevice", lambda: None)
    for kept in (libdevice._whole, libdevice._common, libdevice._function, libdevice._version):
        kept.cache_clear()
    assert "pip install nvidia-nvvm" in toolkit.missing_libdevice()
    with pytest.raises(QuadrantsRuntimeError, match=r"libdevice\.10\.bc, was not found"):
        listings.ptx_of(parse_kernel(stacked("f64", 63).replace("{OP}", "sin %9")), FAST, 90)  # for the first time
    listings.ptx_of(parse_kernel(AXPY), FAST, 90)  # which needs no function


def test_which_iterations_run_in_step() -> None:
    def task(source: str) -> N.Offload:
        found = parse_kernel(source).body[-1]
        assert isinstance(found, N.Offload)
        return found
    assert short(task(AXPY))
    assert short(task(SAMPLES["reduce"]))
    assert not short(task(SAMPLES["stacked"]))


@needs_library
def test_what_was_cut_out_of_the_math_library_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of the cache that has another's content, or is damaged, is made anew."""
    store = DiskCache(tmp_path)
    monkeypatch.setattr(libdevice, "_disk", lambda: store)

    def texts() -> list[str]:
        libdevice._function.cache_clear()
        libdevice._common.cache_clear()
        return [libdevice.function(name, nvptx.machine(90)) for name in ("__nv_expf", "__nv_logf")]

    def cut_again() -> bool:
        """Whether functions were extracted again; the texts must be the same."""
        cut: list[int] = []
        with monkeypatch.context() as m:
            m.setattr(libdevice, "_cut", lambda *args: cut.append(1) or make(*args))
            assert texts() == want
        return bool(cut)

    want, make = texts(), libdevice._cut
    kept = {p: p.read_bytes() for p in tmp_path.iterdir()}
    assert len(kept) == 3
    assert not cut_again()
    for path, raw in zip(kept, [*kept.values()][1:] + [*kept.values()][:1], strict=True):
        path.write_bytes(raw)
    assert cut_again()
    assert not cut_again()
    for change in (b"", b"\xff", b"define"):
        for path, raw in kept.items():
            path.write_bytes(change + raw[: len(raw) // 2])
        assert cut_again()
        assert not cut_again()
