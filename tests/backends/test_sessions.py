"""Sessions: many launches, many sessions one after the other, two devices at once."""

import gc
import resource
from typing import Any
from weakref import ref

import numpy as np
import pytest
from oracle.sines import slopes
from rigs import parallel
from sessions import NIGHT, in_turn, sessions

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime import session

WHERE = in_turn(sessions("cpu", "cuda", "vulkan", "metal", "wasm"))


@pytest.fixture(params=WHERE)
def where(request: pytest.FixtureRequest) -> Any:
    yield request.param
    qd.reset()


def sines(size: int = 8) -> Any:
    """A kernel whose gradient pushes a value in each trip, and its fields."""
    x = qd.field(qd.f32, size, needs_grad=True)
    y = qd.field(qd.f32, (), needs_grad=True)
    n = qd.field(qd.i32, ())

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v) + 0.1
            y[None] += v

    return k, x, y, n


def test_ten_thousand_launches_without_growth(where: Any) -> None:
    qd.init(**where)
    k, _, y, n = sines()
    n[None], y.grad[None] = 3, 1.0
    def most(rounds: int) -> int:
        for _ in range(rounds):
            k()
            k.grad()
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = most(500)
    assert most(5000) - before < 2000, "KiB"


def test_many_sessions_one_after_the_other(where: Any) -> None:
    most, last = [], 59 if NIGHT else 29
    gc.collect()
    for n_th in range(last + 1):
        qd.init(**where)
        k, x, y, n = sines()
        n[None], y.grad[None] = 2, 1.0
        k.grad()
        np.testing.assert_allclose(x.grad.to_numpy(), slopes(np.zeros(8), 2, plus=0.1), rtol=1e-5)
        qd.reset()
        gc.collect()
        if n_th in (last // 3, last):
            most.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert most[1] - most[0] < 13_000, "KiB"


def test_a_session_that_ended_leaves_its_device(where: Any) -> None:
    """Kernels, gradients, Tapes, fields and arrays that the program still has do not keep it; code and IR stay."""
    qd.init(**where)
    k, x, y, n = sines()
    a, h = qd.ndarray(qd.f32, 8, needs_grad=True), np.ones(8, np.float32)

    @qd.kernel
    def squares():
        for i in x:
            x[i] = x[i] * x[i]

    @qd.kernel
    def add(a: qd.types.ndarray(qd.f32, 1)):
        for i in a:
            y[None] += a[i] * a[i]

    @qd.ad.program
    def both():
        squares()
        k()

    n[None], y.grad[None] = 2, 1.0
    tape = qd.ad.Tape(y)
    for _ in range(5):
        both()
        k.grad()
        k.value_and_grad()
        add(h)
        with tape:
            squares()
            squares()
            k()
            add(a)
    assert y[None] != 0.0
    kernels = k, k.grad, k.value_and_grad, squares, add
    before = [(f.code(), f.ir(), f.schedule()) for f in kernels]
    held = x, a, tape
    device = session.current().device
    gone = [ref(device), *(ref(one) for one in [getattr(device, "logical", None)] if one is not None)]
    del device
    qd.reset()
    gc.collect()
    assert [of() for of in gone] == [None] * len(gone)
    assert [(f.code(), f.ir(), f.schedule()) for f in kernels] == before
    assert all("error" not in repr(one) for one in held)
    assert len(tape.report.steps) == 4
    with pytest.raises(QuadrantsRuntimeError, match="QL2001"):
        x.to_numpy()


def test_two_devices_at_once() -> None:
    """Memory and launches of a Vulkan and a Metal device in turn; each kernel sees its own fields."""
    from rigs import metal_rig, vulkan_rig
    source = parallel(
        "const 64",
        """%4: f32 = load @x[%3]
        %5: f32 = add %4, %4
        store @x[%3], %5""",
        "buffer @x: field f32[64]",
    )
    arrays = [{"x": np.full(64, v, np.float32)} for v in (1, 10, 100)]
    bounds = [vulkan_rig.bind(vulkan_rig.load(source), a, on=vulkan_rig.fresh()) for a in arrays[:2]]
    bounds.append(metal_rig.bind(metal_rig.load(source), arrays[2], on=metal_rig.fresh()))
    for _ in range(3):
        assert [b.launch() for b in bounds] == [0, 0, 0]
    assert [set(a["x"].tolist()) for a in arrays] == [{8}, {80}, {800}]
