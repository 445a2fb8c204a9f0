"""Lists and dicts in kernels. Python is the reference: it runs each program as it stands, on lists of its own, and
gives the values; finite differences of these are the reference for gradients."""

import math
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.frontend.syntax import unroll
from quadrants_lab.frontend.values import containers

session = session_of(sessions("cpu"), default_fp=qd.f64)  # lists are gone in the IR, which all backends take
Pair = qd.Vector
PLAIN = SimpleNamespace(static=lambda v: v, sin=math.sin, exp=math.exp)
RAW = {}


def func(fn):
    RAW[fn.__name__] = fn
    return qd.func(fn)


class Cells(list):
    """A field in Python: a loop over it yields indices."""

    def __iter__(self):
        return iter(range(len(self)))


def python_of(fn):
    """The function as Python runs it."""
    names = {**globals(), "qd": PLAIN, "Pair": np.array}
    names |= {name: FunctionType(raw.__code__, names) for name, raw in RAW.items()}
    return FunctionType(fn.__code__, names)


@func
def total(terms):
    s = 0.0
    for t in qd.static(terms):
        s += t
    return s


@func
def powers(v, n: qd.template()):
    out = [v]
    for _k in qd.static(range(n)):
        out.append(out[-1] * v)
    return out


@func
def move(state: qd.template(), by):
    state["p"] += state["v"] * by
    state["v"] *= 0.9
    if state["p"] > 2.0:
        state["v"] = -state["v"]


@func
def push(stack: qd.template(), v):
    stack.append(v)
    stack[0] += v


@func
def until(state: qd.template(), bound):
    for _j in range(5):
        state[0] += state[1]
        if state[0] > bound:
            return
    state[1] = 10.0


@func
def late(v):
    out = [v]
    for j in range(3):
        if v * j > 1.0:
            return [v, 1.0 * j]
    out.append(v * v)
    out[0] *= 3.0
    return out


@func
def one_of(v):
    if v > 0.5:
        return [v, 2.0]
    return [1.0, v * v]


def appended(x, y):
    for i in x:
        a = []
        for k in qd.static(range(4)):
            if qd.static(k != 2):
                a.append(x[i] * k)
        a += [x[i], 1.0]
        a.insert(1, qd.sin(x[i]))
        last = a.pop()
        first = a.pop(0)
        a.extend((last, first))
        a.reverse()
        y[i] = a[0] + 10 * a[1] + 100 * a[2] + 1000 * a[-1] + len(a)


def nested(x, y):
    for i in x:
        rows = [[x[i] * j for j in range(3)] for k in range(2)]
        rows[0][1] = qd.exp(rows[1][2])
        rows[1].append(x[i])
        for row in qd.static(rows):
            row[0] += 1.0
            for _j in range(3):
                row[2] += row[0] * x[i]
        for k, row in qd.static(enumerate(rows)):
            y[i] += row[0] + row[1] * row[-1] + k * len(row)


def branches(x, y):
    for i in x:
        a = [0.0, 1.0, [2.0, 3.0]]
        if x[i] > 0.5:
            a[0] = x[i]
            a[2][1] = x[i] * 2
        elif i > 1:
            a[1] = x[i] * x[i]
            a = [a[1], a[0], a[2]]
        else:
            a[2] = [x[i], 7.0]
        b = [x[i], 1.0] if i % 2 == 0 else [2.0, x[i]]
        y[i] = a[0] + 2 * a[1] + 3 * a[2][0] + 5 * a[2][1] + b[0] * b[1]


def loops(x, y):
    for i in x:
        s = [x[i], 0.0]
        n = [0]
        for j in range(5):
            if j == i:
                continue
            s = [s[1], s[0] + 0.5 * j]
            n[0] += 1
            if s[0] > 4.0:
                break
            s[1] *= x[i]
        while n[0] < 6:
            n[0] += 2
            s[0] += n[0] * s[1]
        y[i] = s[0] + n[0]


def dicts(x, y):
    for i in x:
        d = {"p": x[i], "v": 1.0, 3: [x[i]]}
        d["new"] = d["p"] * 2
        d[3].append(qd.sin(x[i]))
        for _j in range(3):
            move(d, 0.5)
            d[3][1] += d["p"]
        for k in qd.static(["p", "v", "new"]):
            y[i] += d[k]
        more = {k: d[3][k] * k for k in range(2)}
        more.update({7: d.pop("v")})
        for k, v in qd.static(more.items()):
            y[i] += k * v
        if qd.static("v" in d):
            y[i] += 100.0
        y[i] += len(d) + d.get("q", 5.0)


