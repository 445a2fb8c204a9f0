"""Kernels of many array arguments: what it takes to compile one grows with their number, and not with its square. And
what overlaps is found as a comparison of all pairs finds it."""

import sys
import threading
from itertools import combinations, product

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.runtime.interop.arrays import row_major
from quadrants_lab.runtime.memory.identity import Distinct, same_memory
from quadrants_lab.runtime.session import current


def each(n):
    """Each second array from the next one."""
    return [
        "for i in range(16):",
        *(f"    a{j}[i] = a{j + 1}[i] * 2.0 + a{j + 1}[i] ** 2" for j in range(0, n, 2)),
    ]


def tasks(n):
    """Each array from the one before, in a task of its own."""
    return [
        line for j in range(n - 1) for line in ("for i in range(16):", f"    a{j + 1}[i] = a{j}[i] * 2.0")
    ]


def terms(n):
    """A sum of a number from each array."""
    added = [f"    s += a{j}[i] * a{j}[i]" for j in range(1, n)]
    return ["for i in range(16):", "    s = 0.0", *added, "    a0[i] += s"]


def overwritten(n):
    """Each second array in place, times the next one: the gradient needs what the kernel overwrites."""
    return ["for i in range(16):", *(f"    a{j}[i] = qd.sin(a{j}[i]) * a{j + 1}[i]" for j in range(0, n, 2))]


PROGRAMS = {"each": each, "tasks": tasks, "terms": terms, "overwritten": overwritten}


def made(folder, monkeypatch, program, n, kind):
    """A kernel of ``n`` arrays, and its arguments."""
    name = f"many_{program}_{kind}_{n}"
    given = ", ".join(f"a{i}: qd.types.ndarray(qd.f32, 1)" for i in range(n)) if kind == "ndarray" else ""
    body = "".join(f"    {line}\n" for line in PROGRAMS[program](n))
    (folder / f"{name}.py").write_text(f"import quadrants_lab as qd\n\n\ndef k({given}):\n{body}")
    monkeypatch.syspath_prepend(folder)
    module = __import__(name)
    make = qd.ndarray if kind == "ndarray" else qd.field
    arrays = [make(qd.f32, 16, needs_grad=True) for _ in range(n)]
    for i, array in enumerate(arrays):
        array.grad.fill(1)
        if kind == "field":
            setattr(module, f"a{i}", array)
    return qd.kernel(module.k), arrays if kind == "ndarray" else ()


def compiled(*of):
    """Launches a kernel and its gradient; returns how many functions of Python were called for each."""
    kernel, args = made(*of)
    return [calls(kernel, args), calls(kernel.grad, args)]


def calls(function, args) -> int:
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


@pytest.mark.parametrize("kind", ["ndarray", "field"])
@pytest.mark.parametrize("program", ["each", "tasks", "terms"])
def test_compilation_takes_steps_in_proportion_to_the_arguments(program, kind, tmp_path, monkeypatch) -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    compiled(tmp_path, monkeypatch, program, 4, kind)  # modules are imported
    small, middle, large = (compiled(tmp_path, monkeypatch, program, n, kind) for n in (8, 16, 32))
    for a, b, c in zip(small, middle, large, strict=True):
        assert c - b < 2.4 * (b - a), (small, middle, large)


@pytest.mark.parametrize("kind", ["ndarray", "field"])
def test_what_is_overwritten_is_kept_in_steps_in_proportion_to_the_arguments(kind, tmp_path, monkeypatch) -> None:
    """Each array that is kept takes the same steps, in the launch and in the gradient, which copies it three times."""
    qd.init(arch=qd.cpu, offline_cache=False)
    compiled(tmp_path, monkeypatch, "overwritten", 4, kind)  # modules are imported
    # no other test has these numbers: what a kernel has in common with an earlier one is not compiled again
    small, middle, large = (compiled(tmp_path, monkeypatch, "overwritten", n, kind) for n in (14, 28, 56))
    for a, b, c in zip(small, middle, large, strict=True):
        assert c - b < 2.05 * (b - a), (small, middle, large)


