"""The reference interpreter on hand-written IR: adstacks, bounds, failures, draws. Control flow is judged by the
oracle, program by program (`test_differential`)."""

from dataclasses import replace

import numpy as np
import pytest

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import draws, nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import f32, f64, i32, u1
from quadrants_lab.runtime.interpret.interpreter import OutOfBounds, interpret


def field(name, dtype, *shape, grad=""):
    return N.Buffer(name, "field", dtype, len(shape), shape, grad)


def serial(b, body, buffers, args=()):
    bounds = (N.Yield(b.fresh(), ()),)
    task = N.Offload(b.fresh(), "serial", bounds, (), tuple(body))
    return N.Kernel("k", tuple(args), {x.name: x for x in buffers}, (task,), b.next_id)


def stacked(n):
    """Pushes 0, 1, ..., n-1, then sums what it pops weighted by the order of popping."""
    b, out = Builder(0), field("out", f64)
    with b.block() as body:
        stack = b.add(N.AdStackAlloca(b.fresh(), f64, name="v"))
        zero, count, none = b.const(0, i32), b.const(n, i32), b.const(0, f64)
        j = b.param(i32, "j")
        with b.block() as push:
            b.add(N.AdStackPush(b.fresh(), stack, b.cast(j.id, f64)))
            b.yield_()
        b.add(N.For(b.fresh(), j, zero, count, (), (), tuple(push), ()))
        with b.block() as guarded:
            k, s = b.param(i32, "k"), b.param(f64, "s")
            with b.block() as pop:
                top = b.add(N.AdStackLoadTop(b.fresh(), f64, stack))
                b.add(N.AdStackPop(b.fresh(), stack))
                b.yield_(b.op("add", s.id, b.op("mul", top, b.cast(k.id, f64))))
            r = b.param(f64)
            loop = N.For(b.fresh(), k, zero, count, (s,), (none,), tuple(pop), (r,), reverse=True)
            b.add(loop)
            b.store(out, (), r.id)
            b.yield_()
        b.add(N.AdStackGuard(b.fresh(), tuple(guarded)))
        b.yield_()
    return serial(b, body, [out]), stack


def test_adstacks_count_and_overflow():
    kernel, stack = stacked(5)
    out = np.full((), -1.0)
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


def test_a_pop_of_an_empty_stack_is_an_error():
    b = Builder(0)
    with b.block() as body:
        stack = b.add(N.AdStackAlloca(b.fresh(), f64))
        b.add(N.AdStackPop(b.fresh(), stack))
        b.yield_()
    with pytest.raises(QuadrantsRuntimeError, match="empty"):
        interpret(serial(b, body, []))


def parallel(store_value):
    """for i, j in 2x3: a[i, j] = store_value(builder, i, j), a is f32."""
    b, a = Builder(0), field("a", f32, 2, 3)
    i, j = b.param(i32, "i"), b.param(i32, "j")
    with b.block() as bounds:
        zero = b.const(0, i32)
        b.yield_(zero, zero, b.const(2, i32), b.const(3, i32))
    with b.block() as body:
        b.store(a, (i.id, j.id), store_value(b, i.id, j.id))
        b.yield_()
    task = N.Offload(b.fresh(), "struct_for", tuple(bounds), (i, j), tuple(body))
    return N.Kernel("k", (), {"a": a}, (task,), b.next_id)


def test_a_task_runs_over_the_box_of_its_indices_in_f32():
    kernel = parallel(lambda b, i, j: b.op("sin", b.cast(b.op("sub", i, j), f32)))
    a = np.zeros((2, 3), np.float32)
    seen = []
    interpret(kernel, {}, {"a": a}, observer=lambda s, v, _: seen.append((type(s).__name__, v)))
    i, j = np.indices((2, 3))
    np.testing.assert_array_equal(a, np.sin((i - j).astype(np.float32)))
    assert [v for name, v in seen if name == "Offload"] == [(x, y) for x in range(2) for y in range(3)]
    assert [v for name, v in seen if name == "Store"] == list(a.ravel())


