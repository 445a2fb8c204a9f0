"""Fields and ndarrays from Python: element access, numpy both ways, and what is refused."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError, QuadrantsIndexError

MAKERS = pytest.mark.parametrize("make", [qd.field, qd.ndarray])

session = session_of(EVERYWHERE)


@MAKERS
@pytest.mark.parametrize("shape", [(), 5, (2, 3), (2, 1, 3), (2, 2, 2, 2), (1, 1, 2, 1, 1, 2, 1, 1)])
def test_elements_and_numpy_agree(make, shape) -> None:
    x = make(qd.f32, shape)
    data = np.random.default_rng(0).random(x.shape).astype(np.float32)
    x.from_numpy(data)
    for index in np.ndindex(x.shape):
        assert x[index] == data[index]
        x[index] = 2.5
        assert x[index] == 2.5
    assert (x.to_numpy() == 2.5).all()
    assert x.to_numpy().shape == x.shape
    x.fill(-1)
    assert (x.to_numpy() == -1).all()


def test_memory_is_aligned_and_to_numpy_copies() -> None:
    x = qd.field(qd.i8, 3)
    assert x._memory.address % 64 == 0
    x.to_numpy()[0] = 7
    assert x[0] == 0


@pytest.mark.parametrize(("dtype", "value", "read"), [
    (qd.i64, 2**40, 2**40),
    (qd.u32, 2**32 - 1, 2**32 - 1),
    (qd.u8, np.int64(255), 255),
    (qd.u1, 5, 1),
    (qd.f32, 3, 3.0),
    (qd.f32, 1e300, float("inf")),
    (qd.i32, np.int64(-7), -7),
    (qd.f64, np.float32(0.5), 0.5),
    (qd.i32, True, 1),
    (qd.f16, 1, 1.0),
    (qd.f32, np.array(2.5), 2.5),
    (qd.i32, np.array(7), 7),
])
def test_writes_convert_what_the_dtype_holds(dtype, value, read) -> None:
    x = qd.field(dtype, 2)
    x[1] = value
    assert x[1] == read
    assert x[0] == 0


@pytest.mark.parametrize("index", [(3, 0), (-1, 0), (0, 4), (0, -1)])
def test_an_index_outside_is_an_error(index) -> None:
    x = qd.field(qd.f32, (3, 4), name="x")
    with pytest.raises(AssertionError, match=r"index .* outside of <qd.field x: f32 \(3, 4\)>"):
        x[index]
    with pytest.raises(qd.QuadrantsAssertionError):
        x[index] = 1.0
    assert x.version == 0


@pytest.mark.parametrize("key", [0, (0,), (0, 0, 0), None, ()])
def test_the_wrong_number_of_indices_is_an_error(key) -> None:
    with pytest.raises(QuadrantsIndexError, match="takes 2 indices"):
        qd.field(qd.f32, (3, 4))[key]


@pytest.mark.parametrize("key", [1.0, "a", slice(None)])
def test_an_index_must_be_an_integer(key) -> None:
    with pytest.raises(TypeError, match="must be an integer"):
        qd.field(qd.f32, 3)[key]


@pytest.mark.parametrize(
    ("dtype", "value"), [(qd.i32, 1.5), (qd.i32, np.float32(2.5)), (qd.f32, "1"), (qd.f32, None), (qd.f32, np.ones(1))]
)
def test_a_wrong_value_changes_nothing(dtype, value) -> None:
    x = qd.field(dtype, 2)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot write"):
        x[0] = value
    with pytest.raises(TypeError, match="cannot write"):
        x.fill(value)
    assert x.version == 0


def test_from_numpy_checks_type_and_shape() -> None:
    x = qd.field(qd.f32, (2, 3))
    with pytest.raises(TypeError, match="numpy array"):
        x.from_numpy([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match="shape"):
        x.from_numpy(np.ones((3, 2)))
    x.from_numpy(np.arange(6.0).reshape(3, 2).T)  # any layout, any dtype
    assert x[1, 2] == 5
    y = qd.field(qd.f32, ())
    y.from_numpy(y.to_numpy() + 2)  # numpy makes a scalar of it
    assert y[None] == 2


def test_versions_count_writes() -> None:
    x = qd.field(qd.f32, 2)
    seen = [x.version]
    x[0] = 1.0
    seen.append(x.version)
    x.fill(2)
    seen.append(x.version)
    x.from_numpy(np.ones(2))
    seen.append(x.version)
    assert seen == sorted(set(seen))


@MAKERS
@pytest.mark.parametrize("shape", [0, -1, (2, 0), (1,) * 13])
def test_bad_shapes(make, shape) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="not a valid shape"):
        make(qd.f32, shape)


@MAKERS
@pytest.mark.parametrize("shape", [2**50, 2**62, 10**30, (2**32, 2**32)])
def test_more_memory_than_there_is(make, shape) -> None:
    with pytest.raises(MemoryError, match=r"error\[QL2039\]: f32 with shape .* takes .* bytes"):
        make(qd.f32, shape)
    x = make(qd.f32, 2)
    x.fill(3)
    assert x.to_numpy().tolist() == [3, 3]


@pytest.mark.parametrize("n", [0, -1, 2.5, "a", None])
def test_bad_sizes_of_vectors(n) -> None:
    with pytest.raises(QuadrantsError, match="QL2019"):
        qd.Vector.field(n, qd.f32, shape=2)


@pytest.mark.parametrize("dtype", ["f32", np.float32, 3, None])
def test_bad_dtypes(dtype) -> None:
    with pytest.raises(QuadrantsError, match="not a dtype"):
        qd.field(dtype, 3)


@MAKERS
def test_only_reals_have_gradients(make) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs_grad"):
        make(qd.i32, 3, needs_grad=True)
    x = make(qd.f64, (2, 3), needs_grad=True)
    assert x.grad.shape == (2, 3)
    assert x.grad.dtype is qd.f64
    assert x.grad.grad is None
    assert not make(qd.f32, 1).grad


def test_a_field_of_an_ended_session_is_an_error() -> None:
    x = qd.field(qd.f32, 3, name="x")
    qd.init(arch=qd.cpu, offline_cache=False)
    for use in (lambda: x[0], lambda: x.fill(1), lambda: x.to_numpy(), lambda: x.__setitem__(0, 1.0)):
        with pytest.raises(qd.QuadrantsRuntimeError, match="ended it"):
            use()


FIELDS = {
    "numbers": lambda **how: qd.field(qd.f32, 4, **how),
    "vectors": lambda **how: qd.Vector.field(2, qd.f64, 4, **how),
    "placed": lambda **how: placed(qd.field(qd.f32)),
    "structs": lambda **how: qd.types.struct(a=qd.f32, k=qd.i32).field(shape=4),
    "entry": lambda **how: qd.Vector.field(2, qd.f32, 4, **how).get_scalar_field(1),
}


def placed(x):
    qd.root.dense(qd.i, 4).place(x)
    return x


@pytest.mark.parametrize("which", ["grad", "dual"])
@pytest.mark.parametrize("make", FIELDS.values(), ids=FIELDS)
def test_a_derivative_that_a_field_lacks_is_false_and_says_so_when_it_is_used(make, which):
    lacking = getattr(make(), which, None) if make is not FIELDS["entry"] or which == "grad" else None
    if lacking is None:
        return
    assert not lacking
    assert not hasattr(lacking, "shape")
    assert repr(lacking).startswith(f"<no {which} of <qd.")

    @qd.kernel
    def uses(g: qd.template()):
        for i in range(4):
            g[i] = 1.0

    def assigns():
        lacking[0] = 1.0

    for use in (
        lambda: lacking[0], assigns, lambda: lacking.fill(0), lambda: lacking.to_numpy(), lambda: lacking.shape,
        lambda: np.asarray(lacking), lambda: uses(lacking),
    ):  # fmt: skip
        with pytest.raises(qd.QuadrantsRuntimeError, match=f"QL2059.*has no (gradient|dual)(.|\n)*needs_{which}=True"):
            use()


def test_integers_and_ndarrays_have_no_derivative_to_ask_for():
    """Programs ask `is None` there, as in Quadrants."""
    assert qd.field(qd.i32, 4).grad is None
    assert qd.ndarray(qd.f32, 4).grad is None
    assert qd.field(qd.f32, 4, needs_grad=True).grad


@qd.kernel
def double(x: qd.types.ndarray()):
    for i in x:
        x[i] = 2 * x[i]


def test_copies_come_in_the_order_of_launches_and_writes():
    x, y = qd.ndarray(qd.f32, 5), qd.ndarray(qd.f32, 5)
    x.fill(1.0)
    double(x)
    x[3] = 7.0
    y[1] = 9.0
    y.copy_from(x)
    double(x)
    assert y.to_numpy().tolist() == [2, 2, 2, 7, 2]
    y[0] = 5.0
    double(y)
    x.copy_from(y)
    x.copy_from(x)
    assert x.to_numpy().tolist() == [10, 4, 4, 14, 4]
