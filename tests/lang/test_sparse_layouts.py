"""Sparse layouts against an oracle of sets and dictionaries; the memory they take; gradients against float64."""

import os
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracle.sparse import LAYOUTS, Held, Layout
from sessions import CPU_ALONE, EVERYWHERE, NEEDS_F64, in_turn, session_of, sessions

import quadrants_lab as qd
from quadrants_lab.backends.pages import PAGE

session = session_of(EVERYWHERE)

DTYPES = {"f32": qd.f32, "i32": qd.i32, "f16": qd.f16, "u8": qd.u8, "i64": qd.i64}


class Programs:
    """Kernels over a field of the layout."""

    def __init__(self, layout: Layout, dtype: Any) -> None:
        self.layout = layout
        self.x = x = qd.field(dtype)
        nodes = layout.place(qd, x)
        self.nodes = {depth: nodes[depth - 1] for depth in layout.sparse()}
        self.seen = seen = qd.field(qd.i32, shape=layout.shape)
        ndim = len(layout.shape)

        @qd.kernel
        def write(at: qd.types.ndarray(qd.i32, 2), values: qd.types.ndarray(qd.i32, 1)):
            for k in range(at.shape[0]):
                x[qd.Vector([at[k, a] for a in qd.static(range(ndim))])] = qd.cast(values[k], dtype)

        @qd.kernel
        def visit():
            for index in qd.grouped(x):
                seen[index] += 1

        @qd.kernel
        def double():
            for index in qd.grouped(x):
                x[index] = x[index] + x[index]

        self.write, self.visit, self.double = write, visit, double
        self.drops = {depth: self._drop(node) for depth, node in self.nodes.items()}
        self.asks = {depth: self._ask(node) for depth, node in self.nodes.items()}

    def _drop(self, node: Any) -> Any:
        ndim = len(node.shape)

        @qd.kernel
        def drop(at: qd.types.ndarray(qd.i32, 1)):
            qd.deactivate(node, qd.Vector([at[a] for a in qd.static(range(ndim))]))

        return drop

    def _ask(self, node: Any) -> Any:
        ndim = len(node.shape)

        @qd.kernel
        def ask(out: qd.types.ndarray(qd.i32, ndim)):
            for index in qd.grouped(out):
                out[index] = qd.is_active(node, index)

        return ask

    def own(self, depth: int, cell: tuple[int, ...]) -> np.ndarray:
        """The index of a cell along the axes of its node, from that along all axes."""
        return np.array([cell[a] for a in self.nodes[depth].axes], np.int32)

    def check(self, held: Held) -> None:
        assert (self.x.to_numpy() == held.array(self.x.to_numpy().dtype)).all()
        self.seen.fill(0)
        self.visit()
        assert (self.seen.to_numpy() == held.mask()).all()
        assert qd.sparse.usage(self.x) == held.mask().mean()
        for depth, node in self.nodes.items():
            out = np.zeros(node.shape, np.int32)
            self.asks[depth](out)
            assert (out.reshape(self.layout.extents(depth)) == held.mask(depth)).all()


def run(programs: Programs, steps: list[Any]) -> None:
    layout, held = programs.layout, Held(programs.layout)
    qd.deactivate_all_snodes()
    for what, *data in steps:
        indices = [tuple(int(k) for k in np.unravel_index(n % np.prod(layout.shape), layout.shape)) for n in data]
        if what == "write":
            values = [n % 50 + 1 for n in data]
            several = dict(zip(indices, values, strict=True))  # no two threads write to one element
            programs.write(np.array([*several], np.int32), np.array([*several.values()], np.int32))
            for index, value in several.items():
                held.write(index, value)
        elif what == "write from Python":
            for index in indices:
                programs.x[index] = 7
                held.write(index, 7)
        elif what == "double":
            programs.double()
            held.values = {index: value * 2 % 256 for index, value in held.values.items()}
            if max(held.values.values(), default=0) > 100:  # within each dtype
                programs.x.fill(1)
                held.values = dict.fromkeys(held.elements(), 1)
        elif what == "fill":
            programs.x.fill(3)
            held.values = dict.fromkeys(held.elements(), 3)
        elif what == "copy":
            array = np.arange(np.prod(layout.shape)).reshape(layout.shape) % 100
            programs.x.from_numpy(array.astype(programs.x.to_numpy().dtype))
            held.values = {index: int(array[index]) for index in held.elements()}
        elif what == "deactivate":
            depth = [*programs.nodes][data[0] % len(programs.nodes)]
            cell = layout.cell(indices[0], depth)
            programs.drops[depth](programs.own(depth, cell))
            held.deactivate(depth, cell)
        else:
            programs.nodes[min(programs.nodes)].deactivate_all()
            held = Held(layout)
    programs.check(held)


