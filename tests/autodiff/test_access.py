"""The data-access rule: memory that a gradient reads again is unchanged or saved; only overwritten values are saved."""

import numpy as np
import pytest

import quadrants_lab as qd

pytestmark = pytest.mark.filterwarnings("error")


def field(*shape):
    x = qd.field(qd.f64, shape, needs_grad=True)
    x.from_numpy(np.asarray(np.random.default_rng(1).uniform(0.2, 1.0, shape)))
    return x


@qd.kernel
def recurrent(u: qd.template(), w: qd.template(), n: qd.template()):
    """A network that keeps its states: time, then two nested loops."""
    for b in range(2):
        for t in range(n[None]):
            for i in range(3):
                s = 0.0
                for j in range(3):
                    s += w[i, j] * qd.sin(u[b, t, j])
                u[b, t + 1, i] = s

@qd.kernel
def backwards(u: qd.template(), w: qd.template(), n: qd.template()):
    for b in range(2):
        for t in range(n[None], 0, -1):
            for i in range(3):
                u[b, t - 1, i] = qd.sin(u[b, t, i]) * w[i, i]

@qd.kernel
def counted_down(u: qd.template(), w: qd.template(), n: qd.template()):
    for b in range(2):
        for t in range(n[None]):
            for i in range(3):
                u[b, 3 - t, i] = qd.sin(u[b, 4 - t, 2 - i]) * w[i, i]

@qd.kernel
def along_the_inner_loop(u: qd.template(), w: qd.template(), n: qd.template()):
    for b in range(2):
        for t in range(n[None]):
            for i in range(2):
                u[b, t, i + 1] = qd.sin(u[b, t, i]) * w[i, i]

@qd.kernel
def table(u: qd.template(), w: qd.template(), n: qd.template()):
    """Dynamic programming: each entry from those above and to the left."""
    for b in range(2):
        for i in range(1, n[None]):
            for j in range(1, 3):
                u[b, i, j] = w[0, j] * qd.min(u[b, i - 1, j], u[b, i, j - 1]) ** 2 + qd.sin(u[b, i - 1, j - 1])

@qd.kernel
def twice(u: qd.template(), w: qd.template(), n: qd.template()):
    """A kernel whose steps read again what they write."""
    for b in range(2):
        for t in range(n[None]):
            for i in range(1):
                u[b, t + 1, 0] = qd.sin(u[b, t, 0]) * w[i, i]
                u[b, t + 1, 2] = u[b, t + 1, 0] ** 2

@qd.kernel
def halves(u: qd.template(), w: qd.template(), n: qd.template()):
    """A kernel that never reads and writes the same elements, in one iteration or in different ones."""
    for b in range(2):
        for t in range(3):
            for i in range(3):
                u[b, t + 3, i] = qd.sin(u[b, 2 - t, i]) * u[1 - b, t, 2 - i] * w[i, i]

@qd.kernel
def levels(u: qd.template(), w: qd.template(), n: qd.template()):
    """A tree: every level from the one below it."""
    for k in range(2, 5):
        u[0, k, 0] = w[0, 0] * u[0, 5, 1] ** 2 + u[1, k, 0] * u[1, 5, 1]
    for k in range(2):
        u[0, k, 0] = qd.max(u[0, k + 2, 0], u[0, k + 3, 0]) ** 2


SILENT = [halves, levels, recurrent, backwards, counted_down, along_the_inner_loop, table, twice]


@qd.kernel
def descending(u: qd.template(), w: qd.template(), n: qd.template()):
    """Each step overwrites what the step before it has read."""
    for b in range(2):
        for t in range(n[None] - 1, -1, -1):
            for i in range(3):
                u[b, t + 1, i] = qd.sin(u[b, t, i]) * w[i, i]

@qd.kernel
def again_and_again(u: qd.template(), w: qd.template(), n: qd.template()):
    """The inner loop runs ahead, and the outer one comes back."""
    for b in range(2):
        for _ in range(n[None]):
            for i in range(2):
                u[b, 0, i + 1] = qd.sin(u[b, 0, i]) * w[i, i]

