"""Executes kernels' assembly for three chips by instruction (`gcn_machine`): registers, LDS, shuffles within a wave,
lane masks, arguments. A selection of programs by day, all by night."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance import prims as conformance_prims
from conformance.tasks import (  # noqa: F401
    AXPY,
    reduction,
    test_assert,
    test_capacity_zero,
    test_compare_and_swap,
    test_count_only,
    test_for_forwards_and_backwards,
    test_overflow_names_the_stack_and_touches_nothing_else,
    test_overlapping_ndarrays,
    test_print,
    test_stacks,
    test_tasks_hand_on_through_temporaries,
    test_truth_values_take_a_byte,
    test_while_and_if,
)
from programs import PROGRAMS, Program
from rigs import amdgpu_rig
from rigs.gcn_machine import Machine
from rigs.hip_stand_in import Chip
from running import Bench, differences, f32, f64, job_of
from sessions import NIGHT

import quadrants_lab as qd
from quadrants_lab.backends import amdgpu
from quadrants_lab.backends.amdgpu import hip
from quadrants_lab.ir.types import DType

CHIPS = ("gfx90a", "gfx942", "gfx1100")
BY_DAY = 84  # one program of so many
pytestmark = pytest.mark.skipif(not hip.probe(), reason="a device is here; the imitation is for machines without")


@pytest.fixture
def imitation() -> Iterator[Any]:
    """A function that makes an imitation of a chip the device until the test ends."""
    before = hip.stand_in()

    def make(chip: str) -> Chip:
        hip.register(Chip(chip))
        return hip.stand_in()

    yield make
    qd.reset()
    hip.register(before)


@pytest.fixture(params=["gfx942", *(pytest.param(chip, marks=pytest.mark.slow) for chip in ("gfx90a", "gfx1100"))])
def rig(request: pytest.FixtureRequest, imitation: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rig of the imported conformance tests."""
    imitation(request.param)
    device = amdgpu_rig.fresh()
    monkeypatch.setattr(amdgpu_rig.RIG, "device", lambda: device)
    return amdgpu_rig


BY_NIGHT = [pytest.param(t, marks=pytest.mark.slow) for t in ("i32", "u32", "i64", "f64")]


@pytest.mark.parametrize("name", ["u64", "f32", *BY_NIGHT])
def test_primitives(rig: Any, name: str) -> None:
    """Primitives of 32 and 64 bits, elementary functions too, on edge cases and random values."""
    conformance_prims.test_rows(rig, name)
    conformance_prims.test_casts(rig, name)
    if name[0] == "f":
        conformance_prims.test_math_rows(rig, name)
        conformance_prims.test_fast_math_keeps_nan_and_infinity(rig, name)


def ways() -> Iterator[Any]:
    for k, chip in enumerate(CHIPS):
        for fp in (f32, f64):
            for n, p in enumerate(q for q in PROGRAMS.values() if not q.large):
                if NIGHT or (fp is f32 and n % BY_DAY == k):
                    yield pytest.param(p, chip, fp, id=f"{p.name}-{chip}-{fp}")


@pytest.mark.parametrize(("program", "chip", "fp"), list(ways()))
def test_programs(program: Program, chip: str, fp: DType, imitation: Any) -> None:
    """Values and gradients."""
    imitation(chip)
    bench = Bench(fp, "amdgpu")
    job = job_of(program, program.cases[0])
    got, _ = bench.run(job, gradient=program.grad)
    tol = 1e-9 if fp is f64 else program.tol32
    assert not differences(job, job.oracle(), got, tol, gradient=program.grad)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("t", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("op", ["add", "max"])
def test_reductions(chip: str, t: str, op: str, imitation: Any) -> None:
    """Over the lanes of a wave, the waves of a group, and groups, of which the last are partially filled."""
    device = imitation(chip)
    n = 1500
    x = np.random.default_rng(3).integers(-50, 50, n).astype({"f": "float", "i": "int"}[t[0]] + t[1:])
    y = np.zeros((), x.dtype)
    amdgpu_rig.run(reduction(op, t, n), {"x": x, "y": y}, on=amdgpu_rig.fresh())
    assert y == (x.sum() if op == "add" else x.max())
    assert device.launches == 1


@pytest.mark.parametrize("chip", CHIPS)
def test_frames_longer_than_a_parameter(chip: str, imitation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    imitation(chip)
    monkeypatch.setattr(amdgpu.SHAPE, "by_value", 8)
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    amdgpu_rig.run(AXPY, {"x": x, "y": y}, {"a": 2.0}, on=amdgpu_rig.fresh())
    assert np.array_equal(y, 1 + 2 * x)


# --- the machine itself -----------------------------------------------------------------------------------------

SHIFT = """
task0:
	v_lshlrev_b32_e32 v1, 2, v0
	v_mov_b32_dpp v2, v0 row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:1
	s_load_dwordx2 s[2:3], s[0:1], 0x8
	global_store_dword v1, v2, s[2:3]
	s_endpgm
	.amdhsa_kernel task0
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.end_amdhsa_kernel
"""


def machine_over(text: str, words: int = 64) -> tuple[Machine, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A machine that may access one block of memory, the block, and arguments whose second word is its address."""
    block = np.zeros(words, np.uint32)
    arguments = np.array([0, block.ctypes.data], np.uint64)
    owned = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in (block, arguments)]
    allowed = lambda at, n: any(low <= at and at + n <= high for low, high in owned)
    return Machine(text, 64, allowed), block, arguments


def test_lanes_shift_within_rows_of_16() -> None:
    machine, block, arguments = machine_over(SHIFT)
    machine.run("task0", 1, 64, arguments.ctypes.data)
    lane = np.arange(64)
    assert np.array_equal(block, np.where(lane % 16 + 3 < 16, lane + 3, 0))


@pytest.mark.parametrize(("text", "words", "error", "says"), [
    (SHIFT, 63, AssertionError, "not in any memory"),
    (SHIFT.replace("v_lshlrev_b32_e32 v1, 2, v0", "v_unheard_of v1, v0"), 64, NotImplementedError, "v_unheard_of"),
])
def test_accesses_outside_and_unknown_instructions_are_errors(text: str, words: int, error: Any, says: str) -> None:
    machine, _, arguments = machine_over(text, words)
    with pytest.raises(error, match=says):
        machine.run("task0", 1, 64, arguments.ctypes.data)
