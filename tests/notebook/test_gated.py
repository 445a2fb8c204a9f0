"""A gradient that ran as two kernels, one for the iterations that push: the panes show these two."""

import pytest

import quadrants_lab as qd
from quadrants_lab.notebook import show
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.notebook.compare import compare
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets.panes import render


@pytest.mark.parametrize("threshold", [1, 1 << 30])
def test_the_panes_show_what_ran(threshold: int) -> None:
    qd.init(arch=qd.metal, simulate=True, offline_cache=False, ad_stack_sparse_threshold_bytes=threshold)
    x, y = qd.field(qd.f32, 64, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def rare(n: qd.i32):
        for i in x:
            if x[i] > 0.9:
                v = x[i]
                for _ in range(n):
                    v = qd.sin(v)
                y[None] += v

    x[7] = 0.95
    rare(5)
    y.grad[None] = 1
    rare.grad(5)
    view = show(rare).view.kernels[0]
    apart = threshold == 1
    assert ("gated" in view.traces) == apart
    assert ("rows0" in rare.grad.code("msl")) == apart
    shown = {stage.name: stage for stage in view.code["gradient"]}
    assert ("rows0" in str(shown["msl"].make())) == apart
    assert "rows0" not in str(shown["spirv"].make())  # nothing ran there


@pytest.mark.parametrize("threshold", [1, 1 << 30])
def test_a_comparison_says_that_it_ran_otherwise(threshold: int) -> None:
    qd.init(arch=qd.metal, simulate=True, offline_cache=False, ad_stack_sparse_threshold_bytes=threshold)
    x, y = qd.field(qd.f32, 64, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def rare():
        for i in x:
            if x[i] > 0.9:
                v = x[i]
                for _ in range(5):
                    v = qd.sin(v)
                y[None] += v

    x[7] = 0.95
    with recording() as recorder:
        rare()
        y.grad[None] = 1
        rare.grad()
    records = recorder.records()
    view = cell_view("", recorder, compare(records, ("metal", "c")))
    assert render(view, "0/stacks").count("ran separately") == (threshold == 1)
