"""Blocks of threads with barriers, on Vulkan and on an imitation of AMD's chips; and the code for CUDA.

The programs are those of `tests/lang/test_simt*.py`, which also run them where one thread does the work of a block."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from lang import test_simt as programs, test_simt_gradients as gradients, test_tiles as tiles
from rigs.hip_stand_in import Chip
from sessions import NIGHT, skips

import quadrants_lab as qd
from quadrants_lab.backends.amdgpu import hip
from quadrants_lab.backends.vulkan import api

BARRIER = {"vulkan": "OpControlBarrier", "amdgpu": "s_barrier"}


@pytest.fixture(params=[pytest.param("vulkan", marks=skips("vulkan")), "amdgpu"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A session of a backend with barriers."""
    if request.param == "vulkan":
        chosen = api.choose()
        waits = replace(chosen, target=replace(chosen.target, barriers=True))
        monkeypatch.setattr(api, "choose", lambda: waits)
    before = hip.stand_in()
    if request.param == "amdgpu" and hip.probe():
        hip.register(Chip("gfx942"))
    qd.init(arch=request.param, simulate=True, enable_fallback=False, offline_cache=False)
    yield request.param
    qd.reset()
    if before is not None:
        hip.register(before)


def test_values(waiting: str) -> None:
    programs.test_threads_read_what_others_wrote()
    programs.test_a_reduction_in_shared_memory()
    programs.test_shared_atomics_in_a_loop_over_two_axes()
    programs.test_barriers_in_loops_and_ifs_that_threads_agree_on(3)
    programs.test_a_block_for_each_element()
    programs.test_a_condition_is_read_by_all_threads_before_one_changes_it()
    assert BARRIER[waiting] in programs.counted_down.code("isa" if waiting == "amdgpu" else "")
    programs.test_reductions_and_scans("exclusive_max")
    programs.test_reductions_and_scans("reduce_all_add")  # of a last block that is not full


def test_tiles(waiting: str) -> None:
    tiles.test_shared_vectors_matrices_and_structs()
    tiles.test_loads_and_stores_leave_what_is_outside()
    tiles.test_a_tile_is_a_value_that_its_methods_change()
    for n in tiles.TILES if waiting == "amdgpu" and NIGHT else (16,):  # llvmpipe takes minutes for tiles of 32
        tiles.sums_outer_products(n, "f32")
        tiles.factorises_and_solves(n, "f32")


@pytest.mark.parametrize(
    "program",
    [gradients.shifted, *(pytest.param(f, marks=pytest.mark.slow) for f in (gradients.collected, gradients.greatest))],
    ids=lambda f: f.__name__,
)
def test_gradients(waiting: str, program: Any) -> None:
    gradients.test_gradients_through_barriers(waiting, program)


def test_code_for_cuda() -> None:
    """The code has barriers for all threads of a group, and atomic sums."""
    qd.init(arch="cuda", simulate=True, enable_fallback=False, offline_cache=False)
    programs.test_shared_atomics_in_a_loop_over_two_axes()
    text = programs.counted.code("ptx")
    qd.reset()
    assert text.count("bar.sync") == 3
    assert "atom" in text or "red." in text


def test_registers_on_cuda() -> None:
    """A warp keeps four tiles in registers, and reads what its threads share four numbers at a time."""
    qd.init(arch="cuda", simulate=True, enable_fallback=False, offline_cache=False)
    tile, x, y = qd.simt.Tile16x16, qd.field(qd.f32, (64, 16)), qd.field(qd.f32, (3, 64, 16))

    @qd.kernel
    def k(n: qd.i32):
        qd.loop_config(block_dim=16)
        for i, lane in qd.ndrange(3, 16):
            t = [tile.zeros(qd.f32) for _ in range(4)]
            for m in range(n):
                w = x[m, lane]
                for r in qd.static(range(4)):
                    t[r] += qd.outer(x[r * 16 + lane, m], w)
            for r in qd.static(range(4)):
                t[r].cholesky_(1e-3)
                y[i, r * 16 : r * 16 + 16, 0:16] = t[r]

    k(3)
    text = k.code("ptx")
    qd.reset()
    assert ".maxntid 32" in text
    assert "bar.warp.sync" in text
    assert "bar.sync" not in text
    assert "local" not in text
    assert text.count("fma.rn") >= 4 * 16
    assert text.count("ld.shared.v4") >= 4
    assert len(set(re.findall(r"\.shared \S+ \S+ .b8 (\S+);", text))) == 5  # for w, and for each factorisation