def funcs(x, y):
    for i in x:
        a = powers(x[i], 3)
        a[0] = total(a)
        a.append(total([a[0], 1.0]))
        push(a, x[i])
        b = [x[i], 0.3]
        until(b, 1.25)
        c = one_of(x[i])
        c.append(b[0])
        c += late(x[i])
        y[i] = a[0] + a[-1] + total(c) * b[1] + total(a[1:3])


@func
def two_lists(v):
    return [v], [v * 2, 1.0]


def vectors(x, y):
    for i in x:
        p, q = two_lists(x[i])
        q.append(p[0])
        a = [Pair([1.0, 2.0]), Pair([x[i], q[1] * x[i]])]
        a[1][i % 2] += 5.0
        for j in range(2):
            a[0][j] = a[1][(j + i) % 2] * q[2]
        y[i] = a[0][0] + 10 * a[0][1] + 100 * a[1][0] + len(q)


def copies(x, y):
    for i in x:
        a = [x[i], 1.0]
        b = list(a)
        c = a.copy()
        b[0] = 2.0 * x[i]
        c[1] = a[0] * 3
        d = a + b
        d[0] = 9.0
        e = [x[i]] * 3
        e[1] = 0.0
        y[i] = a[0] + b[0] + c[1] + d[2] * d[0] + e[0] * e[2] + e[1]


def changed_while_looped_over(x, y):
    for i in x:
        a = [x[i], 1.0, 2.0, 3.0]
        for v in qd.static(a):
            a[2] = a[2] + v
            y[i] += v * x[i]
        for k, v in qd.static(enumerate(a)):
            a[(k + 1) % 4] = v * 0.5
        for v in qd.static(reversed(a)):
            a[0] += v
            y[i] += v
        for u, v in qd.static(zip(a, tuple(a))):  # noqa: B905  # a kernel has no strict
            a[1] = u * v
            y[i] += u
        d = {"p": x[i], "q": 1.0}
        for key, v in qd.static(d.items()):
            d["q"] += v
            y[i] += v * len(key)
        for v in qd.static(d.values()):
            d["q"] *= 1.5
            y[i] += v


def swapped(x, y):
    for i in x:
        now, following = [x[i], 1.0], [0.0, 0.0]
        rows = [[x[i]], [1.0], [2.0]]
        for j in range(4):
            following[0] = now[0] * 0.5 + now[1]
            following[1] = now[1] + 0.1 * j
            now, following = following, now
            rows = [rows[1], rows[2], rows[0]]
            rows[0][0] += x[i] * j
        if x[i] > 0.5:
            row = rows[0]
            rows[0] = rows[1]
            rows[1] = row
        rows[1][0] *= 2.0
        y[i] = now[0] + following[1] + rows[0][0] + 10 * rows[1][0] + 100 * rows[2][0]


def chosen(x, y):
    for i in x:
        best = [x[i], 0.0]
        for j in range(4):
            other = [x[i] * j, 1.0 * j]
            if other[0] > best[0]:
                best = other
                break
            if other[0] < -1.0:
                continue
            best[1] += 1.0
        best[0] += 1.0
        y[i] = best[0] + best[1]


@func
def a_dict_of(p, v):
    return {"p": p, "v": v}


@func
def replace_first(rows: qd.template(), row):
    rows[0] = row


def handed_out(x, y):
    for i in x:
        d = a_dict_of([x[i]], [2.0])
        d["p"][0] += d["v"][0]
        d["v"].append(x[i])
        rows = [[x[i]], [1.0]]
        replace_first(rows, [x[i] * x[i]])
        rows[0][0] += d["v"][1]
        y[i] = d["p"][0] + rows[0][0]


def repeated(x, y):
    for i in x:
        a = [x[i], 1.0]
        a *= 2
        a[3] += x[i]
        a += [a.pop() * 2.0]
        b = CAPTURED + a
        b[0] *= x[i]
        b.append(CAPTURED[0])
        y[i] = a[2] + 10 * a[3] + 100 * b[0] + 1000 * b[-1] + len(b)


@func
def first_set(a: qd.template(), v):
    a[0] = v
    return v


@func
def first_and(a, v):
    return a[0] + v


def changed_in_one_statement(x, y):
    """A list that was read to the left of its change is the changed one."""
    for i in x:
        a = [x[i], 2.0, 3.0, 4.0]
        y[i] += len([a, a.pop()][0]) + 2 * len((a[:], a.pop(), a)[2])
        a, n = a + [a.pop(), x[i]], first_and(a, first_set(a, x[i] * x[i]))
        d = {"a": a, "first": first_set(a, 5.0)}
        y[i] += a[0] + 10 * a[-1] + 100 * len(a) + n + d["a"][0]
        row = [1.0]
        rows = [[x[i]], [2.0]]
        rows[0], whole = row, rows
        y[i] += whole[0][0]
        now = [[x[i]], [2.0]]
        for u, v in qd.static(zip((now[0], now[1]), (now[1], now[0]))):  # noqa: B905  # a kernel has no strict
            u[0] += v[0] * x[i]
        later = reversed(now)
        now[0] = [3.0]
        for u in qd.static(later):
            y[i] = 2 * y[i] + u[0]


