"""The explanation of a stack: all uses of its value, and the alternatives that the minimum cut weighed."""

from quadrants_lab.autodiff.explain import on_stacks
from quadrants_lab.ir.parse import parse_kernel

LOOP = """kernel k() forward next %40 {{
  buffer @x: field f32[16] grad @x.grad
  buffer @x.grad: field f32[16]
  buffer @n: field i32[]
  buffer @y: field f32[] grad @y.grad
  buffer @y.grad: field f32[]
  offload range_for bounds {{
    %1: i32 = const 0
    %2: i32 = const 16
    yield %1, %2
  }} do (%3: i32 'i') {{
    %4: f32 = load @x[%3]
    %5: i32 = load @n[]
    %6: i32 = const 0
    for %7: i32 in %6..%5 carry (%8: f32 'v' = %4, %9: f32 'w' = %4) {{
      {body}
    }} -> (%12: f32 'v', %13: f32 'w')
    %14: f32 = add %12, %13
    %15: f32 = atomic add @y[], %14
    yield
  }}
}}
"""


def told(*body: str) -> dict[int, tuple[list[str], str]]:
    found = on_stacks(parse_kernel(LOOP.format(body="\n      ".join(body)), "cell"))
    return {v: (kept.uses, kept.choice) for v, kept in found.items()}


def test_what_a_loop_carries_is_kept_for_all_its_uses():
    found = told("%10: f32 = sin %8", "%11: f32 = cos %8", "yield %10, %11")
    uses, choice = found[8]
    assert uses == ["operand of sin", "operand of cos"]
    assert choice == "its loop hands it on from trip to trip, so only the whole loop could compute it again"
    assert list(found) == [8]


def test_a_sum_is_kept_where_its_parts_would_take_more():
    found = told("%10: f32 'sum' = add %8, %9", "%11: f32 = sin %10", "yield %11, %9")
    uses, choice = found[10]
    assert uses == ["operand of sin"]
    assert choice == "to compute it again v, w would be kept: 8 bytes a time; it takes 4"


def test_a_product_is_computed_again_from_what_is_kept_anyhow():
    found = told("%10: f32 = mul %8, %8", "%11: f32 = sin %10", "yield %11, %9")
    assert list(found) == [8]
    assert "operand of sin" in found[8][0]
