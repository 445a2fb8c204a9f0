"""Which adstacks have slots that trips of loops index instead of a counter, and which are pushed and popped in
lockstep, so that they can share one."""

import pytest
from conformance.tasks import IN_STEP, by_trips, nested, seven, stacked

from quadrants_lab.backends.lower.adstacks import loops as trips
from quadrants_lab.backends.lower.adstacks.lockstep import Lockstep, chunks, in_lockstep
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk


def found(source: str) -> dict[str, trips.Trips]:
    """Maps the name of each adstack to the loops whose trips number its slots."""
    task = parse_kernel(source).body[0]
    assert isinstance(task, N.Offload)
    names = {s.id: s.name for s in walk(task.body) if isinstance(s, N.AdStackAlloca)}
    return {names[i]: t for i, t in trips.by_trips(task.body).items()}


PLAIN = by_trips("f32", 10).replace("{OP}", "add %9, %9").replace("{OP2}", "add %21, %21")


def test_pushed_once_a_trip_and_popped_once_a_trip() -> None:
    both = found(PLAIN)
    for name, there, back, result in (("v", (8, 16), (31, 16), N.NO_ID), ("w", (22, 5), (33, 5), 27)):
        assert [(x.index, x.begin) for x in both[name].there] == [there]
        assert [(x.index, x.begin) for x in both[name].back] == [back]
        assert both[name].result == result


def test_of_stacks_in_step_each() -> None:
    assert set(found(IN_STEP)) == set("aibdcfsj")


def test_a_depth_is_counted() -> None:
    assert not found(stacked("f32", 4).replace("{OP}", "add %9, %9"))


@pytest.mark.parametrize(("old", "new", "left"), [
    ("%30: i32 = load @count[%3]", "%30: i32 = const 5", "w"),
    ("%30: i32 = load @count[%3]", "%30: i32 = load @count[%5]", "w"),
    ("%30: i32 = load @count[%3]", "%30: i32 = add %6, %15", "w"),
    ("%31: i32 in %16..%30", "%31: i32 in %15..%30", "w"),
    ("for reversed %31", "for %31", "w"),
    ("for %8", "for reversed %8", "w"),
    ("adstack_pop $4\n", "adstack_pop $4\n%40: f32 = adstack_load_top $4\n", "w"),
    ("adstack_pop $4\n", "adstack_pop $4\nadstack_pop $4\n", "w"),
    ("adstack_push $4, %9\n", "adstack_push $4, %9\nadstack_push $4, %9\n", "w"),
    ("adstack_push $4, %9\n", "if %17 {\nadstack_push $4, %9\nyield\n} else {\nyield\n}\n", "w"),
    ("%24: i32 = add %22, %15", "%24: i32 = add %22, %16", "v"),
    ("%24: i32 = add %22, %15", "%24: i32 = mul %22, %15", "v"),
    ("%33: i32 in %5..%27", "%33: i32 in %15..%27", "v"),
    ("%33: i32 in %5..%27", "%33: i32 in %5..%6", "v"),
])
def test_what_is_counted(old: str, new: str, left: str) -> None:
    assert PLAIN.count(old) == 1
    assert set(found(PLAIN.replace(old, new))) == {left}


def test_no_loop_may_be_around_them() -> None:
    start, end = PLAIN.index("        if %17"), PLAIN.index("        while carry")
    around = f"for %50: i32 in %5..%6 {{\n{PLAIN[start:end]}\nyield\n}}\n"
    assert set(found(PLAIN[:start] + around + PLAIN[end:])) == {"w"}


def test_trips_of_inner_loops_are_numbered_through() -> None:
    both = found(nested(10))
    assert [(x.index, x.trips) for x in both["w"].there] == [(8, 0), (14, 3)]
    assert [(x.index, x.trips) for x in both["w"].back] == [(20, 0), (22, 3)]
    assert (both["v"].inner(), both["w"].inner()) == (1, 3)


@pytest.mark.parametrize(("old", "new"), [
    ("%14: i32 in %6..%7", "%14: i32 in %6..%8"),
    ("%22: i32 in %6..%7", "%22: i32 in %7..%7"),
    ("for %14", "for reversed %14"),
    ("for reversed %22", "for %22"),
])
def test_which_inner_loops_are_counted(old: str, new: str) -> None:
    assert nested(10).count(old) == 1
    assert set(found(nested(10).replace(old, new))) == {"v"}


def known_ahead(source: str) -> bool:
    task = parse_kernel(source).body[0]
    assert isinstance(task, N.Offload)
    return trips.early_check(task.body, trips.by_trips(task.body)) is not None


def test_what_is_pushed_is_known_ahead() -> None:
    assert known_ahead(nested(10))
    assert known_ahead(seven("f32", 10))
    assert not known_ahead(PLAIN)  # under a condition; a while
    assert not known_ahead(IN_STEP)  # a stack that counts
    begins_later = nested(10).replace("%8: i32 in %6..%11", "%8: i32 in %7..%11")
    begins_later = begins_later.replace("%20: i32 in %6..%11", "%20: i32 in %7..%11")
    assert set(found(begins_later)) == {"v", "w"}
    assert not known_ahead(begins_later)
    assert not known_ahead(nested(10).replace("%7: i32 = const 3", "%7: i32 = const 0"))


def test_equal_ranges_may_be_computed_again() -> None:
    ahead = PLAIN.replace("%17: u1", "%50: i32 = mul %6, %16\n%17: u1")
    ahead = ahead.replace("%8: i32 in %16..%6", "%8: i32 in %16..%50")
    back = "%51: i32 = load @count[%3]\n%52: i32 = const 2\n%30: i32 = mul %51, %52"
    assert set(found(ahead.replace("%30: i32 = load @count[%3]", back))) == {"v", "w"}


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