def changed_in_comprehensions(x, y):
    for i in x:
        a = [x[i], 2.0, 3.0]
        last = [a.pop() * k for k in range(2)]
        s = 0.0
        sums = [(s := s + v) for v in last]
        found = {k: first_set(a, x[i] * k) for k in range(3)}
        for k, v in qd.static(enumerate(sums, 1)):
            y[i] += k * v
        for k, v in qd.static(enumerate(a, start=3)):
            y[i] += k * v + len(a)
        y[i] += found[1] + s


CAPTURED = [2.0, 3.0]
PROGRAMS = [
    changed_in_one_statement, changed_in_comprehensions, repeated, swapped, chosen, handed_out, appended, nested,
    branches, loops, dicts, funcs, vectors, copies, changed_while_looped_over,
]
X = np.array([0.3, 0.7, -0.4, 0.9])
WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0])


def values(fn, x):
    y = Cells([0.0] * len(x))
    python_of(fn)(Cells(map(float, x)), y)
    return np.array(list.__getitem__(y, slice(None)))


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_python_is_the_reference(fn):
    x, y = (qd.field(qd.f64, shape=4, needs_grad=True) for _ in range(2))
    fn.__annotations__ = {"x": qd.template(), "y": qd.template()}
    kernel = qd.kernel(fn)
    x.from_numpy(X)
    kernel(x, y)
    np.testing.assert_allclose(y.to_numpy(), values(fn, X), rtol=1e-12)
    y.grad.from_numpy(WEIGHTS)
    kernel.grad(x, y)
    step = np.eye(4) * 1e-6
    expected = [WEIGHTS @ (values(fn, X + s) - values(fn, X - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-6, atol=1e-7)


def test_iterations_accumulate_into_a_list_of_the_kernel():
    x, y = qd.field(qd.f64, shape=4, needs_grad=True), qd.field(qd.f64, shape=2, needs_grad=True)
    @qd.kernel
    def sums():
        a = [0.0, 1.0]
        for i in x:
            a[0] += x[i] * x[i]
            a[1] += x[i]
        y[0] = a[0]
        y[1] = a[1]
    x.from_numpy(X)
    sums()
    np.testing.assert_allclose(y.to_numpy(), [X @ X, 1 + X.sum()])
    y.grad.from_numpy(np.array([1.0, 5.0]))
    sums.grad()
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * X + 5)


def test_the_first_value_of_an_entry_gives_its_dtype():
    y = qd.field(qd.f64, shape=2)
    @qd.kernel
    def cut():
        a = [1, 2.0]
        a[0] = 1.5
        a[1] = 1
        y[0], y[1] = a[0], a[1] / 2
    with pytest.warns(Warning, match="QL1901"):
        cut()
    assert y.to_numpy().tolist() == [1.0, 0.5]


def test_a_list_prints_as_in_python(capfd):
    @qd.kernel
    def show():
        a = [1, [2.5], (3, 4)]
        print(a, {"k": 1, 2: a[1]}, f"{a[1]}")
        print(a, a.pop(), *a)
    show()
    qd.sync()
    assert capfd.readouterr().out == "[1, [2.5], (3, 4)] {'k': 1, 2: [2.5]} [2.5]\n[1, [2.5]] (3, 4) 1 [2.5]\n"


def test_a_static_loop_looks_at_its_list_again_only_after_a_change(monkeypatch):
    """Otherwise lowering a loop over many entries takes quadratic time."""
    looks = []
    monkeypatch.setattr(unroll, "live", lambda cx, value: looks.append(value) or containers.live(cx, value))
    many, y = [float(k) for k in range(50)], qd.field(qd.f64, ())
    @qd.kernel
    def sums():
        for _ in range(1):
            a = [0.0, 0.0]
            for k, v in qd.static(enumerate(many)):
                if qd.static(k % 25 == 3):
                    a[0] += v
            y[None] = a[0]
    sums()
    assert y[None] == 3.0 + 28.0
    assert len(looks) == 2


def test_a_comprehension_keeps_its_variable_to_itself():
    x = qd.field(qd.f64, 3)

    @qd.kernel
    def leaks():
        for i in x:
            a = [x[i] * own for own in range(2)]
            x[i] = a[1] + own  # noqa: F821  # that is the test

    with pytest.raises(qd.QuadrantsNameError, match="own"):
        leaks()
