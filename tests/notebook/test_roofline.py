"""The least work of a launch, counted from its IR, and how the Run pane shows it."""


import re

import numpy as np
import pytest
from sessions import sessions

import quadrants_lab as qd
from quadrants_lab.notebook.collect import EDITS, cell_view, remember_edit
from quadrants_lab.notebook.roofline import FUNCTION, MOST_STEPS, limits, roofline, sizes_of, work_of
from quadrants_lab.runtime.record.launch_data import launch_data
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets.model import ONLY_READY, NotReady, RooflineView
from quadrants_lab.widgets.pack import small_answers
from quadrants_lab.widgets.panes import render
from quadrants_lab.widgets.roofline import chart
from quadrants_lab.widgets.tree import GREY

N = 1000


@pytest.fixture(params=sessions("cpu", "vulkan"))
def arch(request):
    qd.init(**request.param)


def counted(launch):
    """The records of the launches that ``launch`` makes, and the counted work of each."""
    with recording() as recorder:
        launch()
    records = recorder.records()
    return records, [work_of(launch_data(r)) for r in records]


def test_bytes_and_operations(arch):
    x, y, n = qd.field(qd.f32, N), qd.field(qd.f32, N), qd.field(qd.i32, N)

    @qd.kernel
    def saxpy():
        for i in x:
            y[i] = 2.0 * x[i] + y[i]

    @qd.kernel
    def waves():
        for i in x:
            for _ in range(n[i]):
                x[i] = qd.sin(x[i]) + 1.0

    n.from_numpy(np.full(N, 3, np.int32))
    (record, _), (work, deep) = counted(lambda: (saxpy(), waves()))
    assert work.read == pytest.approx({"x": 4 * N, "y": 4 * N})
    assert work.written == pytest.approx({"y": 4 * N})
    assert work.operations == pytest.approx(2 * N)
    assert work.moved(sizes_of(record)) == pytest.approx(12 * N)
    assert deep.operations == pytest.approx(3 * N * (FUNCTION + 1))
    assert deep.moved({"x": 4 * N, "n": 4 * N}) == pytest.approx(12 * N)  # what is touched again is there


def test_a_gradient_has_stacks_and_atomics(arch):
    x = qd.field(qd.f32, N, needs_grad=True)
    y = qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def power(n: int):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = v * v
            y[None] += v

    def both():
        power(4)
        y.grad[None] = 1
        power.grad(4)

    _, (forward, back) = counted(both)
    assert forward.operations == pytest.approx(5 * N)
    assert back.written[""] == back.read[""] == pytest.approx(4 * 4 * N)
    assert back.written["x.grad"] == pytest.approx(4 * N)
    assert back.operations > forward.operations


def test_several_tasks_and_data_too_large_to_copy(arch):
    x, y = qd.field(qd.f32, 1 << 22), qd.field(qd.f32, 1 << 22)
    @qd.kernel
    def two():
        for i in x:
            x[i] = 1.0 + i
        for i in x:
            y[i] = x[i] * 2.0
    _, (work,) = counted(two)
    assert work.written == pytest.approx({"x": 4 << 22, "y": 4 << 22})
    assert work.read == pytest.approx({"x": 4 << 22})


def test_uncountable_work_is_reported():
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, 4)
    @qd.kernel
    def long():
        for i in x:
            for _ in range(MOST_STEPS):
                x[i] += 1.0
    (record,) = counted_records(long)
    view = roofline(launch_data(record), sizes_of(record), 1.0, record.plan.session)
    assert "steps, which are not counted" in view.problem


def counted_records(launch):
    with recording() as recorder:
        launch()
    return recorder.records()


def test_the_limits_are_a_copy_and_a_chain_of_operations():
    bandwidth, rate = limits("cpu", 1, qd.f64, 1 << 20)
    assert 1e7 < bandwidth < 1e13
    assert 1e7 < rate < 1e13


def test_the_pane_is_made_on_demand(arch):
    x = qd.field(qd.f32, N)

    @qd.kernel
    def double():
        for i in x:
            x[i] *= 2.0

    with recording() as recorder:
        double()
    view = cell_view("", recorder)
    offer = re.search(r"<button[^>]*>how near the launches are to the device", render(view, "0/run"))
    assert offer
    assert "role" not in offer[0]  # it is a button, and no choice among one
    token = ONLY_READY.set(True)
    try:
        with pytest.raises(NotReady, match="the roofline"):
            render(view, "0/run/near")
    finally:
        ONLY_READY.reset(token)
    assert "0/run/near" not in small_answers(view)
    says = render(view, "0/run/near")
    assert "of the device's limit, which is memory: about 7.8 KB must move" in says
    assert "about 1,000 operations take" in says
    assert says in render(view, "0/run")


POINTS = [("forward", 8e6, 1e6), ("gradient", 4e6, 4e7), ("forward before", 1e6, 0.0)]


def test_the_chart_has_both_roofs_and_each_launch_below_them():
    """A launch at its limit lies on the roof; one of a tenth lies a decade below."""
    for share in (1.0, 0.1):
        took = [(name, b, n, max(b / 1e10, n / 1e11) / share) for name, b, n in POINTS]
        drawn = chart([(name, RooflineView(*figures, 1e10, 1e11, "f32"), "#123456") for name, *figures in took]).svg
        (low, ridge, end), places = (
            [tuple(map(float, p.split(","))) for p in re.search(r'points="([^"]*)"', drawn)[1].split()],
            [tuple(map(float, p)) for p in re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', drawn)],
        )
        assert ridge[1] == end[1]
        slope = (ridge[1] - low[1]) / (ridge[0] - low[0])
        below = {round(y - max(ridge[1] + slope * (x - ridge[0]), ridge[1])) for x, y in places}
        assert below == {0} if share == 1.0 else len(below) == 1 and below.pop() > 10
    for text in ("memory, 10 GB/s", "computing, 100 Gop/s", "gradient 10.0%", "operations a byte"):
        assert text in drawn


def test_the_run_before_stands_beside_in_grey(arch):
    x = qd.field(qd.f32, N)
    EDITS.clear()
    for _ in range(3):
        @qd.kernel
        def double():
            for i in x:
                x[i] *= 2.0

        with recording() as recorder:
            double()
        view = cell_view("", recorder)
        remember_edit(view, ())
    assert [len(edit.near) for edit in view.kernels[0].edits] == [0, 1, 1]
    drawn = render(view, "0/run/near")
    assert drawn.count('r="5"') == 2  # small circles stand beside labels
    assert f'fill="{GREY}"' in drawn
    assert "forward before" in drawn
