"""Fields placed by hand, offsets, orders."""

import numpy as np
import pytest
from sessions import EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsSyntaxError

session = session_of(EVERYWHERE)


@pytest.mark.parametrize(("place", "shape"), [
    (lambda x: qd.root.place(x), ()),
    (lambda x: qd.root.dense(qd.i, 4).place(x), (4,)),
    (lambda x: qd.root.dense(qd.ij, (4, 5)).place(x), (4, 5)),
    (lambda x: qd.root.dense(qd.ij, 5).place(x), (5, 5)),
    (lambda x: qd.root.dense(qd.ij, (5,)).place(x), (5, 5)),
    (lambda x: qd.root.dense(qd.i, 4).dense(qd.j, 3).place(x), (4, 3)),
    (lambda x: qd.root.dense(qd.j, 4).dense(qd.i, 3).place(x), (3, 4)),
    (lambda x: qd.root.dense(qd.i, 4).dense(qd.i, 3).place(x), (12,)),
    (lambda x: qd.root.dense(qd.ij, (4, 2)).dense(qd.ij, 3).place(x), (12, 6)),
    (lambda x: qd.root.dense(qd.jk, 4).place(x), (4, 4)),
    (lambda x: qd.root.dense(qd.axes(0, 2), 2).place(x), (2, 2)),
    (lambda x: qd.root.dense(qd.i, 4).place([x]), (4,)),
])
def test_shapes(place, shape) -> None:
    x = qd.Vector.field(2, qd.f32)
    place(x)
    assert x.shape == shape
    at = tuple(n - 1 for n in shape) or None
    x[at] = [1, 2]
    assert x.to_numpy().reshape(-1)[-1] == 2


@pytest.mark.parametrize("use", [
    lambda x: x.shape,
    lambda x: x[0],
    lambda x: x.__setitem__(0, 1),
    lambda x: x.fill(1),
    lambda x: x.to_numpy(),
    lambda x: x.from_numpy(np.ones(3)),
])
def test_use_before_placement_is_an_error(use) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="no memory yet"):
        use(qd.field(qd.f32))


def test_kernels_refuse_fields_that_are_not_placed() -> None:
    x = qd.field(qd.f32, needs_grad=True)
    @qd.kernel
    def k():
        x[0] = 1
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"x has no memory(.|\n)*x\[0\] = 1"):
        k()
    qd.root.dense(qd.i, 2).place(x)
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"x\.grad has no memory"):
        k()
    qd.root.lazy_grad()
    k()
    assert x[0] == 1


def test_gradients_are_placed_beside_or_lazily() -> None:
    a, b, c, n = qd.field(qd.f32), qd.field(qd.f32, needs_grad=True), qd.field(qd.f32), qd.field(qd.i32)
    shaped = qd.Vector.field(2, qd.f32, 5, offset=-1)
    parts = qd.types.struct(r=qd.f32, k=qd.i32).field(shape=4)
    node = qd.root.dense(qd.i, 3)
    node.place(a, a.grad)
    node.place(b)
    node.place(c, n)
    assert (a.has_grad(), b.has_grad(), c.has_grad()) == (True, False, False)
    assert not c.grad
    qd.root.lazy_grad()
    assert (a.has_grad(), b.has_grad(), c.has_grad(), n.has_grad()) == (True, True, True, False)
    assert b.grad.shape == c.grad.shape == (3,)
    assert b.grad.grad is None
    assert (shaped.grad.shape, shaped.grad.offset, parts.r.grad.shape, parts.k.grad) == ((5,), (-1,), (4,), None)
    qd.root.lazy_dual()
    assert c.has_dual()
    assert shaped.has_dual()
    c.grad[0] = 3
    qd.ad.clear_all_gradients()
    assert c.grad[0] == 0


@NEEDS_F64
def test_a_gradient_that_comes_late_is_seen_by_compiled_kernels() -> None:
    x, loss = qd.field(qd.f64), qd.field(qd.f64)
    qd.root.dense(qd.i, 3).place(x)
    qd.root.place(loss)
    x.fill(3)
    @qd.kernel
    def k():
        for i in x:
            loss[None] += x[i] ** 2
    k()
    qd.root.lazy_grad()
    with qd.ad.Tape(loss):
        k()
    assert x.grad.to_numpy().tolist() == [6, 6, 6]


def test_offsets() -> None:
    x = qd.field(qd.f32, shape=4, offset=-2, needs_grad=True)
    y = qd.Vector.field(2, qd.i32)
    qd.root.dense(qd.ij, (2, 3)).place(y, offset=(1, -1))

    @qd.kernel
    def k():
        for i in x:
            x[i] = i
        for i, j in y:
            y[i, j] = [i, j]

    k()
    assert x.to_numpy().tolist() == [-2, -1, 0, 1]
    assert (x[-2], x[1]) == (-2, 1)
    assert x.offset == x.grad.offset == (-2,)
    assert y.to_numpy().tolist() == [[[i, j] for j in (-1, 0, 1)] for i in (1, 2)]
    assert y[1, -1].to_list() == [1, -1]
    with pytest.raises(qd.QuadrantsAssertionError, match="begin at"):
        x[2]


