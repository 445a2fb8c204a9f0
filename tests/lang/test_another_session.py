"""Several sessions at a time: which objects belong to which, two (simulated) GPUs, and what is refused."""

import numpy as np
import pytest
from child import together
from sessions import sessions  # noqa: F401  # registers what stands in for GPUs

import quadrants_lab as qd
from quadrants_lab.backends.cuda import driver
from quadrants_lab.runtime import session
from quadrants_lab.runtime.observe.observers import launching

stands_in = pytest.mark.skipif(not driver.probe(), reason="a device is here, which need not have a second beside it")

HOW = {"simulate": True, "enable_fallback": False, "offline_cache": False}


def init(arch):
    qd.init(arch=getattr(qd, arch), **HOW)


@qd.kernel
def squares(x: qd.template(), y: qd.template()):
    for i in x:
        y[None] += x[i] * x[i]

@qd.kernel
def scale(x: qd.types.ndarray(), k: float):
    for i in x:
        x[i] *= k


def fields(value):
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.fill(value)
    return x, y


def differentiate(x, y):
    with qd.ad.Tape(y):
        squares(x, y)
    return y[None], x.grad.to_numpy().tolist()


@stands_in
def test_two_gpus_at_a_time():
    init("cuda")
    here, other = fields(1.0), qd.another_session(qd.cuda, device=1, **HOW)
    with other:
        there = fields(2.0)
        assert session.current().device.driver.ordinal == 1
    for _ in range(3):
        assert differentiate(*here) == (4.0, [2.0] * 4)
        with other:
            assert differentiate(*there) == (16.0, [4.0] * 4)
    assert here[0]._memory.operand.device.driver.ordinal == 0
    assert there[0].to_numpy().tolist() == [2.0] * 4  # reading needs no with
    other.sync()


def test_a_kernel_is_compiled_once_a_session():
    init("cpu")
    x, y = fields(1.0)
    squares(x, y)
    plan = squares._variants.default[0].last
    other = qd.another_session(qd.cpu)
    with other:
        squares(*fields(2.0))
        assert squares._variants.default[0].last is not plan
    squares(x, y)
    assert squares._variants.default[0].last is plan
    assert len(squares._variants.default[0].plans) == 1


def test_fast_paths_are_there_again_after_another_session():
    init("cpu")
    x, y = fields(1.0)
    squares(x, y)
    dispatcher = squares._variants.default[0]
    fast = dispatcher.call
    other = qd.another_session(qd.cpu)
    with other:
        there = fields(2.0)
        squares(*there)
        fast_there = dispatcher.call
        assert fast_there is not fast
    squares(x, y)
    assert dispatcher.call is fast
    with other:
        squares(*there)
        assert dispatcher.call is fast_there
        squares(*there)
    squares(x, y)
    assert (y[None], there[1][None]) == (12.0, 48.0)


def test_an_observer_that_ends_within_another_session_leaves_it_its_fast_paths():
    """The fast paths of the session that it began in come back with that session, and do not replace those in use."""
    init("cpu")
    x, y = fields(1.0)
    squares(x, y)
    dispatcher = squares._variants.default[0]
    fast, other = dispatcher.call, qd.another_session(qd.cpu)
    launched_by_hand = launching("forward")
    launched_by_hand.__enter__()
    with other:
        there = fields(2.0)
        launched_by_hand.__exit__(None, None, None)
        squares(*there)
        fast_there = dispatcher.call
        assert fast_there is not fast
    squares(x, y)
    assert dispatcher.call is fast
    with other:
        squares(*there)
        assert dispatcher.call is fast_there
    assert (y[None], there[1][None]) == (8.0, 32.0)


@stands_in
@pytest.mark.parametrize("arch", ["cpu", "cuda"])
def test_fields_and_arrays_stay_in_their_session(arch):
    init(arch)
    x, y = fields(1.0)
    array, plain = qd.ndarray(qd.f32, 4), np.ones(4, np.float32)
    with qd.another_session(qd.cuda, device=1, **HOW):
        mine = qd.ndarray(qd.f32, 4)
        for given in (mine, plain):
            scale(given, 2.0)  # the second time by the short path
            scale(given, 2.0)
        with pytest.raises(qd.QuadrantsRuntimeError, match="field x, which kernel squares uses, belongs to another"):
            squares(x, y)
        for _ in range(2):
            with pytest.raises(qd.QuadrantsRuntimeError, match=r"argument 'x' of scale belongs to another"):
                scale(array, 2.0)
    assert plain.tolist() == [4.0] * 4


def test_what_is_refused():
    init("cpu")
    x, y = fields(1.0)
    other = qd.another_session(qd.cpu)
    with qd.ad.Tape(y):
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2004"), other:
            pass
        squares(x, y)
    assert x.grad.to_numpy().tolist() == [2.0] * 4
    other.close()
    with pytest.raises(qd.QuadrantsRuntimeError, match="the session is closed"), other:
        pass
    with pytest.raises(qd.QuadrantsRuntimeError, match="device=1, and .* has one device here"):
        qd.init(arch=qd.cpu, device=1)
    assert y[None] == 4.0  # a refused init ends nothing


def test_two_threads_cannot_be_within_sessions_at_a_time():
    """The first block that ended closed the session of the other thread."""
    init("cpu")
    first, second = (qd.another_session(qd.cpu, **HOW) for _ in range(2))

    def enter():
        with second:
            assert qd.field(qd.f32, 1)[0] == 0.0

    with first, first:
        with pytest.raises(qd.QuadrantsRuntimeError, match="another thread is within"):
            together(enter)
    together(enter)

def test_init_within_ends_the_other_alone():
    init("cpu")
    x, y = fields(1.0)
    with qd.another_session(qd.cpu):
        qd.init(arch=qd.cpu)
        squares(*fields(3.0))
    squares(x, y)
    assert y[None] == 4.0


def test_each_session_has_its_profiler():
    """QL2004 spoke of a Tape where a session with a profiler was, and what began within went on behind it."""
    qd.init(arch=qd.cpu, kernel_profiler=True)
    here, counted = fields(1.0), lambda: qd.profiler.query_kernel_profiler_info("squares").counter
    squares(*here)
    plain, profiled = qd.another_session(qd.cpu), qd.another_session(qd.cpu, kernel_profiler=True)
    with plain:
        squares(*fields(1.0))
        qd.init(arch=qd.cpu, kernel_profiler=True)
        for _ in range(3):
            squares(*fields(1.0))
        assert counted() == 3
    assert counted() == 1
    for n in range(2):
        with profiled:
            squares(*fields(1.0))
            assert counted() == n + 1
    squares(*here)
    assert counted() == 2
    with qd.ad.Tape(here[1]):
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2004"), profiled:
            pass
        squares(*here)
    assert here[0].grad.to_numpy().tolist() == [2.0] * 4
    assert counted() == 3


def test_an_error_of_what_init_within_left_behind_keeps_the_outer_session():
    init("cpu")
    x, y = fields(1.0)

    def late():
        raise qd.QuadrantsRuntimeError("late")

    def within():
        with qd.another_session(qd.cpu):
            qd.init(arch=qd.cpu)
            session.current().end = late

    with pytest.raises(qd.QuadrantsRuntimeError, match="late"):
        within()
    squares(x, y)
    assert y[None] == 4.0
