# ruff: noqa
import quadrants_lab as qd

CAPTURED = [1, 2]


@qd.func
def by_value(l):
    l[0] = 7.0

@qd.func
def sets_first(l: qd.template()):
    l[0] = 7.0
    return 1.0

@qd.func
def rows_by_value(rows):
    for row in qd.static(rows):
        row[0] = 7.0

@qd.func
def appends_late(l: qd.template()):
    for j in range(3):
        if x[j] > 0:
            return
    l.append(1.0)

def append_in_if():
    a = [1, 2]
    if n[None] > 0:
        a.append(3)

def append_in_loop():
    a = []
    for i in range(n[None]):
        a.append(i)

def append_in_parallel_loop():
    a = [0.0]
    for i in x:
        a.append(x[i])

def append_after_a_return():
    a = [0.0]
    appends_late(a)

def key_in_if():
    d = {"a": 1}
    if n[None] > 0:
        d["b"] = 2

def shorter_in_if():
    a = [1, 2]
    if n[None] > 0:
        a = [3]

def two_names():
    a = [1, 2]
    b = a
    b[0] = 7

def chosen_in_the_statement():
    a = [1.0, 2.0]
    b = [a if n[None] > 0 else [3.0, 4.0], sets_first(a)]

def grows_in_the_last_turn():
    a = [1.0, 2.0]
    for k, v in qd.static(enumerate(a)):
        if qd.static(k == 1):
            a.append(v)

def row_twice():
    rows = [[0.0]] * 2
    rows[0][0] = 1.0

def parameter_by_value():
    a = [1.0, 2.0]
    by_value(a)

def no_name():
    [1, 2].append(3)

def index_of_the_run():
    a = [1, 2]
    z[0] = a[n[None]]

def key_of_the_run():
    d = {n[None]: 1}

def no_such_key():
    d = {"a": 1}
    z[0] = d["b"]

def pop_of_nothing():
    a = []
    a.pop()

def no_such_method():
    a = [1, 2]
    a.sort()

def slice_():
    a = [1, 2, 3]
    a[1:] = [4, 5]

def captured():
    a = CAPTURED
    a[0] = 7

def tuple_():
    a = (1, 2)
    a[0] = 7

def number_for_a_list():
    a = [1, 2]
    a = 3

def arms_of_different_length():
    a = [1, 2] if n[None] > 0 else [1]

def grows_while_looped_over():
    a = [1, 2]
    for v in qd.static(a):
        a.append(v)

def order_in_loop():
    a = [1, 2.5]
    for i in range(n[None]):
        a.reverse()

def rows_of_a_parameter():
    rows = [[1.0], [2.0]]
    rows_by_value(rows)

def holds_itself():
    a = [1.0, [2.0]]
    a[1] = [a]

@qd.func
def with_default(a=[1.0, 2.0]):  # noqa: B006
    a[0] = 3.0

def default_list():
    with_default()

def start_of_the_run():
    for k, v in qd.static(enumerate([1, 2], n[None])):
        z[0] = k * v
