"""The stages of the CPU backend: text, sizes, and the statement behind each line."""

import pytest
from rigs.cpu_rig import EXACT, FAST

from quadrants_lab.backends import Stage, cpu
from quadrants_lab.backends.cpu.listings import text_bytes
from quadrants_lab.backends.cpu.tasks import loop_passes, lowered
from quadrants_lab.backends.lower import lower
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk

KERNEL = parse_kernel(
    """
kernel staged(a: f32) reverse {
  buffer @x: field f32[64]
  buffer @n: field i32[]
  buffer @y: field f32[]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 64
    yield %1, %2
  } do (%3: i32 'i') {
    adstack_alloca $4: f32 primal %9 reason "test"
    %5: i32 = const 0
    %6: i32 = load @n[]
    %7: f32 = load @x[%3]
    for %8: i32 in %5..%6 carry (%9: f32 = %7) {
      adstack_push $4, %9 #40
      %10: f32 = sin %9
      yield %10
    } -> (%11: f32)
    %20: i32 = pow %6, %6
    %21: f32 = cast %20
    %22: f32 = add %11, %21
    %12: f32 = atomic add @y[], %22
    yield
  }
}
""".replace(" #40", "")
)

# a loop of unknown length that writes and reads a local vector at its index
_CARRIED = ", ".join(f"%{20 + k}: f32 'v[{k}]' = %7" for k in range(8))
_BEFORE, _AFTER = (", ".join(text.format(k) for k in range(8)) for text in ("%2{}", "%6{}: f32"))
LOCAL_ARRAY = parse_kernel(f"""
kernel local_array() forward {{
  buffer @x: field f32[4096]
  buffer @n: field i32[]
  offload range_for lanes 1 bounds {{
    %1: i32 = const 0
    %2: i32 = const 4096
    yield %1, %2
  }} do (%3: i32 'i') {{
    %6: i32 = load @n[]
    %7: f32 = load @x[%3]
    %5: i32 = const 0
    for %19: i32 in %5..%6 carry ({_CARRIED}) {{
      %9: f32 = sin %20
      with_element [%19] = %9 of (8) {_BEFORE} -> ({_AFTER})
      yield {", ".join(f"%{60 + k}" for k in range(8))}
    }} -> ({", ".join(f"%{70 + k}: f32" for k in range(8))})
    %80: f32 = add %70, %77
    store @x[%3], %80
    yield
  }}
}}
""")


@pytest.mark.parametrize("options", [EXACT, FAST])
def test_stages(options: object) -> None:
    made = {name: make() for name, make in cpu.stages(KERNEL, options).items()}  # type: ignore[arg-type]
    assert list(made) == ["llvm", "llvm-opt", "asm"]
    known = {s.id for s in walk(lower(KERNEL, cpu.lowering(options), options).body)}  # type: ignore[arg-type]
    sine = next(s.id for s in walk(KERNEL.body) if getattr(s, "prim", "") == "sin")
    for name, stage in made.items():
        assert isinstance(stage, Stage)
        assert stage.name == name
        lines = stage.text.split("\n")
        assert len(lines) == len(stage.ids) == stage.lines
        assert 20 < stage.instructions < stage.lines
        assert stage.bytes == len(stage.text)
        assert {i for i in stage.ids if i >= 0} <= known
        of_sine = [line for line, i in zip(lines, stage.ids, strict=True) if i == sine]
        assert any("sinf" in line for line in of_sine), (name, of_sine)
        assert "!dbg" not in stage.text
        assert ".loc" not in stage.text
    assert made["asm"].code_bytes > 100


@pytest.mark.parametrize("kernel", [KERNEL, LOCAL_ARRAY], ids=lambda k: k.name)
def test_the_stages_are_those_of_what_runs_in_any_order(kernel: Kernel) -> None:
    assert loop_passes(lowered(LOCAL_ARRAY, FAST)) == (False, True)
    made = cpu.stages(kernel, FAST)
    asm, optimised = made["asm"](), made["llvm-opt"]()  # making machine code changes a module
    assert asm.code_bytes == text_bytes(cpu.load(kernel, FAST).object)
    assert optimised.text == cpu.stages(kernel, FAST)["llvm-opt"]().text


def test_object_code_reloads() -> None:
    kept: list[bytes] = []
    first = cpu.load(KERNEL, EXACT, None, kept.append)
    again = cpu.load(KERNEL, EXACT, kept[0], kept.append)
    assert (again.object, again.lanes, again.releases_gil) == (first.object, first.lanes, first.releases_gil)
    assert again.entry != first.entry
    assert len(kept) == 1
    assert cpu.target_key() == cpu.target_key()


def test_no_addresses_in_objects() -> None:
    assert cpu.load(KERNEL, FAST).object == cpu.load(KERNEL, FAST).object
