"""The doctor moves inputs. Values that a program is not made for must not lead it out of its arrays."""

import numpy as np
import pytest
from sessions import ended, skips  # noqa: F401  # a fixture

import quadrants_lab as qd

ARCHS = [pytest.param("cpu"), pytest.param("vulkan", marks=skips("vulkan"))]


@qd.kernel
def sorted_into(x: qd.template(), bins: qd.types.ndarray(dtype=qd.i32, ndim=1), loss: qd.template()):
    for i in x:
        at = qd.cast(qd.floor((x[i] + 1.0) * 2.5), qd.i32)
        qd.atomic_add(bins[at], 1)
        loss[None] += x[i] * x[i]


def start(arch: str, values: list[float]):
    qd.init(arch=arch, default_fp=qd.f64)
    x, loss = qd.field(qd.f64, len(values), needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    x.from_numpy(np.array(values))
    return x, loss


def test_steps_out_of_bounds_are_left_out() -> None:
    x, loss = start("cpu", [-0.999, -0.3, 0.2, 0.999])
    memory = np.full(40, 77, np.int32)  # the bins stand in the middle: what leaves them meets the rest
    bins = memory[15:20]
    bins[:] = 0
    report = qd.ad.check(lambda: sorted_into(x, bins, loss), loss, {"x": x})
    assert report.right, str(report)
    steps = [m.relative for m in report["x"].moves]
    assert 0.1 not in steps
    assert 1e-5 in steps
    assert (np.delete(memory, range(15, 20)) == 77).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_where_every_step_leaves_the_gradient_is_judged_by_forward_mode(arch) -> None:
    x, loss = start(arch, [-1.0, -0.3, 0.2])
    bins = qd.ndarray(qd.i32, 5)
    report = qd.ad.check(lambda: sorted_into(x, bins, loss), loss, {"x": x})
    assert "out of bounds" in report["x"].says
    assert report["x"].tangent is not None
    assert report["x"].tangent.error < 1e-12
    assert not report["x"].moves


@pytest.mark.parametrize("arch", ARCHS)
def test_an_input_out_of_bounds_without_a_step_is_reported(arch) -> None:
    x, loss = start(arch, [0.5, 1.0])
    bins = qd.ndarray(qd.i32, 5)
    report = qd.ad.check(lambda: sorted_into(x, bins, loss), loss, {"x": x})
    assert not report.right
    assert "ends with an error" in report.says
    assert any("out of bounds" in c.says and "qd.atomic_add(bins[at], 1)" in c.statement for c in report.causes)


@pytest.mark.filterwarnings("error")
def test_where_every_slope_is_infinite_only_the_verdict_says_so() -> None:
    x, loss = start("cpu", [0.5] * 4)
    @qd.kernel
    def roots():
        for i in x:
            loss[None] += qd.sqrt(x[i] - 0.5)
    assert qd.ad.check(roots, loss)["x"].kind == "nonfinite"
