"""Which tasks run in lanes by themselves: where lanes are cheaper than single iterations and LLVM's vectors."""

from __future__ import annotations

from typing import Any

import pytest
from rigs.cpu_rig import parsed

from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.cpu.schedule import CpuSchedule

WIDEST = jit.vector_bytes()

pytestmark = pytest.mark.skipif(not WIDEST, reason="this processor has no vectors that gather and mask")


def lanes(kernel: Any, vector_bytes: int) -> int:
    """The lanes of the kernel's only task."""
    (task,) = CpuSchedule(vector_bytes // 4)(kernel).tasks
    return int(task.lanes)


# a sum over neighbours: %8 counts alike in all lanes, %11 is another row in each
SUM = """%4: i32 = const 0
 %5: f32 = const 0.0
 %6: i32 = {end}
 for %8: i32 in %4..%6 carry (%9: f32 = %5) {{
   %10: i32 = mul %3, %6
   %11: i32 = add %10, %8
   %12: i32 = {at}
   %13: f32 = load @x[%12]
   %14: f32 = add %9, %13
   yield %14
 }} -> (%15: f32)
 store @x[%3], %15"""


@pytest.mark.parametrize(
    ("body", "gains"),
    [
        ("%4: f32 = load @x[%3]\n %5: f32 = sin %4\n store @x[%3], %5", True),
        (
            "%4: f32 = load @x[%3]\n %5: f32 = mul %4, %4\n store @x[%3], %5",
            False,
        ),  # LLVM's vectoriser does it
        ("%4: f32 = load @x[%3]\n %5: f32 = sin %4\n print %5\n store @x[%3], %5", False),
        (SUM.format(end="load @n[%3]", at="load @n[%8]"), True),
        (SUM.format(end="load @n[%3]", at="load @n[%11]"), False),
        (SUM.format(end="const 16", at="load @n[%11]"), False),
    ],
    ids=["a function", "straight code", "print", "trips from data", "gathers and trips from data", "gathers"],
)
def test_which_tasks_run_in_lanes(body: str, gains: bool) -> None:
    kernel, _ = parsed(body)
    assert bool(lanes(kernel, WIDEST)) == gains
    assert not lanes(kernel, 0)


LOOP = """%4: i32 = const 0
 %5: i32 = const 2
 %6: f32 = load @x[%3]
 for %7: i32 in %4..%5 carry (%8: f32 = %6) {
   %9: f32 = sin %8
   yield %9
 } -> (%10: f32)
 store @x[%3], %10"""


@pytest.mark.parametrize(
    ("body", "iterations", "gains"),
    [
        ("%4: f32 = load @x[%3]\n %5: f32 = sin %4\n store @x[%3], %5", 16, False),
        ("%4: f32 = load @x[%3]\n %5: f32 = sin %4\n store @x[%3], %5", 64, True),
        (LOOP, 16, True),
    ],
    ids=["few", "many", "a loop"],
)
def test_a_launch_of_few_functions_has_no_lanes(body: str, iterations: int, gains: bool) -> None:
    """LLVM takes longer for lanes than they save in many launches."""
    assert bool(lanes(parsed(body, iterations)[0], WIDEST)) == gains


@pytest.mark.parametrize(("how", "gains"), [("div {}, %4", False), ("sin {}", True)], ids=["quotients", "sines"])
def test_a_vector_of_f64_is_divided_nearly_one_by_one(how: str, gains: bool) -> None:
    """Neighbours by index: lanes cost what their reads cost, and quotients do not make up for that."""
    steps = "\n".join(f"%{n + 1}: f64 = {how.format(f'%{n}')}" for n in range(16, 22))
    kernel, _ = parsed(f"""%4: f64 = const 3.0
     %5: i32 = load @n[%3]
     %6: i32 = const 0
     %7: f64 = const 0.0
     for %8: i32 in %6..%5 carry (%9: f64 = %7) {{
       %10: i32 = load @near[%3, %8]
       %11: f32 = load @x[%10]
       %16: f64 = cast %11
       {steps}
       %23: f64 = add %9, %22
       yield %23
     }} -> (%24: f64)
     %25: f32 = cast %24
     store @x[%3], %25""")
    assert bool(lanes(kernel, 64)) == gains


@pytest.mark.parametrize(("begin", "gains"), [("const 0", True), ("load @n[%3]", False)], ids=["together", "apart"])
def test_slots_of_lanes_that_begin_together_lie_in_a_row(begin: str, gains: bool) -> None:
    kernel, _ = parsed(f"""adstack_alloca $4: f32 'v' primal %9 reason "test"
     %5: i32 = {begin}
     %6: i32 = load @near[%3, %5]
     %7: f32 = load @x[%3]
     for %8: i32 in %5..%6 carry (%9: f32 = %7) {{
       adstack_push $4, %9
       %10: f32 = mul %9, %9
       yield %10
     }} -> (%11: f32)
     adstack_guard {{
       for reversed %12: i32 in %5..%6 carry (%13: f32 = %7) {{
         %14: f32 = adstack_load_top $4
         adstack_pop $4
         %15: f32 = mul %13, %14
         yield %15
       }} -> (%16: f32)
       store @x[%3], %16
       yield
     }}""")
    assert bool(lanes(kernel, WIDEST)) == gains


# a row that is divided by a number of its own, whose sum also is made: trips in a row, but for how %14 is made
ROW = """%4: i32 = const 0
 %5: i32 = const {trips}
 %6: f32 = const 0.0
 %7: f32 = load @x[%3]
 for %8: i32 in %4..%5 carry (%9: f32 = %6) {{
   %10: f32 = load @m[{at}]
   %11: f32 = div %10, %7
   %12: f32 = div %11, %10
   {carried}
   store @m[{at}], %12
   yield %14
 }} -> (%15: f32)
 store @x[%3], %15"""

CHOSEN = """%16: u1 = gt %12, %7
   if %16 {
     %17: f32 = HOW
     yield %17
   } else {
     %18: f32 = add %12, %9
     yield %18
   } -> (%14: f32)"""


@pytest.mark.parametrize(
    ("given", "gains"),
    [
        ({}, False),
        ({"at": "%8, %3"}, True),
        ({"trips": 16}, False),
        ({"carried": CHOSEN.replace("HOW", "sub %9, %12")}, False),
        ({"carried": CHOSEN.replace("HOW", "sub %12, %9")}, True),
        ({"carried": CHOSEN.replace("HOW", "max %9, %12")}, True),
        ({"carried": "%14: f32 = div %9, %12"}, True),
        ({"carried": "%14: f32 = div %12, %9"}, True),
    ],
    ids=["vectors of trips", "columns", "few trips", "a sum in each arm", "no sum in one", "two sums", "a quotient",
         "no sum"],
)
def test_loops_over_a_row_are_left_to_vectors_of_trips(given: dict[str, Any], gains: bool) -> None:
    kernel, _ = parsed(ROW.format(**({"at": "%3, %8", "trips": 100, "carried": "%14: f32 = add %9, %12"} | given)))
    assert bool(lanes(kernel, WIDEST)) == gains