def test_denormals_flush():
    kernel = parallel(lambda b, i, j: b.op("mul", b.const(2.0**-100, f32), b.const(-(2.0**-40), f32)))
    a = np.ones((2, 3), np.float32)
    interpret(kernel, {}, {"a": a})
    assert (a == 0).all()
    assert np.signbit(a).all()


def test_out_of_bounds_names_buffer_and_index():
    b, a = Builder(0), field("a", f32, 4)
    with b.block() as body:
        b.load(a, (b.const(-1, i32),))
        b.yield_()
    with pytest.raises(OutOfBounds, match=r"\[-1\] is outside 'a' of shape \(4,\)") as info:
        interpret(serial(b, body, [a]), {}, {"a": np.zeros(4, np.float32)})
    assert isinstance(info.value, IndexError)


def test_a_wrong_array_is_refused():
    kernel = parallel(lambda b, i, j: b.const(1, f32))
    with pytest.raises(QuadrantsRuntimeError, match="float64"):
        interpret(kernel, {}, {"a": np.zeros((2, 3))})
    with pytest.raises(QuadrantsRuntimeError, match="shape"):
        interpret(kernel, {}, {"a": np.zeros((3, 2), np.float32)})
    with pytest.raises(QuadrantsRuntimeError, match="no array"):
        interpret(kernel, {}, {})


def test_an_assert_ends_its_iteration_and_the_tasks_that_follow():
    b, a = Builder(0), field("a", i32, 4)
    i = b.param(i32, "i")
    with b.block() as bounds:
        b.yield_(b.const(0, i32), b.const(4, i32))
    with b.block() as body:
        b.add(N.Assert(b.fresh(), b.op("ne", i.id, b.const(2, i32)), "i is {}", (i.id,)))
        b.atomic("add", a, (i.id,), b.const(1, i32))
        b.yield_()
    task = N.Offload(b.fresh(), "range_for", tuple(bounds), (i,), tuple(body))
    kernel = N.Kernel("k", (), {"a": a}, (task, replace(task, id=b.fresh())), b.next_id)
    array = np.zeros(4, np.int32)
    result = interpret(kernel, {}, {"a": array})
    assert (result.failure.message, result.failure.lane) == ("i is 2", (2,))
    assert list(array) == [1, 1, 0, 1]


def test_temporaries_returns_arguments_prints_and_atomics():
    b = Builder(0)
    temp, ret = N.Buffer("t", "temp", f64, 0, ()), N.Buffer("ret0", "ret", f64, 0, ())
    with b.block() as body:
        c = b.add(N.ArgLoad(b.fresh(), f64, "c"))
        for op in ("add", "mul", "max", "sub"):
            b.atomic(op, temp, (), c)
        old = b.atomic("exchange", temp, (), c)
        flag = b.op("isnan", old)
        b.add(N.Print(b.fresh(), ("old ", old, " ", flag, "\n")))
        b.store(ret, (), b.op("add", old, b.load(temp, ())))
        b.yield_()
    assert b.types[flag] is u1
    result = interpret(serial(b, body, [temp, ret], [N.Arg("c", f64)]), {"c": 3.0})
    assert result.rets == {"ret0": 9.0}
    assert result.prints == ["old 6.0 False\n"]


def test_random_draws_depend_on_where_they_stand():
    b, a = Builder(0), field("a", f64, 3, 2)
    i = b.param(i32, "i")
    with b.block() as bounds:
        b.yield_(b.const(1, i32), b.const(3, i32))
    with b.block() as body:
        for k in range(2):
            b.store(a, (i.id, b.const(k, i32)), b.add(N.Random(b.fresh(), f64, 7)))
        b.yield_()
    task = N.Offload(b.fresh(), "range_for", tuple(bounds), (i,), tuple(body))
    kernel = N.Kernel("k", (), {"a": a}, (task,), b.next_id)
    array = np.zeros((3, 2))
    interpret(kernel, {}, {"a": array}, random=(5, 9))
    want = [[draws.value(f64, draws.draw(5, 9, n, 7, k)) for k in range(2)] for n in range(2)]
    np.testing.assert_array_equal(array, [[0, 0], *want])
