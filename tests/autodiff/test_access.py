"""The data-access rule: what is called safe is safe, and what programs with an axis of time do is called safe."""

from __future__ import annotations

import itertools
import random
import warnings

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.autodiff.access import SAFE, Access, relation
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import f64, i32

TASK = N.Offload(80, "serial", (N.Yield(81, ()),), (), ())


def loop(number: int, reverse: bool) -> N.For:
    return N.For(90 + number, N.Param(number, i32), 0, 0, (), (), (), (), reverse=reverse)


def iterations(loops, count):
    """Values of the loops' indices in the order in which they run."""
    for at in itertools.product(range(count), repeat=len(loops)):
        yield {f"%{f.index.id}": count - 1 - k if f.reverse else k for f, k in zip(loops, at, strict=True)}


def place(forms, values):
    return tuple(c + sum(k * values[s] for s, k in terms.items()) for terms, c in forms)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_is_called_safe_is_overwritten(seed):
    """Random pairs of accesses in nested loops, against all iterations of them in order."""
    rng, safe = random.Random(seed), 0
    for _ in range(400):
        loops = tuple(loop(n, rng.random() < 0.3) for n in range(rng.randint(1, 3)))
        axes = rng.randint(1, 2)
        names = [f"%{f.index.id}" for f in loops]
        common = [{s: k for s in names if (k := rng.choice((0, 0, 1, 1, -1, 2)))} for _ in range(axes)]
        forms = []
        for _ in range(2):
            changed = rng.random() < 0.15
            terms = [dict.fromkeys(rng.sample(names, 1), 1) if changed else dict(t) for t in common]
            forms.append(tuple((t, rng.choice((0, 0, 1, -1, 2))) for t in terms))
        first = rng.random() < 0.5  # the read comes before the write
        read = Access(N.Load(70, f64, "u", ()), TASK, 0, 0 if first else 1, loops, forms[0])
        write = Access(N.Store(71, "u", (), 0), TASK, 0, 1 if first else 0, loops, forms[1])
        if relation(read, write) != SAFE:
            continue
        safe += 1
        seen = set()
        for values in iterations(loops, 5):
            for is_read in (True, False) if first else (False, True):
                if is_read:
                    seen.add(place(forms[0], values))
                else:
                    assert place(forms[1], values) not in seen, (forms, loops)
    assert safe > 20


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
    """What a step writes it reads again."""
    for b in range(2):
        for t in range(n[None]):
            for i in range(1):
                u[b, t + 1, 0] = qd.sin(u[b, t, 0]) * w[i, i]
                u[b, t + 1, 2] = u[b, t + 1, 0] ** 2


@qd.kernel
def halves(u: qd.template(), w: qd.template(), n: qd.template()):
    """What is read and what is written lies apart, in the same iteration and in other ones."""
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
    for i in range(3):
        u[0, 1, 0] = w[0, i]


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


def differentiate(program, check):
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    u, w, n, loss = field(2, 6, 3), field(3, 3), qd.field(qd.i32, ()), field()
    n[None] = 4
    with qd.ad.Tape(loss, grad_check=[u, w] if check else None):
        program(u, w, n)
        measure(u, loss)


@pytest.mark.parametrize("program", SILENT, ids=lambda p: p.__name__)
def test_time_steps_are_safe_and_right(program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        differentiate(program, check=True)


@qd.kernel
def diagonal(u: qd.template(), w: qd.template(), k: qd.i32):
    for i in range(qd.max(1, k - 2), qd.min(5, k - 1) + 1):
        u[0, i, k - i] = w[0, 0] * qd.min(u[0, i - 1, k - i], u[0, i, k - i - 1]) ** 2 + u[0, i - 1, k - i - 1] ** 2


def test_anti_diagonals_of_a_table_are_safe():
    def all_of_them(u, w, n):
        for k in range(2, 8):
            diagonal(u, w, k)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        differentiate(all_of_them, check=True)


LOUD = [descending, again_and_again, behind, rounded, wrapped, mixed]


@pytest.mark.parametrize("program", LOUD, ids=lambda p: p.__name__)
def test_what_is_overwritten_is_never_silent(program):
    with pytest.warns(qd.QuadrantsWarning, match="QL0405"):
        differentiate(program, check=False)


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
    ("program", "says"), [(bound_that_changes, "QL0404"), (bounds_that_may_change, "QL0405"), (bound_that_stays, "")]
)
def test_bounds_of_parallel_loops_are_read_again(program, says):
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, n, loss = field(3), qd.field(qd.i32, 3), field()
    n.fill(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape = qd.ad.Tape(loss)
        if not says:
            with tape:
                program(x, n, loss)
            assert (x.grad.to_numpy() != 0).tolist() == [True, True, False]
        else:
            with pytest.raises((qd.QuadrantsCompilationError, qd.QuadrantsWarning), match=says), tape:
                program(x, n, loss)


@qd.kernel
def bound_that_some_iteration_writes(x: qd.template(), n: qd.template(), loss: qd.template(), k: qd.i32):
    for i in range(n[0]):
        loss[None] += x[i] ** 2
        n[i + k] = 1


@pytest.mark.parametrize("trips", [0, 2])
def test_validation_checks_bounds_of_parallel_loops(trips):
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, n, loss = field(3), qd.field(qd.i32, 4), field()
    for k, right in ((2, True), (0, trips == 0)):
        n.fill(trips)
        tape = qd.ad.Tape(loss, validation=True)
        if right:
            with tape:
                bound_that_some_iteration_writes(x, n, loss, k)
            assert np.count_nonzero(x.grad.to_numpy()) == trips
        else:
            with pytest.raises(qd.QuadrantsAssertionError, match=r"n\[0\] is overwritten"), tape:
                bound_that_some_iteration_writes(x, n, loss, k)