STEPS = st.one_of(
    st.tuples(st.just("write"), *[st.integers(0, 1 << 20)] * 5),
    st.tuples(st.just("write from Python"), st.integers(0, 1 << 20)),
    st.tuples(st.just("deactivate"), st.integers(0, 1 << 20)),
    st.sampled_from([("double",), ("fill",), ("copy",), ("deactivate all",)]),
)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_holds_what_the_oracle_says(name: str, session: str) -> None:
    dtypes = [t for t in DTYPES if session != "metal" or t not in ("f16", "u8", "i64")]
    programs = Programs(LAYOUTS[name], DTYPES[dtypes[sorted(LAYOUTS).index(name) % len(dtypes)]])

    @settings(max_examples=60 if os.environ.get("QL_NIGHTLY") else 12, deadline=None)
    @given(st.lists(STEPS, max_size=8))
    def checked(steps: list[Any]) -> None:
        run(programs, steps)

    checked()


# --- memory

SIDE = 4096
DENSE = 4 * SIDE**2
# layouts of 4096^2 cells and blocks of elements, of which 1 % are active: those of a square, or any
GRIDS = {
    "pointer 64^2, dense 64^2": (Layout(("pointer", "ij", 64), ("dense", "ij", 64)), 64, True),
    "pointer 256^2, dense 16^2": (Layout(("pointer", "ij", 256), ("dense", "ij", 16)), 16, True),
    "pointer 128^2, dense 32^2": (Layout(("pointer", "ij", 128), ("dense", "ij", 32)), 32, True),
    "pointer 4096^2": (Layout(("pointer", "ij", SIDE)), 1, False),
    "bitmasked 4096^2": (Layout(("bitmasked", "ij", SIDE)), 1, False),
    "pointer twice, dense 8^2": (Layout(("pointer", "ij", 64), ("pointer", "ij", 8), ("dense", "ij", 8)), 8, True),
}  # fmt: skip


def activate(x: Any, block: int, anywhere: bool) -> int:
    """Activates 1 % of the blocks of a 4096^2 field; how many elements these have."""
    blocks = SIDE // block
    number = round(blocks**2 / 100)
    if anywhere:
        found = np.random.default_rng(3).permutation(blocks**2)[:number]
        corners = np.stack(np.unravel_index(found, (blocks, blocks)), 1)
    else:
        side = round(number**0.5)
        corners = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2) + blocks // 3

    @qd.kernel
    def touch(at: qd.types.ndarray(qd.i32, 2)):
        for k in range(at.shape[0]):
            for i, j in qd.ndrange(block, block):
                x[at[k, 0] * block + i, at[k, 1] * block + j] = 1.0

    touch(np.ascontiguousarray(corners, np.int32))
    return len(corners) * block**2


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("session", in_turn(sessions("cpu", "wasm", "c")), indirect=True)
def test_a_grid_of_which_one_percent_is_active_takes_three_percent_of_the_memory(grid: str, session: str) -> None:
    layout, block, anywhere = GRIDS[grid]
    x = qd.field(qd.f32)
    node = layout.place(qd, x)[0]
    before, empty = qd.sparse.nbytes(x), x._memory.operand.copy()
    elements = activate(x, block, anywhere)
    assert qd.sparse.nbytes(x) <= 0.03 * DENSE, qd.sparse.nbytes(x) / DENSE
    total = qd.field(qd.i32, shape=())

    @qd.kernel
    def count():
        for _i, _j in x:
            total[None] += 1

    count()
    assert total[None] == elements == x.to_numpy().sum()
    assert qd.sparse.nbytes(x) <= 0.03 * DENSE  # reading takes no memory
    x._memory.operand.assign(empty)
    x[0, 0] = 2.0
    assert x.to_numpy().sum() == 2.0  # what a Tape put back leaves nothing behind
    node.deactivate_all()
    assert before == qd.sparse.nbytes(x) < 0.02 * DENSE  # a table, where the system has none


