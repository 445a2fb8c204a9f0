"""Tables by class of statement: `by_class` for dispatch, and `rules` for rewriting."""

from dataclasses import replace

import pytest

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import by_class, rewritten, rules, walk

KERNEL = """\
kernel k() forward {
  buffer @x: field f32[4]
  offload serial bounds {
    yield
  } do () {
    %0: i32 = const 1
    %1: f32 = load @x[%0]
    %2: f32 = atomic add @x[%0], %1
    store @x[%0], %2
    for %3: i32 in %0..%0 {
      store @x[%3], %1
      yield
    }
    yield
  }
}
"""


@pytest.mark.parametrize("table, rows", [
    ({N.For: 1}, {N.For: 1}),
    ({N.Loop: 1}, {N.For: 1, N.While: 1}),
    ({N.Access: 1, N.Load: 2}, {N.Load: 2, N.Store: 1, N.Atomic: 1}),
    ({N.Exit: 1}, {N.Break: 1, N.Continue: 1}),
    ({N.Stmt: 1}, dict.fromkeys(N.STATEMENTS, 1)),
])  # fmt: skip
def test_a_table_by_traits_has_a_row_for_each_class(table, rows) -> None:
    assert by_class(table) == rows


@pytest.mark.parametrize("table, left", [
    ({N.Store: lambda s: ()}, "Const Load Atomic For"),
    ({N.Write: lambda s: (), N.Store: lambda s: () if s.value == 2 else s}, "Const Load For Store"),
    ({N.For: lambda s: ()}, "Const Load Atomic Store"),
    ({N.While: lambda s: ()}, "Const Load Atomic Store For Store"),
])  # fmt: skip
def test_a_rule_gets_the_statements_of_its_class_alone(table, left) -> None:
    made = rewritten(parse_kernel(KERNEL), rules(table))
    assert [type(s).__name__ for s in walk(made.tasks[0].body) if not s.terminates] == left.split()


def test_only_what_a_rule_changes_is_another_object() -> None:
    kernel = parse_kernel(KERNEL)
    assert rewritten(kernel, rules({N.Store: lambda s: s})) is kernel
    made = rewritten(kernel, rules({N.Load: lambda s: replace(s, name="v")}))
    old, new = kernel.tasks[0].body, made.tasks[0].body
    assert [a is b for a, b in zip(old, new, strict=True)] == [not s.loads for s in old]
