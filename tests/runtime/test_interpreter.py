"""The reference interpreter on hand-written IR: adstacks, bounds, failures, draws. Control flow is judged by the
oracle, program by program (`test_differential`)."""

import numpy as np
import pytest
from conformance.tasks import serial
from rigs import parallel

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import draws, nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import f64
from quadrants_lab.runtime.interpret.interpreter import OutOfBounds, interpret

A = "buffer @a: field f32[2x3]"
STACKED = serial("""adstack_alloca $1: f64 'v' primal %6 reason "test"
    %2: i32 = const 0
    %3: i32 = const 5
    %4: f64 = const 0.0
    for %5: i32 in %2..%3 {
      %6: f64 = cast %5
      adstack_push $1, %6
      yield
    }
    adstack_guard {
      for reversed %7: i32 in %2..%3 carry (%8: f64 = %4) {
        %9: f64 = adstack_load_top $1
        adstack_pop $1
        %10: f64 = cast %7
        %11: f64 = mul %9, %10
        %12: f64 = add %8, %11
        yield %12
      } -> (%13: f64)
      store @out[], %13
      yield
    }""", "buffer @out: field f64[]")


def over(body: str, buffers: str = A) -> N.Kernel:
    """A loop over the 2x3 elements of a, %3 and %4."""
    return parse_kernel(f"""kernel k() forward {{
      {buffers}
      offload struct_for bounds {{
        %0: i32 = const 0
        %1: i32 = const 2
        %2: i32 = const 3
        yield %0, %0, %1, %2
      }} do (%3: i32 'i', %4: i32 'j') {{
        {body}
        store @a[%3, %4], %9
        yield
      }}
    }}""")


def test_adstacks_count_and_overflow():
    """The kernel pushes 0 to 4, then sums what it pops, weighted by the order of popping."""
    kernel, stack, out = parse_kernel(STACKED), 1, np.full((), -1.0)
    result = interpret(kernel, {}, {"out": out})
    assert out == sum(k * k for k in range(5))
    assert result.depth == {stack: 5}
    assert result.pushes == {stack: {(): 5}}
    assert result.overflow is None
    out[()] = -1.0
    result = interpret(kernel, {}, {"out": out}, caps={stack: 4})
    assert result.overflow == (stack, ())
    assert result.depth == {stack: 5}
    assert out == -1.0  # the reverse was skipped
    interpret(kernel, {}, {"out": out}, caps={stack: 5})
    assert out == 30.0


@pytest.mark.parametrize(("body", "buffers", "error", "says"), [
    ('%1: f64 = const 0.0\nadstack_alloca $2: f64 primal %1 reason "test"\nadstack_pop $2', "",
     QuadrantsRuntimeError, "empty"),
    ("%1: i32 = const -1\n%2: f32 = load @a[%1]", "buffer @a: field f32[4]",
     OutOfBounds, r"\[-1\] is outside 'a' of shape \(4,\)"),
])  # fmt: skip
def test_what_no_kernel_may_do_is_an_error(body, buffers, error, says):
    with pytest.raises(error, match=says) as info:
        interpret(parse_kernel(serial(body, buffers)), {}, {"a": np.zeros(4, np.float32)} if buffers else {})
    assert isinstance(info.value, IndexError) == (error is OutOfBounds)


def test_a_task_runs_over_the_box_of_its_indices_in_f32():
    kernel = over("%5: i32 = sub %3, %4\n%6: f32 = cast %5\n%9: f32 = sin %6")
    a, seen = np.zeros((2, 3), np.float32), []
    interpret(kernel, {}, {"a": a}, observer=lambda s, v, _: seen.append((type(s).__name__, v)))
    i, j = np.indices((2, 3))
    np.testing.assert_array_equal(a, np.sin((i - j).astype(np.float32)))
    assert [v for name, v in seen if name == "Offload"] == [(x, y) for x in range(2) for y in range(3)]
    assert [v for name, v in seen if name == "Store"] == list(a.ravel())


def test_denormals_flush():
    kernel = over(f"%5: f32 = const {2.0**-100!r}\n%6: f32 = const {-(2.0**-40)!r}\n%9: f32 = mul %5, %6")
    a = np.ones((2, 3), np.float32)
    interpret(kernel, {}, {"a": a})
    assert (a == 0).all()
    assert np.signbit(a).all()


@pytest.mark.parametrize(("given", "says"), [
    ({"a": np.zeros((2, 3))}, "float64"), ({"a": np.zeros((3, 2), np.float32)}, "shape"), ({}, "no array"),
])  # fmt: skip
def test_a_wrong_array_is_refused(given, says):
    with pytest.raises(QuadrantsRuntimeError, match=says):
        interpret(over("%9: f32 = const 1.0"), {}, given)


def test_an_assert_ends_its_iteration_and_the_tasks_that_follow():
    body = """%4: i32 = const 2
        %5: u1 = ne %3, %4
        assert assert %5, "i is {}" (%3)
        %6: i32 = const 1
        %7: i32 = atomic add @a[%3], %6"""
    one = parse_kernel(parallel("const 4", body, "buffer @a: field i32[4]"))
    (task,) = one.body
    array = np.zeros(4, np.int32)
    result = interpret(N.Kernel("k", (), one.buffers, (task, task), one.next_id), {}, {"a": array})
    assert (result.failure.message, result.failure.lane) == ("i is 2", (2,))
    assert list(array) == [1, 1, 0, 1]


def test_temporaries_returns_arguments_prints_and_atomics():
    body = """%1: f64 = arg c
        %2: f64 = atomic add @t[], %1
        %3: f64 = atomic mul @t[], %1
        %4: f64 = atomic max @t[], %1
        %5: f64 = atomic sub @t[], %1
        %6: f64 = atomic exchange @t[], %1
        %7: u1 = isnan %6
        print "old ", %6, " ", %7, "\\n"
        %8: f64 = load @t[]
        %9: f64 = add %6, %8
        store @ret0[], %9"""
    kernel = parse_kernel(serial(body, "buffer @t: temp f64[]\nbuffer @ret0: ret f64[]", "c: f64"))
    result = interpret(kernel, {"c": 3.0})
    assert result.rets == {"ret0": 9.0}
    assert result.prints == ["old 6.0 False\n"]


def test_random_draws_depend_on_where_they_stand():
    kernel = over("%7: f64 = random 7\n%8: f64 = random 7\n%9: f64 = mul %7, %8", "buffer @a: field f64[2x3]")
    array = np.zeros((2, 3))
    interpret(kernel, {}, {"a": array}, random=(5, 9))
    drawn = [[draws.value(f64, draws.draw(5, 9, n, 7, k)) for k in range(2)] for n in range(6)]
    np.testing.assert_array_equal(array.ravel(), np.prod(drawn, axis=1))
