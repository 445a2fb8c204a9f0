"""AMDGPU's stages: properties of the assembly of small kernels, sizes, and messages where a tool is missing. LLVM's
versions write assembly differently, so there are no golden texts."""

import re
from itertools import product
from pathlib import Path

import pytest
from conformance.tasks import AXPY, reduction, stacked
from rigs import amdgpu_objects, parallel
from rigs.amdgpu_rig import EXACT, FAST

from quadrants_lab.backends import amdgpu
from quadrants_lab.backends.amdgpu import gcn, hip, hsaco, listings, toolkit
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk

SAMPLES = {
    "axpy": AXPY,
    "reduce": reduction("add", "f32", 30001),
    "stacked": stacked("f32", 64).replace("{OP}", "sin %9"),
}
CHIPS = ("gfx90a", "gfx942", "gfx1100")
# what floats have one instruction for; elsewhere a loop of compare and exchange does it
NATIVE = {
    "gfx90a": {"add f32", "sub f32", "add f64", "sub f64", "min f64", "max f64"},
    "gfx942": {"add f32", "sub f32", "add f64", "sub f64", "min f64", "max f64"},
    "gfx1100": {"add f32", "sub f32", "min f32", "max f32"},
}


def atomic(op: str, t: str) -> str:
    return parallel(
        "const 1000",
        f"""%4: {t} = load @x[%3]
        %5: i32 = const 7
        %6: i32 = mod %3, %5
        %7: {t} = atomic {op} @y[%6], %4""",
        f"buffer @x: field {t}[1000]\nbuffer @y: field {t}[7]",
    )


def isa(source: str, chip: str, options: CompileOptions = FAST) -> str:
    return listings.stages(parse_kernel(source), options, chip)["isa"]().text


def mnemonics(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("\t")]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.needs("ld.lld")
def test_sizes(name: str, chip: str) -> None:
    made = listings.stages(parse_kernel(SAMPLES[name]), FAST, chip)
    isa, hsaco = made["isa"](), made["hsaco"]()
    assert isa.instructions == len(mnemonics(isa.text))
    assert hsaco.instructions >= isa.instructions  # loops are aligned with s_nop
    assert hsaco.code_bytes == isa.code_bytes >= 4 * isa.instructions


@pytest.mark.parametrize(("chip", "name"), [*product(CHIPS, SAMPLES), *((c, "reduce") for c in amdgpu.WAVES)])
def test_every_chip(name: str, chip: str) -> None:
    """There are few registers, no spills, no scratch memory and no calls."""
    text = isa(SAMPLES[name], chip)
    (program,) = hsaco.CodeObject(listings.object_of(parse_kernel(SAMPLES[name]), FAST, chip)).programs
    assert program.name == "task0"
    assert program.vgprs <= 64
    assert (program.spilled, program.sgprs_spilled, program.scratch) == (0, 0, 0)
    assert program.wave == amdgpu.WAVES[chip]
    assert not {"s_swappc_b64", "s_setpc_b64"} & set(mnemonics(text))
    assert not re.search(r"scratch_|flat_|buffer_(load|store)", text)
    assert program.words() in text.splitlines()[0]


@pytest.mark.parametrize("chip", CHIPS)
def test_native_atomics(chip: str) -> None:
    for op in ("add", "sub", "min", "max", "mul"):
        for t in ("f32", "f64", "i32", "u64"):
            found = [m for m in mnemonics(isa(atomic(op, t), chip)) if "atomic" in m]
            assert len(set(found)) == 1
            native = op != "mul" and (t[0] != "f" or f"{op} {t}" in NATIVE[chip])
            assert native == ("cmpswap" not in found[0]), (op, t, found)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_reduction_is_one_atomic_a_group(chip: str) -> None:
    """Lanes combine by DPP moves within a row and ds_bpermute across rows, waves through LDS."""
    text = isa(SAMPLES["reduce"], chip)
    names = mnemonics(text)
    assert [m for m in names if "atomic" in m] == ["global_atomic_add_f32"]
    assert names.count("ds_bpermute_b32") == {64: 2, 32: 1}[amdgpu.WAVES[chip]]
    assert all(f"row_shl:{n}" in text for n in (1, 2, 4, 8))
    assert names.count("s_barrier") == 2
    (program,) = hsaco.CodeObject(listings.object_of(parse_kernel(SAMPLES["reduce"]), FAST, chip)).programs
    assert program.lds >= 8 * 256 // amdgpu.WAVES[chip]


@pytest.mark.parametrize("chip", CHIPS)
def test_frames_are_read_once_and_as_constants(chip: str) -> None:
    text = isa(AXPY, chip)
    before_loop = text[: text.index(".LBB0_")]
    assert before_loop.count("s_load_") == text.count("s_load_")


@pytest.mark.parametrize("chip", CHIPS)
def test_exact_code_contracts_nothing(chip: str) -> None:
    """v_mac_f32 and v_mad_f32 of gfx90a are allowed, because they round the product."""
    fused = re.compile(r"v_(pk_|dual_)?fma\w*_f32")
    assert not fused.search(isa(AXPY, chip, EXACT))
    assert fused.search(isa(AXPY, chip)) or chip == "gfx90a"


