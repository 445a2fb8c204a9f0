"""What the peer refuses to differentiate or gets wrong is right here, by both modes; and what the peer makes of it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import programs_lifted
import pytest
from peer import Peer, request
from peer_gradients import row
from programs import PROGRAMS, Program
from running import Bench, differences, f64, job_of

import quadrants_lab as qd

LIFTED = {name: p for name, p in PROGRAMS.items() if p.fn.__module__ == programs_lifted.__name__}
UNSIZED = "refused: is unresolved after Bellman-Ford"
# a stack that is too small leaves what was in memory, or ends the process
STALE = "wrong relaunched crashed"
RIGHT = ""  # by now; or it is the other mode that goes wrong

# what the peer makes of the gradient: kinds of row in docs/peer_gradients.md, and words of its refusal
THEIRS = {
    "bound_is_a_scalar_argument": UNSIZED,
    "while_in_a_kernel": "refused: Not supported",
    "break_in_a_loop": "refused: Not supported",
    "continue_in_a_loop": "refused: Not supported",
    "bound_depends_on_data": UNSIZED,
    "bound_is_carried_by_an_outer_loop": "refused: stash data-flow cycle",
    "struct_for_in_a_struct_for": "refused: Nested struct-fors are not supported",
    "operand_that_the_loop_does_not_change": STALE,
    "next_time_level_from_this_one": "refused: Cross-iteration read-after-write",
    "time_levels_in_one_launch": RIGHT,
    "func_with_an_if_in_a_loop": RIGHT,
    "trip_counts_that_change_between_launches": STALE,
    "bound_from_an_element_of_an_image": "refused: Virtual memory allocation",
    "lorenz_steps": RIGHT,
    "lorenz_steps_of_a_vector": RIGHT,
    "recurrence_with_shared_weights": RIGHT,
    "temporary_chosen_beside_a_loop_whose_trips_are_counted": "refused: Mixed usage of for-loops and statements",
}
FORWARD = [p for p in LIFTED.values() if "x" in p.fields and p.fields["y"].shape == ()]


@pytest.mark.parametrize("name", LIFTED)
def test_gradient(name: str) -> None:
    program, bench = LIFTED[name], Bench(f64)
    for case in program.cases:  # one after the other, so that trip counts change
        job = job_of(program, case)
        got, _ = bench.run(job)
        assert not differences(job, job.oracle(), got, 1e-9, gradient=True), case


def direction(program: Program) -> np.ndarray:
    """Numbers that f32 has, for the peer's seeds are of that dtype."""
    return np.random.default_rng(2).integers(-64, 65, program.fields["x"].shape) / 64


def tangent(program: Program, case: dict, way: np.ndarray) -> tuple[float, float]:
    """The derivative of y along ``way`` in x, by the oracle, and the summed absolute contributions to it."""
    job = job_of(program, case)
    seeds = {name: np.zeros_like(seed) for name, seed in job.seeds.items()}
    outcome = dataclasses.replace(job, seeds=seeds | {"y": np.array(1.0)}).oracle()
    return float((outcome.grads["x"] * way).sum()), float((outcome.scales["x"] * abs(way)).sum()) + 1e-3


@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in FORWARD])
def test_forward_mode(program: Program) -> None:
    way = direction(program)
    bench = Bench(f64)
    for case in program.cases:
        job = job_of(program, case)
        kernel, arguments, placed = bench.kernel(job, needs_dual=True)
        with qd.ad.FwdMode(loss=placed["y"], param=placed["x"], seed=way.tolist()):
            kernel(*arguments)
        want, scale = tangent(program, case, way)
        assert abs(placed["y"].dual[None] - want) <= 1e-9 * scale, case


def test_each_is_listed() -> None:
    assert THEIRS.keys() == LIFTED.keys()


@pytest.mark.peer
@pytest.mark.parametrize("name", LIFTED)
def test_gradient_of_the_peer(name: str, peer: Peer) -> None:
    kinds, _, words = THEIRS[name].partition(": ")
    found = row(LIFTED[name], peer)
    if not kinds or found is None:
        assert found is None, found
        assert not kinds, "the peer's gradient is right"
        return
    assert found.kind in kinds.split(), found
    assert words in found.words
    assert found.right == "ours"


# programs on which the peer's forward mode is not right -> why
FORWARD_THEIRS = {
    "while_in_a_kernel": "Not supported",
    "break_in_a_loop": "Not supported",
    "continue_in_a_loop": "Not supported",
    "struct_for_in_a_struct_for": "Nested struct-fors are not supported",
    "lorenz_steps_of_a_vector": "Assertion failure",
}


@pytest.mark.peer
@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in FORWARD])
def test_forward_mode_of_the_peer(program: Program, peer: Peer) -> None:
    way = direction(program)
    answer = peer.ask({**request(program), "tangent": {"x": way.tolist()}})
    found = answer.get("refused", "")
    for case, their in zip(program.cases, answer.get("cases", ()), strict=False):
        want, scale = tangent(program, case, way)
        have = their["tangent"]
        if not math.isfinite(have) or abs(have - want) > 1e-9 * scale:
            found = f"wrong: {have}, should be {want}"
    assert bool(found) == (program.name in FORWARD_THEIRS), found
    assert FORWARD_THEIRS.get(program.name, "") in found
