"""A gradient starts from the first stages of its forward kernel, whatever names mean by then."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any
from weakref import ref

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.runtime.compile import compile as compiler

FACTOR = 3.0


class Holder:
    def __init__(self, x: Any) -> None:
        self.x = x


@pytest.fixture(autouse=True, params=[False, True], ids=["without a disk cache", "with one"])
def session(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=request.param, offline_cache_file_path=str(tmp_path))
    yield
    qd.reset()


@pytest.fixture
def fronts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that went through the front end."""
    names: list[str] = []
    lower = compiler.lower

    def counted(source: Any, *more: Any) -> Any:
        names.append(source.name)
        return lower(source, *more)

    monkeypatch.setattr(compiler, "lower", counted)
    return names


def scalars(n: int) -> list[Any]:
    return [qd.field(qd.f32, shape=(), needs_grad=True) for _ in range(n)]


def gradient(kernel: Any) -> None:
    kernel.grad()


def under_a_tape(kernel: Any) -> None:
    with qd.ad.Tape(kernel.loss):
        kernel()


def value_and_gradient(kernel: Any) -> None:
    kernel.value_and_grad()


WAYS = pytest.mark.parametrize("way", [gradient, under_a_tape, value_and_gradient])


@WAYS
def test_a_name_that_means_another_number_by_then(fronts: list[str], monkeypatch: pytest.MonkeyPatch, way: Any) -> None:
    x, y = scalars(2)
    @qd.kernel
    def times() -> None:
        y[None] = x[None] * FACTOR
    times.loss = y
    x[None] = 1.0
    times()
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    y.grad[None] = 1.0
    way(times)
    assert (y[None], x.grad[None]) == (3.0, 3.0)
    assert fronts == ["times"]


def validated(kernel: Any) -> None:
    with qd.ad.Tape(kernel.loss, validation=True):
        kernel()


def without_derivatives(kernel: Any) -> None:
    @qd.ad.no_grad
    def launched() -> None:
        kernel()

    with qd.ad.Tape(kernel.loss):
        launched()


def forward_mode(kernel: Any) -> None:
    with qd.ad.FwdMode(kernel.loss, kernel.x, seed=[1.0]):
        kernel()


def checked(kernel: Any) -> None:
    kernel.loss[None] = 0.0
    qd.ad.check(kernel, kernel.loss, kernel.x).raise_if_wrong()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("way", [validated, without_derivatives, forward_mode, checked])
def test_numbers_of_other_modes_and_checks(monkeypatch: pytest.MonkeyPatch, way: Any, first: bool) -> None:
    """The mode that is compiled first captures the names: numbers, functions, and what changes in place."""
    powers, vector = ([2.0],), qd.Vector([10.0])
    pair = qd.types.struct(a=qd.f32)(1.0)
    doubled: Any = lambda v: 2.0 * v
    x = qd.field(qd.f32, shape=(), needs_grad=True, needs_dual=True)
    y = qd.field(qd.f32, shape=(), needs_grad=True, needs_dual=True)

    @qd.kernel
    def times() -> None:
        y[None] += doubled(x[None]) * FACTOR * qd.static(powers[0][0]) * vector[0] * pair.a

    times.loss, times.x, x[None] = y, x, 1.0
    way(times) if first else times()
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    powers[0][0], vector[0], pair.a = 7.0, 100.0, 5.0
    doubled = lambda v: v
    gc.collect()
    y[None] = 0.0
    times() if first else way(times)
    assert y[None] == 120.0


@WAYS
def test_a_name_that_means_another_field_of_the_same_kind(fronts: list[str], way: Any) -> None:
    a, b, y = scalars(3)
    held = Holder(a)
    @qd.kernel
    def add() -> None:
        y[None] += held.x[None]
    add.loss = y
    add()
    held.x = b
    y.grad[None] = 1.0
    way(add)
    assert (a.grad[None], b.grad[None]) == (1.0, 0.0)
    assert fronts == ["add"]