@pytest.mark.parametrize("chip", CHIPS)
def test_denormals_of_f32_flush_and_those_of_f64_stay(chip: str) -> None:
    text = gcn.assembly(gcn.optimised("\n".join(gcn.emitted(parse_kernel(AXPY), EXACT, chip).lines()[0]), chip), chip)
    assert ".amdhsa_float_denorm_mode_32 0" in text
    assert ".amdhsa_float_denorm_mode_16_64 3" in text


def test_what_is_inlined_counts_as_its_statement() -> None:
    kernel = parse_kernel(SAMPLES["stacked"])
    (sine,) = (s.id for s in walk(kernel.body) if isinstance(s, N.Op) and s.prim == "sin")
    assert listings.stages(kernel, FAST, "gfx942")["isa"]().ids.count(sine) > 20


# --- decoding ---------------------------------------------------------------------------------------------------

DECODERS = {"gfx90a": "cdna", "gfx942": "cdna", "gfx1100": "rdna3"}
# high halves of words that the decoder lacks: v_mad_f32, which CDNA 3 no longer has; buffer_gl0_inv, buffer_gl1_inv
UNKNOWN = {"gfx90a": {0xD1C1}, "gfx942": set(), "gfx1100": {0xE0AC, 0xE0B0}}
REUSED = ("v_mac_f32", "v_madmk_f32", "v_madak_f32")  # of gfx90a; CDNA 3 has others in their place


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("chip", CHIPS)
def test_another_decoder_reads_the_same_instructions(name: str, chip: str) -> None:
    """tinygrad's decoder is generated from AMD's description of the instruction set."""
    decoder = pytest.importorskip("tinygrad.renderer.amd")
    kernel = parse_kernel(SAMPLES[name])
    code = amdgpu_objects.instructions(hsaco.CodeObject(listings.object_of(kernel, FAST, chip)), "task0")
    names, at = [], 0
    while at < len(code):
        high = int.from_bytes(code[at + 2 : at + 4], "little")
        if high in UNKNOWN[chip]:
            names.append("")
            at += 8
            continue
        one = decoder.decode_inst(code[at : at + 16], DECODERS[chip])
        names.append(str(one).partition("(")[0])
        at += one.size()
    assert at == len(code)
    ours = [re.sub(r"_(e32|e64|dpp|sdwa)$", "", m) for m in mnemonics(isa(SAMPLES[name], chip))]
    # the assembler aligns loops with s_nop
    pairs = zip((n for n in names if n != "s_nop"), (m for m in ours if m != "s_nop"), strict=True)
    for theirs, mine in pairs:
        if theirs.startswith("VOPD"):
            assert mine.startswith("v_dual_")
        elif theirs and mine not in REUSED:
            assert re.sub(r"_(e32|e64)$", "", theirs) == mine


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.needs("ld.lld")
def test_disassembly(chip: str) -> None:
    kernel = parse_kernel(SAMPLES["reduce"])
    text = hsaco.disassembled(listings.code_of(kernel, FAST, chip), chip)
    if not text:
        pytest.skip(f"no llvm-objdump that knows {chip} is here")
    lines = listings.from_disassembly(text)
    names = [[n for n in mnemonics(t) if n != "s_nop"] for t in ("\n".join(lines), isa(SAMPLES["reduce"], chip))]
    assert names[0] == names[1]
    made = listings.stages(kernel, FAST, chip)
    shown = [made[stage]() for stage in ("hsaco", "isa")]
    pairs = [zip(s.text.split("\n"), s.ids, strict=True) for s in shown]
    of = [[i for line, i in pair if i >= 0 and "s_nop" not in line] for pair in pairs]
    assert len(of[0]) > 10
    assert of[0] == of[1]


# --- what is missing --------------------------------------------------------------------------------------------

def test_without_a_linker_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "linker", lambda: "")
    made = listings.stages(parse_kernel(AXPY), FAST, "gfx942")
    with pytest.raises(QuadrantsRuntimeError, match=r"ld\.lld .*was not found: apt install lld-19"):
        made["hsaco"]()
    assert "bytes LDS" in made["isa"]().text


def test_a_linker_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("ld.lld", "14.0.6"), ("ld.lld-13", "13.0.1")):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho 'LLD {version} (compatible with GNU linkers)'\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolkit, "_installations", lambda: iter(()))
    toolkit.linker.cache_clear()
    try:
        assert toolkit.linker() == ""
    finally:
        toolkit.linker.cache_clear()


def test_which_chip_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QL_AMDGPU_CHIP", raising=False)
    if hip.probe():
        assert hip.shown() == amdgpu.DEFAULT_CHIP
    monkeypatch.setenv("QL_AMDGPU_CHIP", "gfx1100")
    assert hip.shown() == "gfx1100"
    assert "waves of 32" in amdgpu.stages(parse_kernel(AXPY), FAST)["isa"]().text
    monkeypatch.setenv("QL_AMDGPU_CHIP", "gfx803")
    with pytest.raises(QuadrantsRuntimeError, match="no code for 'gfx803', but for gfx90a"):
        hip.shown()
    assert amdgpu.known_chip("gfx90a:sramecc+:xnack-") == "gfx90a"


@pytest.mark.skipif(not hip.probe(), reason="a device is here")
def test_a_probe_says_what_is_missing() -> None:
    assert "HIP runtime" in amdgpu.probe() or "found no device" in amdgpu.probe()