@pytest.mark.parametrize(("options", "message"), [
    ({"shape": (4, 3), "offset": -2}, r"dimensionality of shape and offset must be the same \(2 != 1\)"),
    ({"shape": (4, 3), "offset": (1, 2, 3)}, r"\(2 != 3\)"),
    ({"offset": 1}, "shape cannot be None when offset is set"),
    ({"order": "ij"}, "shape cannot be None when order is set"),
    ({"shape": (4, 3), "order": "j"}, r"dimensionality of shape and order must be the same \(2 != 1\)"),
    ({"shape": (4, 3), "order": "ii"}, "must be different"),
    ({"shape": (4, 3), "order": "xy"}, "Invalid axis x"),
])
def test_bad_options(options, message) -> None:
    for make in (qd.field, lambda dtype, **o: qd.Vector.field(3, dtype, **o)):
        with pytest.raises(QuadrantsSyntaxError, match=message):
            make(qd.f32, **options)


@pytest.mark.parametrize("wrong", [
    lambda: qd.root.dense(qd.ij, (1, 2, 3)),
    lambda: qd.root.dense(qd.i, 0),
    lambda: qd.root.dense(qd.i, -1),
    lambda: qd.root.dense(qd.i, 2.5),
    lambda: qd.root.dense(3, 2),
    lambda: qd.root.dense(qd.i, 2).place(3),
    lambda: qd.root.dense(qd.i, 2).place(None),
    lambda: qd.root.dense(qd.i, 2).place(qd.field(qd.f32, shape=2)),
    lambda: qd.axes(-1),
    lambda: qd.root.hash(qd.i, 2),
    lambda: qd.root.dense(qd.i, 2).bitmasked(qd.j, 0),
    lambda: qd.FieldsBuilder().dynamic(qd.ij, 2),
])
def test_wrong_placements(wrong) -> None:
    with pytest.raises((qd.QuadrantsRuntimeError, qd.QuadrantsRuntimeTypeError)):
        wrong()


def test_a_field_is_placed_once() -> None:
    x = qd.field(qd.f32)
    node = qd.root.dense(qd.i, 2)
    node.place(x)
    with pytest.raises(qd.QuadrantsRuntimeError, match="placed already"):
        node.place(x)
    y = qd.field(qd.f32, needs_grad=True)
    node.place(y)
    with pytest.raises(qd.QuadrantsRuntimeError, match="one shape"):
        qd.root.dense(qd.i, 3).place(y.grad)


def test_entries_can_be_placed_one_by_one() -> None:
    x = qd.Vector.field(2, qd.f32)
    for k in range(2):
        qd.root.dense(qd.i, 3).place(x.get_scalar_field(k))
    assert x.shape == (3,)


def test_builders_give_their_memory_back() -> None:
    builder = qd.FieldsBuilder()
    x = qd.field(qd.f32)
    builder.dense(qd.i, 3).place(x)
    tree = builder.finalize()
    with pytest.raises(qd.QuadrantsRuntimeError, match="finalized"):
        builder.dense(qd.i, 2)

    @qd.kernel
    def k():
        for i in x:
            x[i] = 1

    k()
    assert x[2] == 1
    tree.destroy()
    with pytest.raises(qd.QuadrantsRuntimeError, match="no memory"):
        k()
    with pytest.raises(qd.QuadrantsRuntimeError, match="no memory"):
        x[2]


def test_a_builder_is_the_root_of_its_tree() -> None:
    builder = qd.FieldsBuilder()
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    builder.dense(indices=qd.i, dimensions=3).place(x)
    builder.place(y)
    assert (x.shape, y.shape, y.parent()) == ((3,), (), builder.root)
    assert x.parent(2) is builder.root is not qd.FieldsBuilder().root
    with pytest.raises(AttributeError, match="FieldsBuilder has no attribute 'sparce'"):
        builder.sparce  # noqa: B018


def test_nodes_know_their_shape() -> None:
    node = qd.root.dense(qd.i, 2).dense(qd.j, 3)
    assert (node.shape, node.parent().shape, node.parent(5).shape) == ((2, 3), (2,), ())
    assert repr(node.parent(2)) == repr(qd.root) == "qd.root"


def test_a_bounds_error_counts_as_the_program_does() -> None:
    qd.init(arch=qd.cpu, check_out_of_bound=True)
    x = qd.field(qd.i32, shape=(4, 3), offset=(-2, 5))

    @qd.kernel
    def write(i: qd.i32, j: qd.i32):
        x[i, j] = 1

    def launch(i: int, j: int) -> None:
        write(i, j)
        qd.sync()

    launch(1, 7)
    for i, j, message in ((2, 7, "2 .* axis 0 of x with extent 4 from -2"), (-2, 4, "4 .* axis 1 .* extent 3 from 5")):
        with pytest.raises(qd.QuadrantsAssertionError, match=f"index {message}"):
            launch(i, j)