def test_a_warm_launch_calls_few_functions_for_each_argument(tmp_path, monkeypatch) -> None:
    qd.init(arch=qd.cpu, offline_cache=False)

    def warm(n):
        kernel, args = made(tmp_path, monkeypatch, "each", n, "ndarray")
        for function in (kernel, kernel.grad, kernel.grad):
            function(*args)
        return calls(kernel, args), calls(kernel.grad, args)

    (launch, gradient), (large, large_gradient) = warm(16), warm(32)
    assert launch == large
    assert large_gradient - gradient <= 16 * 9


def test_arrays_in_fortran_order_are_compared_in_steps_in_proportion_to_them() -> None:
    def steps(n):
        return calls(row_major, [[np.ones((3, 2), np.float32, order="F") for _ in range(n)]])

    assert steps(128) < 2.2 * steps(64)


def test_alias_scopes_grow_with_the_arguments(tmp_path, monkeypatch) -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    from quadrants_lab.backends._llvm.body import Scopes
    from quadrants_lab.ir import nodes as N
    from quadrants_lab.ir.types import f32

    def length(n):
        buffers = {f"b{i}": N.Buffer(f"b{i}", "field", f32, 1, (4,)) for i in range(n)}
        scopes = Scopes(N.Kernel("k", (), buffers, (), 0))
        lines = [line.split(" = ") for line in scopes.lines()]
        lists = {name: set(text[2:-1].split(", ")) for name, text in lines if "distinct" not in text}
        tags = [[part.split()[-1] for part in scopes.tag(b)[2:].split(", ")] for b in buffers]
        domain = {
            name: text.split("!")[-1] for name, text in lines if "distinct" in text and text.count("!") == 3
        }
        for a, b in product(range(n), repeat=2):
            mine, others = lists[tags[a][0]], lists[tags[b][1]]
            of_domain = [{s for s in mine if domain[s] == d} for d in {domain[s] for s in mine}]
            assert any(scopes <= others for scopes in of_domain) is (a != b)  # what LLVM asks
        return sum(len(text) for _, text in lines)

    assert length(64) - length(32) < 3 * (length(32) - length(16))


@qd.kernel
def five(a: qd.types.ndarray(), b: qd.types.ndarray(), c: qd.types.ndarray(), d: qd.types.ndarray(),
         e: qd.types.ndarray()):  # fmt: skip
    for i in range(1):
        b[i] = a[i] + c[i]
        d[i] = e[i]


def test_overlaps_are_those_of_all_pairs() -> None:
    """By the entry of a launch, in C, and by `Distinct`, for arrays of numpy and for our own, some of them empty."""
    qd.init(arch=qd.cpu)
    five(*np.zeros((5, 4), np.float32))
    plan = five._variants.default[0].last
    draw = np.random.default_rng(3)
    names, written = "abcde", {"b", "d"}
    distinct = Distinct(dict(zip(names, range(5), strict=True)), written, current())
    ours = [qd.ndarray(qd.f32, 4) for _ in range(4)]
    buffer, met = np.zeros(64, np.float32), [0, 0]
    for _ in range(400):
        ends = [
            (n, n + length) for n, length in zip(draw.integers(0, 60, 5), draw.integers(0, 9, 5), strict=True)
        ]
        args = [buffer[a:b] for a, b in ends]
        for k in range(5):
            if draw.random() < 0.3:
                args[k] = ours[draw.integers(4)]
        pairs = [
            (p, q) for p, q in combinations(range(5), 2)
            if {names[p], names[q]} & written and same_memory(args[p], args[q])
        ]  # fmt: skip
        found = distinct.met(args)
        assert (found is not None) == bool(pairs)
        assert found is None or {names.index(name) for name in found} in [set(pair) for pair in pairs]
        taken = [a._memory.operand if isinstance(a, type(ours[0])) else a for a in args]
        assert (plan.entry(*taken) is NotImplemented) == bool(pairs)
        met[bool(pairs)] += 1
    assert min(met) > 50
