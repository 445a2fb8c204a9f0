"""Forward, programs and operations do what the peer does (the pip package `quadrants`, as a black box).

What the peer refuses or means otherwise on purpose is listed here with the reason; gradients are settled by
mathematics (test_gradients), never by the peer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer.process import Peer, request
from programs import PROGRAMS, Program
from programs.seeded import SEEDED
from running import Bench, f64, job_of

import quadrants_lab as qd

NESTED = "Nested struct-fors are not supported"
EARLY = "Return inside non-static if/for is not supported"
STEPS = "Range should have 1 or 2 arguments"

# program -> words of the peer's refusal
REFUSED = {
    "returns_from_nested_loops": EARLY,
    "return_from_an_endless_loop": EARLY,
    "return_from_an_unrolled_loop": EARLY,
    "returns_where_neither_arm_always_does": EARLY,
    "returns_in_funcs_that_call_funcs": EARLY,
    "return_without_a_value": EARLY,
    "structs_returned_early": EARLY,
    "bouncing_rays": EARLY,
    "nested_struct_for": NESTED,
    "returned_index_in_a_condition": STEPS,
    "cholesky_solve_in_local_matrices": STEPS,
    "ranges_in_order": STEPS,
    "steps_of_parallel_loops": STEPS,
    "static_loops_over_pairs": "'Tuple' object has no attribute 'id'",
    "mantissa_and_exponent": "the process ended",
    "tasks_under_a_branch_and_in_a_loop": "struct_for cannot be nested inside a kernel",
}
# what may be refused of the random ones, which are not listed one by one
REFUSALS = (EARLY,)
# program -> why the peer's values are not those of the program
WRONG = {
    "a_loop_whose_test_changes_what_it_looks_at": "the right operand of `and` where the left one has decided",
    "vectors_accumulated_by_a_parallel_loop": "an element at a run-time index of a vector that iterations share",
}
PARTS = 8  # processes of the peer, one after the other in each process of the suite; by day one of them


def tolerance(program: Program) -> float:
    """The peer's atan2 has the precision of f32."""
    named = {name for fn in (program.fn, *program.funcs) for name in fn.__code__.co_names}
    return 1e-6 if "atan2" in named else 1e-11


def disagreements(program: Program, theirs: list[dict[str, Any]]) -> Iterator[str]:
    bench, tol = Bench(f64), tolerance(program)
    for case, their in zip(program.cases, theirs, strict=True):
        ours, returned = bench.run(job_of(program, case), gradient=False)
        pairs = [(name, ours[name], values) for name, values in their["values"].items()]
        for name, a, b in [*pairs, ("returned", returned, their["returned"])]:
            if a is None and b is None:
                continue
            b = np.asarray(b)
            scale = np.maximum(1.0, np.abs(b)) if b.dtype.kind == "f" else 0
            if not (np.abs(a - b) <= tol * scale).all():
                yield f"{program.name} {case}: {name} is {a}, the peer's is {b}"


@pytest.mark.peer
@pytest.mark.parametrize(
    ("part", "programs"),
    [pytest.param(n, some, id=f"{name}{n}", marks=[pytest.mark.slow] * (n > 0 or some is SEEDED))
     for name, some in (("", PROGRAMS), ("random", SEEDED)) for n in range(PARTS)],
)  # fmt: skip
def test_values_are_the_peers(part: int, programs: dict[str, Program], peer: Peer) -> None:
    wrong = []
    for program in list(programs.values())[part::PARTS]:
        answer = peer.ask(request(program))
        refused = answer.get("refused", "")
        if refused or program.name in REFUSED:
            known = REFUSALS if program.name in SEEDED else (REFUSED.get(program.name, "not listed"),)
            if not any(words in refused for words in known):
                wrong.append(f"{program.name}: the peer says {refused!r}")
            continue
        found = list(disagreements(program, answer["cases"]))
        if program.name not in WRONG:
            wrong += found
        elif not found:
            wrong.append(f"{program.name}: the peer agrees by now")
    assert not wrong, "\n".join(wrong)


def test_few_programs_are_left_out() -> None:
    assert {*REFUSED, *WRONG} <= {*PROGRAMS, *SEEDED}
    assert len(REFUSED) + len(WRONG) <= 18


# --- operations at the edges of their dtypes

