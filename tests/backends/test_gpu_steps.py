"""Which adstacks are pushed and popped in lockstep, so that they can share a counter."""

from conformance_tasks import IN_STEP, stacked

from quadrants_lab.backends.lower.adstacks.lockstep import Lockstep, chunks, in_lockstep
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk


def steps(source: str) -> tuple[Lockstep, list[N.Stmt]]:
    task = parse_kernel(source).body[0]
    assert isinstance(task, N.Offload)
    return in_lockstep(task.body), list(walk(task.body))


def test_groups_are_what_is_pushed_and_popped_at_the_same_places() -> None:
    found, _ = steps(IN_STEP)
    assert {"".join(sorted(a.name for a in group)) for group in found.groups} == {"abcdi", "js"}


def test_a_stack_alone_is_in_no_group() -> None:
    found, _ = steps(stacked("f32", 4).replace("{OP}", "add %9, %9"))
    assert found == Lockstep((), {})


def test_every_statement_of_a_group_has_its_segment() -> None:
    found, statements = steps(IN_STEP)
    grouped = {a.id for group in found.groups for a in group}
    kinds = {N.AdStackPush: "p", N.AdStackPop: "o"}
    for s in statements:
        if isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop)):
            assert (s.id in found.segments) == (s.stack in grouped)
            if s.stack in grouped and type(s) in kinds:
                assert found.segments[s.id].kind == kinds[type(s)]


def test_chunks_are_up_to_four_of_one_dtype() -> None:
    kernel = parse_kernel(IN_STEP)
    allocas = [s for s in walk(kernel.body) if isinstance(s, N.AdStackAlloca)]
    f32, f64, i32 = allocas[0], allocas[3], allocas[1]
    group = (f32,) * 7 + (f64,) * 3 + (i32,)
    assert [(c[0].type.name, len(c)) for c in chunks(group)] == [
        ("f32", 4), ("f32", 2), ("f32", 1), ("f64", 2), ("f64", 1), ("i32", 1)
    ]  # fmt: skip