@qd.kernel
def behind(u: qd.template(), w: qd.template(), n: qd.template()):
    for b in range(2):
        for t in range(1, n[None]):
            for i in range(3):
                u[b, t - 1, i] = qd.sin(u[b, t, i]) * w[i, i]

@qd.kernel
def rounded(u: qd.template(), w: qd.template(), n: qd.template()):
    """Two floats apart by one and more, rounded: the same element."""
    for i in range(3):
        u[1, 5, i] = u[0, int(i * 0.5), 0] ** 2
    for _ in range(1):
        u[0, 1, 0] = w[0, 1]

@qd.kernel
def wrapped(u: qd.template(), w: qd.template(), n: qd.template()):
    for i in range(256, 258):
        u[1, 5, i - 256] = u[0, qd.cast(i, qd.u8), 0] ** 2
    for i in range(2):
        u[0, i, 0] = w[0, i]

@qd.kernel
def mixed(u: qd.template(), w: qd.template(), n: qd.template()):
    """Each iteration reads what it wrote, at places in no order: whether two write to the same one is not known."""
    for _ in range(1):
        for i in range(6):
            k = i * 5 % 6
            u[0, k, 0] = qd.sin(w[0, 0] + i)
            u[1, k, 0] = u[0, k, 0] ** 2

@qd.kernel
def measure(u: qd.template(), loss: qd.template()):
    for i in qd.grouped(u):
        loss[None] += u[i] ** 2


def differentiate(program):
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    u, w, n, loss = field(2, 6, 3), field(3, 3), qd.field(qd.i32, ()), field()
    n[None] = 4
    with qd.ad.Tape(loss, grad_check=[u, w]):
        program(u, w, n)
        measure(u, loss)
    return u, w, n, loss


@qd.kernel
def diagonal(u: qd.template(), w: qd.template(), k: qd.i32):
    for i in range(qd.max(1, k - 2), qd.min(5, k - 1) + 1):
        u[0, i, k - i] = w[0, 0] * qd.min(u[0, i - 1, k - i], u[0, i, k - i - 1]) ** 2 + u[0, i - 1, k - i - 1] ** 2


def test_anti_diagonals_of_a_table_are_safe():
    def all_of_them(u, w, n):
        for k in range(2, 8):
            diagonal(u, w, k)
    differentiate(all_of_them)


OVERWRITTEN = [descending, again_and_again, behind, rounded, wrapped, mixed]


@pytest.mark.parametrize("program", SILENT + OVERWRITTEN, ids=lambda p: p.__name__)
def test_what_is_overwritten_is_kept_and_nothing_else(program):
    held = differentiate(program)  # what a plan was made for goes with its arguments
    assert bool(held and program.sizes().kept) == (program in OVERWRITTEN)


@qd.kernel
def bound_that_changes(x: qd.template(), n: qd.template(), loss: qd.template()):
    for i in range(n[0]):
        loss[None] += x[i] ** 2
    n[0] = 1

@qd.kernel
def bounds_that_may_change(x: qd.template(), n: qd.template(), loss: qd.template()):
    for i, j in qd.ndrange(n[0], n[1]):
        loss[None] += x[i] * x[j]
    for i in range(3):
        n[i] = 1

@qd.kernel
def bound_that_stays(x: qd.template(), n: qd.template(), loss: qd.template()):
    for i in range(n[0]):
        loss[None] += x[i] ** 2
        n[1] = 1


@pytest.mark.parametrize(
    ("program", "kept"), [(bound_that_changes, 1), (bounds_that_may_change, 3), (bound_that_stays, 0)]
)
def test_bounds_of_parallel_loops_are_read_again(program, kept):
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, n, loss = field(3), qd.field(qd.i32, 3), field()
    n.fill(2)
    with qd.ad.Tape(loss, grad_check=[x]):
        program(x, n, loss)
    assert (x.grad.to_numpy() != 0).tolist() == [True, True, False]
    assert sum(row.elements for row in program.sizes().kept) == kept
