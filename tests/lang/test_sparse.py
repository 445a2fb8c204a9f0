"""Pointer, bitmasked and dynamic layouts: what is active, loops over it, lists, gradients."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from once import Once
from peer.process import printed
from programs import sparse_run
from sessions import CPU_ALONE, EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import function_source
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.specialisation import FORWARD, REVERSE
from quadrants_lab.runtime.interpret.interpreter import interpret

session = session_of(EVERYWHERE)

RIGHT = Path(__file__).with_name("sparse_run.json")  # what the programs answer, each on a line


def answer(program: Any) -> Any:
    return json.loads(json.dumps(program(qd)))


@pytest.mark.parametrize("program", sparse_run.PROGRAMS, ids=lambda p: p.__name__)
def test_every_backend_gives_the_right_answer(program, session: str) -> None:
    assert answer(program) == json.loads(RIGHT.read_text())[program.__name__]


@pytest.mark.parametrize("program", sparse_run.ON_DEMAND, ids=lambda p: p.__name__)
@CPU_ALONE
def test_with_memory_for_what_is_active(program, session: str) -> None:
    assert answer(program) == json.loads(RIGHT.read_text())[program.__name__]


@CPU_ALONE
def test_checked_launches_give_the_right_answers(session: str, golden) -> None:
    lines = []
    for program in (*sparse_run.PROGRAMS, *sparse_run.ON_DEMAND):
        qd.init(arch=qd.cpu, debug=program in sparse_run.PROGRAMS, offline_cache=False)  # checks look at each element
        lines.append(f'"{program.__name__}": {json.dumps(answer(program))}')
    golden(RIGHT, "{\n" + ",\n".join(lines) + "\n}\n")


@CPU_ALONE
@pytest.mark.peer
def test_the_peer_agrees(session: str, kept: Once) -> None:
    assert printed(kept, sparse_run.__file__) == json.loads(RIGHT.read_text())


def test_a_loop_runs_over_what_was_active_when_it_began() -> None:
    x = qd.field(qd.i32)
    qd.root.bitmasked(qd.i, 64).place(x)
    x[3] = 1

    @qd.kernel
    def grow():
        for i in x:
            x[i + 1] = 1

    @qd.kernel
    def grow_in_order():
        qd.loop_config(serialize=True)
        for i in x:
            x[i + 1] = 1

    for n, launch in enumerate((grow, grow_in_order, grow), 2):
        launch()
        assert np.flatnonzero(x.to_numpy()).tolist() == list(range(3, 3 + n))


@CPU_ALONE
def test_interpreted(session: str) -> None:
    x, y = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, needs_grad=True)
    qd.root.bitmasked(qd.i, 16).place(x, y)
    qd.root.lazy_grad()

    def grow():
        for i in x:
            y[i + 1] += x[i] * x[i]

    run = qd.kernel(grow)
    for i in (2, 3, 9):
        x[i] = i / 4
    made = lower(function_source(grow), [], CompileOptions()).kernel
    activity, seed = x.snode.activity, np.linspace(0, 1, 16)
    held = {"x": x, "y": y, "bitmasked.active": activity}
    arrays = {name: f.to_numpy() for name, f in held.items()} | {"x.grad": np.zeros(16), "y.grad": seed.copy()}
    forward = interpret(make_ir(made, FORWARD, CompileOptions(verify=True)), {}, arrays)
    run()
    assert all((arrays[name] == f.to_numpy()).all() for name, f in held.items())
    interpret(make_ir(made, REVERSE, CompileOptions(verify=True)), {}, arrays | forward.scratch)
    y.grad.from_numpy(seed)
    run.grad()
    assert (arrays["x.grad"] == x.grad.to_numpy()).all()
    assert np.count_nonzero(arrays["x.grad"]) == 3


def test_writes_from_python_activate() -> None:
    x, v = qd.field(qd.i32), qd.Vector.field(2, qd.f32)
    s = qd.Struct.field({"a": qd.i32, "b": qd.f32})
    node = qd.root.pointer(qd.i, 8).bitmasked(qd.i, 2)
    node.place(x, v, s, offset=-4)
    count = qd.field(qd.i32, shape=())

    @qd.kernel
    def look():
        for i in x:
            count[None] += 100 + i

    def seen() -> int:
        count[None] = 0
        look()
        return count[None]

    assert seen() == 0
    x[-4] = 7
    assert seen() == 96
    v[2] = [1, 2]
    s[5] = {"a": 3, "b": 1.0}
    v[7].x = 3.0
    assert seen() == 400 - 4 + 2 + 5 + 7
    x.fill(2)
    x.from_numpy(np.arange(16, dtype=np.int32) + 1)
    assert np.flatnonzero(x.to_numpy()).tolist() == [0, 6, 9, 11]
    qd.deactivate_all_snodes()
    assert (seen(), x[-4], s[5].a, v[2].x) == (0, 0, 0, 0.0)
    assert v.parent() is s.snode is node
    assert node.parent(2) is x.parent(3)


def test_what_does_not_fit_in_a_list_is_not_kept() -> None:
    x, y = qd.field(qd.i32), qd.field(qd.i32)
    qd.root.pointer(qd.i, 3).dynamic(qd.i, 4).place(x)
    qd.root.dynamic(qd.i, 4).place(y)
    @qd.kernel
    def fill() -> int:
        for i in range(9):
            x[2].append(i)
            y.append(i)
        return x[2].length() * 100 + y.length() * 10 + x[1].length() + qd.is_active(x.parent(2), 2) * 1000
    assert fill() == 1440
    assert sorted(x.to_numpy().tolist()) == sorted([0] * 8 + y.to_numpy().tolist())
    assert len(set(y.to_numpy())) == 4


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda: qd.root.dynamic(qd.ij, 4), "one axis"),
    (lambda: qd.root.pointer(qd.ij, 2**16).dense(qd.ij, 4).place(qd.field(qd.f32)), "QL2036.*256 GiB"),
    (lambda: qd.root.hash(qd.i, 4), "QL2078"),
])
@CPU_ALONE
def test_wrong_layouts(wrong, says: str, session: str) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match=says):
        wrong()


# --- gradients: of what is active, against differences

@NEEDS_F64
def test_gradients_of_what_is_active(session: str) -> None:
    x, y = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, needs_grad=True)
    p = qd.root.pointer(qd.i, 8)
    p.dense(qd.i, 4).place(x, y)
    qd.root.lazy_grad()
    v = qd.field(qd.f64, needs_grad=True)
    rows = qd.root.dense(qd.i, 4).dynamic(qd.j, 8)
    rows.place(v)
    rows.lazy_grad()
    loss = qd.field(qd.f64, shape=(), needs_grad=True)

    begin = qd.field(qd.f64, shape=4, needs_grad=True)
    at = qd.field(qd.i32, shape=4)
    at.from_numpy(np.array([1, 2, 6, 13], np.int32))

    @qd.kernel
    def start():
        for k in begin:
            x[at[k]] += begin[k]

    @qd.kernel
    def grow():
        for i in x:
            y[i + 4] += qd.sin(x[i]) * x[i]

    @qd.kernel
    def square():
        for i in x:
            x[i] = x[i] * x[i] + 0.1 * y[i]

    @qd.kernel
    def drop():
        for i in x:
            loss[None] += x[i] ** 3
        qd.deactivate(p, 1)
        for i in y:
            y[i] += 3.0 * x[i]

    @qd.kernel
    def enlist():
        for i in x:
            if x[i] > 0.25:
                v[i % 4, i // 4] = qd.exp(0.1 * x[i])

    @qd.kernel
    def total():
        for i in y:
            loss[None] += y[i] ** 2
        for i, j in v:
            loss[None] += v[i, j] * (i + 2.0 * j)

    def program() -> None:
        start()
        grow()
        square()
        grow()
        drop()
        x[30] = 0.75  # Python activates a cell, and the loops that follow see it
        enlist()
        total()

    def value(values: np.ndarray) -> float:
        qd.deactivate_all_snodes()
        loss[None] = 0
        begin.from_numpy(values)
        program()
        return loss[None]

    inputs = np.array([0.7, -0.4, 0.9, 1.1])
    found = []
    for _ in range(2):
        qd.deactivate_all_snodes()
        loss[None] = 0
        begin.from_numpy(inputs)
        with qd.ad.Tape(loss):
            program()
        found.append(begin.grad.to_numpy())
    h = 1e-6
    steps = np.eye(4) * h
    differences = [(value(inputs + step) - value(inputs - step)) / (2 * h) for step in steps]
    for gradient in found:
        np.testing.assert_allclose(gradient, differences, rtol=1e-7)
    assert np.abs(differences).min() > 1e-2


@NEEDS_F64
def test_gradients_of_cells_that_a_loop_drops(session: str) -> None:
    x, v = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, needs_grad=True)
    cells = qd.root.bitmasked(qd.i, 32)
    cells.place(x)
    qd.root.dense(qd.i, 4).dynamic(qd.j, 8).place(v)
    qd.root.lazy_grad()
    loss = qd.field(qd.f64, shape=(), needs_grad=True)

    @qd.kernel
    def fill():
        for i in x:
            v[i % 4, i // 8] = 2.0 * x[i]

    @qd.kernel
    def prune():
        for i in x:
            loss[None] += x[i] ** 2
            if x[i] > 0.5:
                qd.deactivate(cells, i)

    @qd.kernel
    def rest():
        for i in x:
            loss[None] += 3.0 * x[i]
        for i in range(4):
            for j in range(v[i].length()):
                loss[None] += v[i, j] ** 3

    @qd.kernel
    def empty():
        for i in range(2):
            v[i].deactivate()

    at, inputs = [1, 2, 13, 22, 30], np.array([0.3, 0.6, 0.9, 0.2, 1.4])
    qd.deactivate_all_snodes()
    for i, value in zip(at, inputs, strict=True):
        x[i] = value
    with qd.ad.Tape(loss):
        fill()
        prune()
        rest()
        empty()
        rest()
    cubes = np.where(np.isin(np.array(at) % 4, (0, 1)), 1, 2)  # lists 0 and 1 are empty the second time
    kept = inputs <= 0.5
    want = 2 * inputs + 6.0 * kept + cubes * 24 * inputs**2
    np.testing.assert_allclose(x.grad.to_numpy()[at], want, rtol=1e-12)
    assert np.flatnonzero(x.to_numpy()).tolist() == [1, 22]


@CPU_ALONE
def test_a_change_since_the_launch_is_warned_about(session: str) -> None:
    x, y = qd.field(qd.f32, needs_grad=True), qd.field(qd.f32, shape=8, needs_grad=True)
    cells = qd.root.bitmasked(qd.i, 8)
    cells.place(x, x.grad)
    @qd.kernel
    def double():
        for i in x:
            y[i] = 2 * x[i]
    x[3] = 1.0
    double()
    qd.deactivate_all_snodes()
    y.grad.fill(1.0)
    with pytest.warns(qd.QuadrantsWarning, match=r"reads bitmasked.active, which Python wrote after"):
        double.grad()


@CPU_ALONE
def test_gradients_that_cannot_be(session: str) -> None:
    x, y = qd.field(qd.f32, needs_grad=True), qd.field(qd.f32, needs_grad=True)
    qd.root.pointer(qd.i, 8).place(x, y)
    v = qd.field(qd.f32, needs_grad=True)
    qd.root.dynamic(qd.i, 8).place(v)
    qd.root.lazy_grad()

    @qd.kernel
    def grow():
        for i in x:
            y[i + 1] += x[i] ** 2

    with pytest.raises(qd.QuadrantsRuntimeError, match="QL0416.*was not launched"):
        grow.grad()
    x[2] = 3.0
    grow()
    y.grad[3] = 1.0
    grow.grad()
    assert x.grad.to_numpy().tolist() == [0, 0, 6, 0, 0, 0, 0, 0]

    @qd.kernel
    def gather():
        for i in x:
            v.append(x[i])

    with pytest.raises(qd.QuadrantsCompilationError, match="QL0403"):
        gather.grad()


@NEEDS_F64
def test_the_gradient_of_a_loop_that_asks_what_is_active(session: str) -> None:
    x, z = qd.field(qd.f64), qd.field(qd.f64, shape=256, needs_grad=True)
    w = qd.field(qd.f64, shape=256, needs_grad=True)
    loss = qd.field(qd.f64, shape=(), needs_grad=True)
    node = qd.root.pointer(qd.i, 64)
    node.dense(qd.i, 4).place(x)
    for i in (5, 90, 91, 255):
        x[i] = 1.0

    @qd.kernel
    def some():
        for i in z:
            if qd.is_active(node, i // 4):
                v = z[i]
                for _ in range(i % 3):
                    v = v * v
                loss[None] += v
            w[i] = z[i] * z[i]

    @qd.kernel
    def rest():
        for i in w:
            loss[None] += w[i] * (i + 1)

    values = np.linspace(0.5, 1.5, 256)
    z.from_numpy(values)
    with qd.ad.Tape(loss):
        some()
        rest()
    power = 2 ** (np.arange(256) % 3)
    active = np.isin(np.arange(256) // 4, (1, 22, 63))
    want = active * power * values ** (power - 1) + 2 * values * (np.arange(256) + 1)
    np.testing.assert_allclose(z.grad.to_numpy(), want, rtol=1e-12)


def test_indices_are_rescaled_between_fields_made_with_a_shape() -> None:
    fine, coarse = qd.field(qd.i32, (8, 6)), qd.field(qd.i32, (4, 2))
    @qd.kernel
    def count():
        for index in qd.grouped(fine):
            coarse[qd.rescale_index(fine, coarse, index)] += fine[qd.rescale_index(coarse, fine, [1, 0])]
    fine[2, 0] = 5
    count()
    assert (coarse.to_numpy() == 5 * 6).all()
