"""Kernels with loops and checkpoints around tasks, and streams: Tapes, labels, misuses. Programs that use them are rows
of `user_programs_memory` and `guide_launching`."""

from enum import IntEnum

import numpy as np
import pytest
from sessions import EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)


@NEEDS_F64
def test_a_tape_follows_the_launches_that_there_were(session):
    x, y = qd.field(qd.f64, 3, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    left = qd.field(qd.i32, ())

    @qd.data_oriented
    class Squares:
        def __init__(self, left):
            self.left = left

        @qd.kernel(graph=True)
        def run(self):
            while qd.graph.do_while(self.left):
                for i in x:
                    x[i] = x[i] * x[i]
                self.left[None] = self.left[None] - 1
            for i in x:
                y[None] += x[i]

    start = np.array([0.5, 0.9, 1.1])
    x.from_numpy(start)
    left[None] = 3
    with qd.ad.Tape(y):
        Squares(left).run()
    np.testing.assert_allclose(y[None], (start**8).sum(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.to_numpy(), 8 * start**7, rtol=1e-12)
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2131.*several launches"):
        Squares(left).run.grad()


class Stage(IntEnum):
    FILL = 4


def test_a_checkpoint_keeps_the_label_that_it_was_given():
    full, x = qd.field(qd.i32, ()), qd.field(qd.i32, 2)
    @qd.kernel(graph=True, checkpoints=True)
    def k():
        with qd.checkpoint(Stage.FILL, yield_on=full):
            for i in x:
                x[i] += 1
    assert k() == (False, None)
    full[None] = 1
    assert k() == (True, Stage.FILL)
    assert k.resume(from_checkpoint=Stage.FILL).checkpoint is Stage.FILL
    assert x.to_numpy().tolist() == [3, 3]
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2131.*no checkpoint 5"):
        k.resume(from_checkpoint=5)


def test_misuses_of_graphs_are_errors():
    flag = qd.field(qd.i32, ())

    def local_of_another_launch():
        m = flag[None]
        while qd.graph.do_while(flag):
            for i in range(2):
                flag[None] -= m

    def twice():
        with qd.checkpoint(1, yield_on=flag):
            pass
        with qd.checkpoint(1, yield_on=flag):
            pass

    def loop():
        while qd.graph.do_while(flag):
            pass

    def section_in_a_loop():
        for _ in range(2):
            with qd.graph.parallel():
                pass

    def flag_of_several():
        while qd.graph.do_while(wide):
            pass

    wide = qd.field(qd.i32, 3)
    graph = qd.kernel(graph=True, checkpoints=True)
    for body, how, what in (
        (local_of_another_launch, graph, "QL2131.*'m' does not outlive"), (twice, graph, "QL2131.*two checkpoints"),
        (loop, qd.kernel, "(?s)QL2131.*graph=True"), (section_in_a_loop, graph, "QL1210"),
        (flag_of_several, graph, "QL2131.*of one integer"),
    ):  # fmt: skip
        with pytest.raises((qd.QuadrantsRuntimeError, qd.QuadrantsSyntaxError), match=what):
            how(body)()


def test_streams_of_other_libraries_are_refused():
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2130"):
        qd.Stream(1234)