@CPU_ALONE
def test_memory_of_the_process(session: str) -> None:
    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * PAGE
    x = qd.field(qd.f32, needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    qd.root.pointer(qd.ij, 256).dense(qd.ij, 16).place(x, x.grad)

    @qd.kernel
    def square():
        for i, j in x:
            x[i, j] = x[i, j] * x[i, j]

    @qd.kernel
    def sum_up():
        for i, j in x:
            loss[None] += x[i, j] + x[(i + 1) % SIDE, j]

    def program() -> None:
        with qd.ad.Tape(loss):
            square()
            square()
            sum_up()

    x[0, 0] = 1.0
    program()  # compiles
    before = resident()
    activate(x, 16, anywhere=False)
    program()
    assert resident() - before < 0.12 * DENSE  # of x, its gradient, and two copies for the Tape
    assert abs(x.grad[1400, 1500] - 8.0) < 1e-6


@pytest.mark.parametrize("grid", ["pointer 256^2, dense 16^2", "pointer 4096^2", "pointer twice, dense 8^2"])
@CPU_ALONE
def test_a_loop_takes_the_time_of_what_is_active(grid: str, session: str) -> None:
    qd.init(arch=qd.cpu, cpu_max_num_threads=1, offline_cache=False)  # threads that wait take time, too
    layout, block, _ = GRIDS[grid]
    x, dense = qd.field(qd.f32, needs_grad=True), qd.field(qd.f32, shape=(SIDE, SIDE), needs_grad=True)
    layout.place(qd, x, x.grad)
    activate(x, block, anywhere=False)

    @qd.kernel
    def square(x: qd.template()):
        for i, j in x:
            v = x[i, j]
            for _ in range(i % 3):
                v = v * v
            x[i, j] = v

    @qd.kernel
    def sines(x: qd.template()):
        for i, j in x:
            x[i, j] = qd.sin(x[i, j])

    def least(launch: Any, field: Any) -> float:
        took = []
        for _ in range(6):
            began = process_time()
            launch(field)
            took.append(process_time() - began)
        return min(took)

    assert least(square, x) < 0.25 * least(square, dense)
    all_sines = least(sines, dense)
    assert least(sines, x) < 0.25 * all_sines  # 0.05 to 0.06 in cells of several elements
    assert block == 1 or "lanes: sin" in str(sines.schedule())  # of a row of a cell
    took = []
    for field, at in (x, (1400, 1400)), (dense, (0, 0)):
        square(field)
        field.grad[at] = 1.0
        took.append(least(square.grad, field))
    assert took[0] < 0.25 * took[1]


NESTED = Layout(("pointer", "ij", 64), ("pointer", "ij", 64), ("dense", "ij", 16))


@NEEDS_F64
def test_a_layout_of_more_elements_than_memory(session: str) -> None:
    x, y = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, needs_grad=True)
    if session not in ("cpu", "c"):
        most = "4 GiB(.|\n)*32 bits" if session == "wasm" else "8 GiB(.|\n)*memory for all its cells"
        with pytest.raises(qd.QuadrantsRuntimeError, match=rf"QL2036(.|\n)*{most}(.|\n)*arch=qd.cpu"):
            NESTED.place(qd, x, y)
        return
    top, inner, _ = NESTED.place(qd, x, y)
    qd.root.lazy_grad()
    assert x.shape == (65536, 65536)
    loss = qd.field(qd.f64, shape=(), needs_grad=True)
    given = qd.field(qd.f64, shape=3, needs_grad=True)
    given.from_numpy(np.array([0.5, -0.7, 1.3]))
    at = qd.field(qd.i32, shape=(3, 2))
    places = np.array([[3, 65535], [40000, 39999], [65520, 0]], np.int32)
    at.from_numpy(places)

    @qd.kernel
    def start():
        for k in given:
            x[at[k, 0], at[k, 1]] += given[k]

    @qd.kernel
    def step():
        for i, j in x:
            v = x[i, j]
            for _ in range(i % 3):
                v = qd.sin(v) + 0.5 * v
            y[i, (j + 16) % 65536] += v
            x[i, j] = v * x[i, j]

    @qd.kernel
    def sum_up():
        for i, j in y:
            loss[None] += y[i, j] ** 2 + x[i, j] ** 3

    @qd.kernel
    def count() -> int:
        n = 0
        for _i, _j in x:
            n += 1
        return n

    @qd.kernel
    def drop(i: int, j: int):
        qd.deactivate(top, [i // 1024, j // 1024])

    with qd.ad.Tape(loss):
        start()
        step()
        step()
        sum_up()

    def right(values: np.ndarray) -> complex:
        xs = {tuple(p): v for p, v in zip(places.tolist(), values, strict=True)}
        ys: dict[Any, complex] = {}
        for _ in range(2):
            old = dict(xs)
            for (i, j), v in old.items():
                w = v
                for _ in range(i % 3):
                    w = np.sin(w) + 0.5 * w
                ys[i, (j + 16) % 65536] = ys.get((i, (j + 16) % 65536), 0) + w
                xs[i, j] = w * v
        return sum(v**2 for v in ys.values()) + sum(v**3 for v in xs.values())

    values = given.to_numpy()
    want = [right(values + 1e-30j * np.eye(3)[k]).imag / 1e-30 for k in range(3)]
    np.testing.assert_allclose(loss[None], right(values).real, rtol=1e-12)
    np.testing.assert_allclose(given.grad.to_numpy(), want, rtol=1e-12)
    assert qd.sparse.nbytes(x) < 1 << 20
    assert qd.sparse.nbytes(x.grad) < 1 << 20
    cells = count() // 256
    drop(3, 65535)
    assert cells > count() // 256 > 0
    assert x[3, 65535] == 0
    assert qd.sparse.nbytes(x) < 1 << 20  # the zeros of a cell of 1024^2 elements are not written
    x.fill(2.0)
    assert x[65520, 0] == 2.0
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2036.*32 GiB|QL2036(.|\n)*32 GiB"):
        x.to_numpy()
    with pytest.raises(ValueError, match="no zero-copy"):
        x.to_numpy(copy=False)
    inner.deactivate_all()
    assert count() == 0
    top.deactivate_all()
    assert qd.sparse.nbytes(x) == 0


TWO_AXES = [name for name, layout in LAYOUTS.items() if layout.axes == "ij"]


@pytest.mark.parametrize("name", TWO_AXES)
@NEEDS_F64
def test_gradients_of_every_layout(name: str, session: str) -> None:
    """Gradients run twice with everything that the Tape keeps, and twice within a budget."""
    layout = LAYOUTS[name]
    n, m = layout.shape
    x, y = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, needs_grad=True)
    nodes = layout.place(qd, x, y)
    qd.root.lazy_grad()
    deepest = max(layout.sparse())
    node, axes = nodes[deepest - 1], nodes[deepest - 1].axes
    loss = qd.field(qd.f64, shape=(), needs_grad=True)
    rng = np.random.default_rng(11)
    values = rng.uniform(0.2, 1.2, 6)
    places = np.stack([rng.permutation(n)[:6], rng.permutation(m)[:6]], 1).astype(np.int32)
    given, at = qd.field(qd.f64, shape=6, needs_grad=True), qd.field(qd.i32, shape=(6, 2))
    at.from_numpy(places)
    dropped = layout.cell(tuple(places[2].tolist()), deepest)
    last = [dropped[a] for a in axes]

    @qd.kernel
    def start():
        for k in given:
            x[at[k, 0], at[k, 1]] += given[k]

    @qd.kernel
    def grow():
        for i, j in x:
            y[(i + 1) % n, j] += qd.sin(x[i, j]) * x[i, (j + 1) % m] + x[i, j]

    @qd.kernel
    def square():
        for i, j in x:
            x[i, j] = 0.5 * x[i, j] * x[i, j] + 0.125 * y[i, j]

    @qd.kernel
    def drop():
        qd.deactivate(node, last)

    @qd.kernel
    def total():
        for i, j in y:
            v = y[i, j]
            for _ in range(j % 3):
                v = qd.sin(v) + 0.5 * x[i, j]
            loss[None] += v * v * (1.0 + i / 128 + j / 64)

    def right(inputs: np.ndarray) -> complex:
        held = Held(layout)
        xs, ys = np.zeros((n, m), inputs.dtype), np.zeros((n, m), inputs.dtype)
        for (i, j), value in zip(places.tolist(), inputs, strict=True):
            held.write((i, j), 0)
            xs[i, j] += value
        for step in range(3):
            mask = held.mask()
            added = np.where(mask, np.sin(xs) * np.roll(xs, -1, 1) + xs, 0)
            ys += np.roll(added, 1, 0)
            for i, j in np.argwhere(mask):
                held.write(((int(i) + 1) % n, int(j)), 0)
            mask = held.mask()
            xs = np.where(mask, 0.5 * xs * xs + 0.125 * ys, xs)
            if step == 1:
                held.deactivate(deepest, dropped)
                xs, ys = (np.where(held.mask(), a, 0) for a in (xs, ys))
        mask, v = held.mask(), ys
        for k in range(2):
            v = np.where(np.arange(m) % 3 > k, np.sin(v) + 0.5 * xs, v)
        weights = 1.0 + np.arange(n)[:, None] / 128 + np.arange(m) / 64
        return np.where(mask, v * v * weights, 0).sum()

    for memory in (None, None, 300_000, 300_000) if session == "cpu" else (None, None):
        qd.deactivate_all_snodes()
        given.from_numpy(values)
        with qd.ad.Tape(loss, memory=memory):
            start()
            for step in range(3):
                grow()
                square()
                if step == 1:
                    drop()
            total()
        want = [right(values + 1e-30j * np.eye(6)[k]).imag / 1e-30 for k in range(6)]
        np.testing.assert_allclose(loss[None], right(values).real, rtol=1e-11)
        np.testing.assert_allclose(given.grad.to_numpy(), want, rtol=1e-11, atol=1e-12)
