"""Lists that may have two names: a change that Python would show under both is an error."""

import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsCompilationError

session = session_of(sessions("cpu"), default_fp=qd.f64)  # the front end refuses them


@qd.func
def first_if(v, a: qd.template(), b: qd.template()):
    if v > 0.5:
        return a
    return b


@qd.func
def replaced_if(v, rows: qd.template()):
    if v > 0.5:
        rows[0] = [v]
    rows[0][0] += 1.0


def by_expression(x, y):
    for i in x:
        a, b = [x[i]], [2.0]
        c = a if x[i] > 0.5 else b
        b[0] = 10.0
        y[i] = c[0]


def under_a_condition(x, y):
    for i in x:
        a, b = [x[i]], [2.0]
        if x[i] > 0.5:
            a = b
        b[0] = 10.0
        y[i] = a[0]


def in_a_loop(x, y):
    for i in x:
        a, b = [x[i]], [2.0]
        for _j in range(3):
            b[0] += 1.0
            a = b
        y[i] = a[0]


def where_a_loop_ends_early(x, y):
    for i in x:
        a, b = [x[i]], [2.0]
        for j in range(3):
            if j > i:
                a = b
                break
        a[0] = 10.0
        y[i] = b[0]


def where_an_iteration_ends_early(x, y):
    for i in x:
        a, b = [x[i]], [2.0]
        for j in range(3):
            b[0] += 1.0
            if j > i:
                a = b
                continue
        y[i] = a[0]


def as_an_entry(x, y):
    for i in x:
        rows = [[x[i]], [1.0]]
        if x[i] > 0.5:
            rows[0] = rows[1]
        rows[1][0] = 10.0
        y[i] = rows[0][0]


def by_an_early_return(x, y):
    for i in x:
        a, b = [x[i]], [2.0]
        c = first_if(x[i], a, b)
        b[0] = 10.0
        y[i] = c[0]


def by_reference(x, y):
    for i in x:
        a = [x[i]]
        rows = [a, [1.0]]
        replaced_if(x[i], rows)
        y[i] = a[0]


def rotated(x, y):
    for i in x:
        rows = [[x[i]], [1.0]]
        first = rows[0]
        for _j in range(3):
            rows = [rows[1], rows[0]]
        rows[1][0] = 50.0
        y[i] = first[0]


MAYBE_ONE = [
    by_expression, under_a_condition, in_a_loop, where_a_loop_ends_early, where_an_iteration_ends_early, as_an_entry,
    by_an_early_return, by_reference, rotated,
]


@pytest.mark.parametrize("fn", MAYBE_ONE, ids=lambda fn: fn.__name__)
def test_a_list_that_may_have_two_names_is_not_changed(fn):
    """In some runs of the same code, Python would show the change under the other name, too."""
    fn.__annotations__ = {"x": qd.template(), "y": qd.template()}
    with pytest.raises(QuadrantsCompilationError, match="QL1423"):
        qd.kernel(fn)(*(qd.field(qd.f64, shape=4) for _ in range(2)))


@qd.func
def changes_an_entry(pair):
    pair[0][0] = 5.0
    return pair[1]


def test_a_list_in_a_tuple_is_passed_by_value():
    @qd.kernel
    def passes(v: qd.f64) -> qd.f64:
        a = [v]
        return changes_an_entry((a, 1.0)) + a[0]
    with pytest.raises(QuadrantsCompilationError, match="QL1424"):
        passes(1.0)


@qd.func
def raises_both(row: qd.template(), v: qd.template()):
    row[0] += 1.0
    v += row[0]


@pytest.mark.parametrize("code", ["QL1423", "QL1617"])
def test_a_list_by_reference_and_what_it_holds(code):
    """Both arguments are one place, and a func would write one over the other."""
    @qd.kernel
    def passes(v: qd.f64):
        rows = [[v], [2.0]]
        if qd.static(code == "QL1423"):
            raises_both(rows[0], rows)
        else:
            raises_both(rows[0], rows[0][0])
    with pytest.raises(QuadrantsCompilationError, match=code):
        passes(1.0)
