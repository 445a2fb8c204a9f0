"""The memory of cells of sparse layouts that a kernel deactivates."""

import numpy as np
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.backends.pages import PAGE

session = session_of(EVERYWHERE)


def test_a_block_that_moves_takes_the_memory_of_one_block(session: str) -> None:
    x = qd.field(qd.f32, needs_grad=True)
    node = qd.root.pointer(qd.ij, 16)
    node.dense(qd.ij, 32).place(x, x.grad)

    @qd.kernel
    def move(k: int):
        qd.deactivate(node, [k, 5])
        for i, j in qd.ndrange(32, 32):
            x[k * 32 + 32 + i, 160 + j] = 1.0

    for k in range(15):
        move(k)
        if k % 4 == 2:
            qd.sparse.trim(x)
        if session == "cpu":
            assert qd.sparse.nbytes(x) <= 6 * PAGE
    qd.sparse.trim(x)
    if session == "cpu":
        assert qd.sparse.nbytes(x) == 2 * PAGE
    want = np.zeros((512, 512), np.float32)
    want[480:, 160:192] = 1.0
    assert (x.to_numpy() == want).all()


@CPU_ALONE
def test_a_cell_that_is_dropped_takes_no_more_memory(session: str) -> None:
    x = qd.field(qd.f32)
    node = qd.root.pointer(qd.ij, 4)
    node.dense(qd.ij, 64).place(x)

    @qd.kernel
    def drop():
        qd.deactivate(node, [1, 2])

    x[70, 130] = 1.0
    before = qd.sparse.nbytes(x)
    drop()  # writes zeros to the one page of four that there is
    assert qd.sparse.nbytes(x) == before
    assert x[70, 130] == 0.0