# Not compared, because the peer's process ends there or the value is the machine's: division of integers by 0 and
# INT_MIN // -1 (0 and INT_MIN here), reals that no integer holds (they saturate), shifts by the width and more
# (masked), integers of 8 and 16 bits.
EDGES = {
    "i32": (0, 1, -2, 5, -7, 100, 2**31 - 1, 2**30 - 1, -(2**31)),
    "i64": (0, 1, -2, 5, -7, 2**31, 2**63 - 1, 2**62 - 1, -(2**63)),
    "u32": (0, 1, 2, 5, 7, 100, 2**32 - 1, 2**31, 2**31 - 1),
    "f64": (0.0, 1.0, -1.0, 2.5, -2.5, 0.1, -7.0, 100.75, 3e4),
    "f32": (0.0, 1.0, -1.0, 2.5, -2.5, 0.125, -7.0, 100.75, 3e4),
}
DIVISORS = {
    "i32": (1, 2, 3, -7, 5, -3, 2**31 - 1, 11, 100),
    "i64": (1, 2, 3, -7, 5, -3, 2**63 - 1, 11, 100),
    "u32": (1, 2, 3, 7, 5, 2**32 - 1, 2**31, 11, 100),
    "f64": (1.0, -1.0, 0.3, -2.5, 7.0, -3.0, 50.0, 2.0, 1.5),
    "f32": (1.0, -1.0, 0.25, -2.5, 7.0, -3.0, 50.0, 2.0, 1.5),
}
PAIRS = [(a, b) for a in ("i32", "i64", "u32", "f64") for b in ("i32", "i64", "u32", "f64")] + [("f32", "f32")]
ANY = (
    "p + q", "p - q", "p * q", "p // q", "p % q", "min(p, q)", "qd.max(p, q)", "p < q", "p == q", "p >= q", "-p",
    "qd.abs(p)", "p ** 2", "p ** 3", "p + 1", "qd.select(p > q, p, q)", "p if p > q else q", "first(p, q)",
)  # fmt: skip
REAL = ("p / q", "p * 0.5", "p / 100", "float(p)", "qd.cast(p, qd.f32)")
BITS = ("p & q", "p | q", "p ^ q", "~p", "p << (q & 7)", "p >> (q & 7)", "p and q", "not p", "p < q or q < 3")
OPERATIONS = """

@qd.func
def first(p, q):
    r = p
    r = q
    r += p
    return r


@qd.kernel
def k():
    for i in a:
        p = a[i]
        q = b[i]
"""


# expression -> where it is not what the peer makes of it, of the first operand's dtype and both operands, and why
DIFFERENT: dict[str, tuple[Callable[[str, Any, Any], bool], str]] = {
    "qd.abs(p)": (lambda t, p, q: t[0] == "i" and p <= -(2**31), "|INT_MIN| wraps to itself, the peer widens it"),
    "first(p, q)": (lambda t, p, q: t == "u32" and q < 0, "a negative real is 0 as an unsigned integer, not wrapped"),
}


def operations(first: str, second: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """A request with every operation on every pair of operands, and (result's field, expression) by row. Integer
    results are taken as i64, the others as f64."""
    whole = first[0] != "f" and second[0] != "f"
    rows = [("s" if whole else "r", e) for e in (*ANY, *(BITS if whole else ()))] + [("r", e) for e in REAL]
    lines = "".join(f"        {name}[{n}, i] = {e}\n" for n, (name, e) in enumerate(rows))
    pairs = list(itertools.product(EDGES[first], DIVISORS[second]))
    shapes = {"a": (first, [len(pairs)]), "b": (second, [len(pairs)])}
    shapes |= {name: (dtype, [len(rows), len(pairs)]) for name, dtype in (("r", "f64"), ("s", "i64"))}
    fields = {n: {"dtype": d, "shape": shape, "grad": False, "arg": False} for n, (d, shape) in shapes.items()}
    values: dict[str, Any] = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}
    values |= {name: np.zeros(fields[name]["shape"]).tolist() for name in ("r", "s")}
    cases = [{"values": values, "given": {}}]
    return {"text": OPERATIONS + lines, "kernel": "k", "parameters": [], "fields": fields, "cases": cases}, rows


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(4)])
def test_operations_are_the_peers(part: int, peer: Peer, tmp_path: Path) -> None:
    wrong = []
    for first, second in PAIRS[part::4]:
        job, rows = operations(first, second)
        theirs = peer.ask(job)["cases"][0]["values"]
        ours = launched(job, tmp_path / f"{first}_{second}.py")
        tol = 1e-6 if "f32" in (first, second) else 1e-12
        for n, (name, expression) in enumerate(rows):
            for p, q, x, y in zip(theirs["a"], theirs["b"], ours[name][n].tolist(), theirs[name][n], strict=True):
                if expression in DIFFERENT and DIFFERENT[expression][0](first, p, q):
                    continue
                # the remainder is what one fused operation leaves of p, not as exact as its own size
                scale = max(1.0, abs(p), abs(y)) if name == "r" else 0
                if abs(x - y) > tol * scale:
                    wrong.append(f"{first} {second}: {expression} of {p}, {q} is {x}, the peer's is {y}")
    assert not wrong, "\n".join(wrong)


def launched(job: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    """The fields after one launch of the same text here."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False, log_level=qd.ERROR)
    fields = {n: qd.field(getattr(qd, spec["dtype"]), spec["shape"]) for n, spec in job["fields"].items()}
    for name in ("a", "b"):
        fields[name].from_numpy(np.array(job["cases"][0]["values"][name], fields[name].dtype.numpy))
    path.write_text(job["text"])
    space: dict[str, Any] = {"qd": qd, **fields}
    exec(compile(job["text"], str(path), "exec"), space)
    space["k"]()
    return {name: field.to_numpy() for name, field in fields.items()}