def test_another_number_after_a_launch_from_the_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = scalars(2)

    @qd.kernel
    def times() -> None:
        y[None] = x[None] * FACTOR

    def gradient_by(factor: float) -> float:
        monkeypatch.setitem(globals(), "FACTOR", 3.0)
        times()
        monkeypatch.setitem(globals(), "FACTOR", factor)
        x.grad[None], y.grad[None] = 0.0, 1.0
        times.grad()
        return x.grad[None]

    options = {"offline_cache": qd.cfg.offline_cache, "offline_cache_file_path": qd.cfg.offline_cache_file_path}
    assert gradient_by(5.0) == 3.0
    for factor in (3.0, 5.0):
        qd.init(arch=qd.cpu, **options)
        x, y = scalars(2)
        assert gradient_by(factor) == 3.0


def test_a_vector_of_numbers(fronts: list[str]) -> None:
    x, y = scalars(2)
    factors = qd.Vector([2.0, 3.0])
    @qd.kernel
    def times() -> None:
        y[None] = x[None] * factors[1]
    times()
    y.grad[None] = 1.0
    times.grad()
    assert x.grad[None] == 3.0
    assert fronts == ["times"]


def test_a_kernel_keeps_no_captured_object_alive() -> None:
    x, y = scalars(2)
    held = Holder(2.0)
    @qd.kernel
    def times() -> None:
        y[None] = x[None] * held.x
    times()
    y.grad[None] = 1.0
    times.grad()
    gone = ref(held)
    held = Holder(3.0)
    times()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_kernel_keeps_no_object_in_a_captured_list_alive(kind: Any) -> None:
    x, y = scalars(2)
    held = kind([Holder(2.0)])
    @qd.kernel
    def times() -> None:
        y[None] = x[None] * qd.static(held[0].x)
    times()
    gone = ref(held[0])
    held = kind([Holder(3.0)])
    times()
    gc.collect()
    assert gone() is None


def test_a_captured_list_is_one_object() -> None:
    """Two names of a list mean one list in every mode, and it may hold itself."""
    x, y = scalars(2)
    held: list[Any] = [2.0]
    held.append(held)
    same = held
    @qd.kernel
    def times() -> None:
        y[None] = x[None] * (qd.static(held[0]) if qd.static(held is held and held is same) else 0.0)
    x[None] = 1.0
    for way in (lambda _: times(), without_derivatives):
        times.loss = y
        way(times)
        assert y[None] == 2.0


def test_a_large_captured_array_is_not_copied() -> None:
    x, y = scalars(2)
    large = np.zeros(1 << 24, np.float32)
    @qd.kernel
    def times() -> None:
        y[None] = x[None] * qd.static(large.shape[0])
    tracemalloc.start()
    times()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < large.nbytes


def test_a_kernel_in_another_mode_of_checks(fronts: list[str]) -> None:
    """Stages are shared only between kernels with the same options."""
    x, y = scalars(2)
    @qd.kernel
    def double() -> None:
        y[None] = 2.0 * x[None]
    double()
    qd.reset()
    qd.init(arch=qd.cpu, debug=True)
    x, y = scalars(2)
    y.grad[None] = 1.0
    double()
    double.grad()
    assert x.grad[None] == 2.0
    assert fronts == ["double", "double"]


def test_warnings_of_the_launch_are_repeated_by_the_gradient() -> None:
    x, y = scalars(2)
    @qd.kernel
    def rounded() -> None:
        n = 1
        n = x[None] * 0.5
        y[None] = x[None] * n
    with pytest.warns(qd.QuadrantsWarning) as launched:
        rounded()
    with pytest.warns(qd.QuadrantsWarning) as of_gradient:
        rounded.grad()
    assert {str(w.message) for w in launched} <= {str(w.message) for w in of_gradient}
