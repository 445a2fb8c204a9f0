"""Copies that a Tape kept, read by gradients where they lie."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.runtime.session import checking
from quadrants_lab.runtime.tape.parts import DevicePart, WholePart

N, STEPS = 8, 12
session = session_of(sessions("cpu", "cuda"), default_fp=qd.f64)


@pytest.fixture
def put(monkeypatch) -> list[WholePart | DevicePart]:
    """The copies that the Tape has restored."""
    found: list[WholePart | DevicePart] = []
    for kind in (WholePart, DevicePart):
        plain = kind.put
        monkeypatch.setattr(kind, "put", lambda part, plain=plain: found.append(part) or plain(part))
    return found


@qd.kernel
def fields(p: qd.template(), q: qd.template(), c: qd.template()):
    for i in p:
        q[i] = qd.sin(p[i]) * c[i] + 0.5 * q[i]

@qd.kernel
def arrays(p: qd.types.ndarray(), q: qd.types.ndarray(), c: qd.types.ndarray()):
    for i in p:
        q[i] = qd.sin(p[i]) * c[i] + 0.5 * q[i]

@qd.kernel
def half(p: qd.template(), q: qd.template(), c: qd.template()):
    for i in range(N // 2, N):
        q[i] = qd.sin(p[i]) * c[i] + 0.5 * q[i]

@qd.kernel
def changed_within(p: qd.template(), q: qd.template(), c: qd.template()):
    for i in p:
        q[i] = qd.sin(p[i]) * c[i] + 0.5 * q[i]
    for i in p:
        p[i] = p[i] * p[i]

@qd.kernel
def measure_field(p: qd.template(), loss: qd.template()):
    for i in p:
        loss[None] += p[i]

@qd.kernel
def measure_array(p: qd.types.ndarray(), loss: qd.template()):
    for i in p:
        loss[None] += p[i]


def program(step, make, squared=False, changed=N, **options):
    """Values at the end, and derivatives of their sum with the weights ``c``, beside those of numpy. ``changed``: how
    many elements a step changes."""
    p, q, c = (make(N) for _ in range(3))
    loss = qd.field(qd.f64, (), needs_grad=True)
    start, weights = np.linspace(0.1, 0.9, N), np.linspace(0.5, 0.9, N)
    at = np.arange(N) >= N - changed

    measure = measure_array if step is arrays else measure_field
    for _ in range(3):  # the second time records for the third
        p.from_numpy(start)
        q.from_numpy(start)
        c.from_numpy(weights)
        for x in (p, q, c):
            x.grad.fill(0)
        with qd.ad.Tape(loss, clear_gradients=False, **options):
            for _ in range(STEPS // 2):
                step(p, q, c)
                step(q, p, c)
            measure(p, loss)
    kept, trail = [start, start.copy()], []
    for t in range(STEPS):
        a, b = (t % 2, 1 - t % 2)
        trail.append(kept[a].copy())
        kept[b] = np.where(at, np.sin(kept[a]) * weights + 0.5 * kept[b], kept[b])
        if squared:
            kept[a] = kept[a] ** 2
    by, of_c = [np.ones(N), np.zeros(N)], np.zeros(N)
    for t in reversed(range(STEPS)):
        a, b, x = t % 2, 1 - t % 2, trail[t]
        if squared:
            by[a] = by[a] * 2 * x
        by[a] = by[a] + at * by[b] * np.cos(x) * weights
        of_c += at * by[b] * np.sin(x)
        by[b] = np.where(at, 0.5, 1) * by[b]
    for found, want in ((p.to_numpy(), kept[0]), (q.to_numpy(), kept[1]), (p.grad.to_numpy(), by[0]),
                        (q.grad.to_numpy(), by[1]), (c.grad.to_numpy(), of_c)):  # fmt: skip
        np.testing.assert_allclose(found, want, rtol=1e-12)


def of_fields(n):
    return qd.field(qd.f64, n, needs_grad=True)


def of_arrays(n):
    return qd.ndarray(qd.f64, n, needs_grad=True)


@pytest.mark.parametrize(("step", "make"), [(fields, of_fields), (arrays, of_arrays)])
def test_a_gradient_reads_a_copy_where_it_is_kept(step, make, put) -> None:
    program(step, make)
    assert len(put) <= 3 * 2  # p and q, as they were in the end


def test_a_copy_of_a_part_does_not_stand_in_for_the_memory() -> None:
    program(half, of_fields, changed=N // 2)


@pytest.mark.parametrize("memory", [10 * N * 8, 40 * N * 8])
def test_under_a_budget(memory) -> None:
    program(fields, of_fields, memory=memory)


def test_a_gradient_that_changes_memory_finds_it_as_it_was(put) -> None:
    program(changed_within, of_fields, squared=True)
    assert len(put) > 3 * 2


def test_an_observer_finds_memory_as_it_was() -> None:
    """An observer of the launches sees the memory that the launches read."""
    from quadrants_lab.runtime.record.recorder import recording
    with recording() as records:
        program(fields, of_fields)
        record = next(r for r in records.records() if r.mode == "reverse" and r.kernel == "fields")
    read = [record.inputs[name] for name in record.plan.primal_reads]
    assert any(np.array_equal(x, np.linspace(0.1, 0.9, N)) for x in read)  # the gradient of the first step is the last


@pytest.mark.parametrize("disturb", ["python", "array", "own gradient", "failure", "by hand"])
def test_gradients_under_a_budget_survive_interruptions_of_a_segment(disturb) -> None:
    """The gradient of many steps in place is the same with every budget, whatever happens between them."""
    p, q, c = (of_fields(N) for _ in range(3))
    loss, fails = qd.field(qd.f64, (), needs_grad=True), qd.field(qd.i32, ())
    table = np.linspace(1.0, 1.1, N)

    @qd.kernel
    def scaled(by: qd.types.ndarray(dtype=qd.f64, ndim=1)):
        for i in p:
            p[i] = qd.sin(p[i]) * by[i]

    @qd.kernel
    def may_fail():
        for i in q:
            q[i] = q[i] * q[i]
            assert fails[None] == 0

    @qd.ad.grad_replaced
    def doubled():
        fields(q, p, c)

    @qd.ad.grad_for(doubled)
    def of_doubled():
        fields.grad(q, p, c)

    def between(t: int) -> None:
        if disturb == "python":
            p[t % N] = 0.1 * t
        elif disturb == "array":
            scaled(table)
        elif disturb == "own gradient":
            doubled()
        elif disturb == "by hand":
            qd.ad.checkpoint(lambda: [fields(p, q, c), fields(q, p, c)])()
        else:
            fails[None] = 1
            with pytest.raises(qd.QuadrantsAssertionError):
                may_fail()
            fails[None] = 0

    found, again = [], []
    for memory in (None, 1232, 2000, 4000):
        for x, start in ((p, 0.1), (q, 0.2), (c, 0.8)):
            x.from_numpy(np.linspace(start, start + 0.1, N))
        with checking("asserts"), qd.ad.Tape(loss, memory=memory) as tape:
            for t in range(60):
                fields(p, q, c)
                if t % 23 == 11:
                    between(t)
                fields(q, p, c)
            measure_field(p, loss)
        found.append([x.grad.to_numpy() for x in (p, q, c)])
        again.append(tape.made_again)
    assert again[0] == (6 if disturb == "by hand" else 0)
    assert min(again[1:]) > 50
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
