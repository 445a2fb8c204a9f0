# ruff: noqa
import math

import numpy as np


@plain
def helper(v):
    return v + 1

class Thing:
    pass

@qd.func
def twice(v):
    return 2 * v

@qd.func
def nothing(v):
    z[0] = v

@qd.func
def endless(v):
    return endless(v - 1)

@qd.func
def wrong_inside(v):
    w = v & 1
    return w

@qd.func
def outer(v):
    return wrong_inside(v)

def python_function():
    z[0] = hash(x[0])

def python_math():
    z[0] = math.sin(x[0])

def python_builtin():
    z[0] = divmod(7, 2)[0]

def not_callable():
    z[0] = x(0)

def number_called():
    v = 1
    z[0] = v(0)

def object_called():
    z[0] = Thing(1)

def too_many_arguments():
    z[0] = qd.sin(1.0, 2.0)

def missing_argument():
    z[0] = qd.select(True, 1)

def unknown_keyword():
    z[0] = qd.floor(2.5, to=qd.i32)

def no_arguments():
    z[0] = qd.max()

def starred_arguments():
    z[0] = qd.max(*n[None])

def starred_target():
    qd.atomic_add(*x.shape)

def double_starred_arguments():
    z[0] = qd.floor(**{"x": 1.0})

def dtype_of_two():
    z[0] = qd.f32(1, 2)

def func_arity():
    z[0] = twice(1, 2)

def func_missing():
    z[0] = twice()

def func_keyword():
    z[0] = twice(w=1)

def func_returns_nothing():
    v = nothing(1)

def numpys_function():
    z[0] = np.sin(x[0])

def compared_with_an_object():
    z[0] = qd.static(helper > 1)

def recursion():
    z[0] = endless(3)

def error_in_func():
    z[0] = outer(x[0])

def not_in_kernels():
    v = qd.field(qd.f32, 3)

def static_of_run_time():
    k = n[None]
    if qd.static(k > 0):
        z[0] = 1

def static_range_of_run_time():
    for i in qd.static(range(n[None])):
        z[i] = 1

def static_function_fails():
    for i in qd.static(math.exp(1000)):
        z[i] = 1

def static_assertion():
    qd.static_assert(x.shape[0] == 3, "three particles")

def static_assertion_of_run_time():
    qd.static_assert(n[None] == 3)

def atomic_without_arguments():
    qd.atomic_add()

def atomic_by_keyword():
    qd.atomic_add(x=x[0], y=1)

def atomic_on_expression():
    qd.atomic_add(x[0] + 1, 2)

def atomic_on_index():
    for i in range(3):
        qd.atomic_add(i, 2)

def print_separator():
    print(1, 2, sep=n[None])

def print_to_file():
    print(1, file=2)

def print_field():
    print(x)

def config_without_keyword():
    qd.loop_config(32)

def config_unknown():
    qd.loop_config(threads=3)

def config_of_wrong_type():
    qd.loop_config(block_dim="many")

def config_of_wrong_number():
    qd.loop_config(serialize=False, lanes=12)

def config_of_three_colours():
    qd.loop_config(colours=3)

def config_of_run_time():
    qd.loop_config(lanes=n[None])

def config_quantised():
    qd.loop_config(bit_vectorize=True)

def grouped_number():
    for I in qd.grouped(n[None]):
        z[0] = 1

def grouped_by_two():
    for i, j in qd.grouped(g):
        z[0] = 1

def cas_of_real():
    qd.atomic_cas(x[0], 1.0, 2.0)

def cas_of_value():
    qd.atomic_cas(3, 1, 2)

def frexp_of_integer():
    m, e = qd.frexp(a[0])

@qd.func
def rising(n: qd.template()):
    return rising(n + 1)

def static_arguments_without_end():
    z[0] = rising(0)

def static_in_static():
    for i in qd.static(qd.static(range(3))):
        z[i] = 1

def real_literal_of_an_integer_dtype():
    z[0] = qd.i32(1.5)

@plain
def plain_change(v):
    v[0] = 5.0
    return v[1]

@plain
def plain_accumulation(v):
    for k in range(2):
        v[k] += 1.0
    return v[1]

@plain
def plain_new_value(v):
    w = v + 1.0
    w[0] = 5.0
    v = w
    return v[1]

def plain_function_changes_an_argument():
    v = qd.Vector([x[0], x[1]])
    z[0] = plain_change(v)

def plain_function_accumulates_into_an_argument():
    v = qd.Vector([x[0], x[1]])
    z[0] = plain_accumulation(v)

def plain_function_makes_a_new_value():
    v = qd.Vector([x[0], x[1]])
    z[0] = plain_new_value(v)

@plain
def plain_reduction(v):
    for k in range(2):
        v[0] += 1.0

def plain_function_reduces_into_an_argument():
    v = qd.Vector([x[0], x[1]])
    plain_reduction(v)

@qd.func
def both(a: qd.template(), b: qd.template()):
    a += 1.0
    b += 2.0

@qd.func
def second(a: qd.template(), b: qd.template()):
    b = a * 2.0

@qd.func
def only_read(a: qd.template(), b: qd.template()):
    return a + b

def one_local_by_two_references():
    v = x[0]
    both(v, v)

def a_local_and_its_element_by_reference():
    v = qd.Vector([x[0], x[1]])
    second(v[1], v[0])
    second(v.x, v[0])

def a_part_and_an_element_by_reference():
    v = qd.Vector([x[0], x[1]])
    for i in range(2):
        w = v * 1.0
        both(w[i], w[1 - i])
        both(w.xy, w[i])

def references_that_are_only_read():
    v = x[0]
    z[0] = only_read(v, v)

def static_test_of_a_tuple():
    if qd.static((n[None], 1)):
        z[0] = 1.0

@plain
def other():
    z[0] = 1.0


other.__qd_kernel__ = True


def kernel_that_is_launched_by_a_kernel():
    other()

from quadrants_lab.lang.buffer_view import BufferViewType

@qd.func
def first(v: BufferViewType(qd.f32)):
    return v[0]

def no_view():
    z[0] = first(x)

def makes_a_view():
    z[0] = BufferViewType(x)[0]

from quadrants_lab.lang.buffer_view import BufferView

view = struct(BufferView, (("arr", array(qd.f32, 1)), ("offset", scalar(qd.i32)), ("size", scalar(qd.i32))))

@kernel(view, view)
def chosen_view(v, w):
    u = v if n[None] > 0 else w
    z[0] = u[0]

@qd.func
def tasks():
    for i in x:
        z[i] = 1.0

tasks.requires_top_level = True

def tasks_in_a_loop():
    tasks()
    for i in range(2):
        tasks()
