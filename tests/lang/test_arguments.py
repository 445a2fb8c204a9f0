"""Vectors, matrices, structs and dataclasses as arguments and results of kernels; arrays of vectors; every dtype."""

import collections
import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from sessions import EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsSyntaxError
from quadrants_lab.runtime.memory.refusals import ArgumentError

DTYPES = [qd.u1, qd.i8, qd.i16, qd.i32, qd.i64, qd.u8, qd.u16, qd.u32, qd.u64, qd.f16, qd.f32, qd.f64]
vec3 = qd.types.vector(3, qd.f32)
Body = qd.types.struct(mass=qd.f32, pos=vec3, tag=qd.i32)
Outer = qd.types.struct(body=Body, k=qd.i32)


session = session_of(EVERYWHERE)


def test_vectors() -> None:
    @qd.kernel
    def k(v: vec3, n: qd.i32) -> qd.f32:
        return v[0] + 2 * v[1] + n * v.z
    for given in ([1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), qd.Vector([1, 2, 3]), vec3(1, 2, 3)):
        assert k(given, 2) == 11
        assert k(n=2, v=given) == 11
    for bad in (3, [1, 2], [[1, 2, 3]], "abc", None, [1, [2], 3]):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"'v' of k must have shape \(3,\)"):
            k(bad, 2)
    with pytest.raises(QuadrantsSyntaxError, match="missing: n"):
        k([1, 2, 3])


def test_structs() -> None:
    @qd.kernel
    def k(s: Outer, t: Body) -> qd.f32:
        return s.body.mass + s.body.pos.y * s.k + t.tag
    given = Outer(body=Body(1, [1, 2, 3], 4), k=10)
    assert k(given, Body(tag=100)) == 121
    for bad in (3, {"body": 1}, vec3(1, 2, 3), Body()):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match="'s' of k must be a"):
            k(bad, Body())


def test_returned_values() -> None:
    @qd.kernel
    def vector(a: qd.f32) -> vec3:
        return vec3(a, 2 * a, 3)

    @qd.kernel
    def matrix() -> qd.types.matrix(2, 2, qd.i32):
        return qd.Matrix([[1, 2], [3, 4]])

    @qd.kernel
    def struct(a: qd.f32) -> Outer:
        return Outer(body=Body(mass=a, pos=vec3(a, a, a), tag=2), k=3)

    @qd.kernel
    def several(a: qd.f32) -> (vec3, qd.i32):
        return vec3(a, a, 1), 5

    assert vector(2).to_list() == [2, 4, 3]
    assert isinstance(vector(2), qd.Vector)
    assert matrix().to_list() == [[1, 2], [3, 4]]
    assert struct(1.5).to_dict() == {"body": {"mass": 1.5, "pos": [1.5, 1.5, 1.5], "tag": 2}, "k": 3}
    v, n = several(2)
    assert (v.to_list(), n) == ([2, 2, 1], 5)


def test_members_need_annotations_of_the_language() -> None:
    @dataclasses.dataclass
    class Wrong:
        a: list
    @qd.kernel
    def k(w: Wrong):
        pass
    with pytest.raises(QuadrantsSyntaxError, match=r"Wrong\.a"):
        k(Wrong([]))


@NEEDS_F64
def test_gradients_through_arguments() -> None:
    @qd.kernel
    def k(x: qd.types.NDArray[qd.types.vector(2, qd.f64), 1], w: qd.types.vector(2, qd.f64), loss: qd.types.ndarray()):
        for i in x:
            loss[None] += x[i][0] * w[0] + x[i][1] ** 2 * w[1]
    x = qd.Vector.ndarray(2, qd.f64, 3, needs_grad=True)
    loss = qd.ndarray(qd.f64, (), needs_grad=True)
    x.fill(3)
    with qd.ad.Tape(loss):
        k(x, [2, 5], loss)
        k(x, qd.Vector([1, 1]), loss)
    assert x.grad.to_numpy().tolist() == [[3, 36]] * 3
    loss.grad[None] = 1
    k.grad(x, [1, 0], loss)
    assert x.grad.to_numpy().tolist() == [[4, 36]] * 3


def test_arrays_of_vectors() -> None:
    @qd.kernel
    def k(a: qd.types.NDArray[vec3, 1]):
        for i in range(a.shape[0]):
            a[i] = [1, 2, i]

    want = [[1, 2, 0], [1, 2, 1]]
    for given in (np.zeros((2, 3), np.float32), qd.Vector.ndarray(3, qd.f32, 2)):
        for _ in range(2):
            k(given)
        assert np.asarray(given).tolist() == want
    wrong = (
        np.zeros((2, 2), np.float32), np.zeros(6, np.float32), np.zeros((2, 3)), qd.ndarray(qd.f32, (2, 3)),
        qd.Vector.ndarray(2, qd.f32, 2), qd.Vector.ndarray(3, qd.i32, 2), qd.Vector.ndarray(3, qd.f32, (2, 2)),
        qd.Matrix.ndarray(3, 1, qd.f32, 2), qd.Vector.field(3, qd.f32, 2),
    )  # fmt: skip
    for given in wrong:  # after a launch that went well: the installed launch must refuse too
        with pytest.raises(qd.QuadrantsRuntimeTypeError):
            k(given)


@NEEDS_F64
def test_open_annotations_take_any_elements() -> None:
    @qd.kernel
    def k(a: qd.types.ndarray(ndim=1)):
        for i in a:
            a[i] = 4

    @qd.kernel
    def v(a: qd.types.ndarray(dtype=qd.types.vector(2), ndim=1)):
        for i in a:
            a[i] = [1, 2]

    for given in (qd.Vector.ndarray(3, qd.f32, 2), qd.Matrix.ndarray(2, 2, qd.i32, 2), qd.ndarray(qd.f64, 2)):
        k(given)
        k(given)
        assert (given.to_numpy() == 4).all()
    for dtype in (qd.f32, qd.i64):
        x = qd.Vector.ndarray(2, dtype, 2)
        v(x)
        assert x.to_numpy().tolist() == [[1, 2]] * 2


@NEEDS_F64
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype) -> None:
    @qd.kernel
    def same(a: dtype) -> dtype:
        return a

    @qd.kernel
    def fill(out: qd.types.ndarray(dtype, 1), v: qd.types.vector(2, dtype)) -> qd.types.vector(2, dtype):
        for i in out:
            out[i] = v[1]
        return v

    top = 1 if dtype is qd.u1 else 2.5 if dtype.is_float else int(np.iinfo(dtype.numpy).max)
    out = qd.ndarray(dtype, 2)
    field = qd.field(dtype, 2)
    for _ in range(2):
        assert same(top) == top
        assert fill(out, [0, top]).to_list() == [0, top]
        fill(np.zeros(2, dtype.numpy), [0, top])
    field.copy_from(out)
    assert field[1] == out[1] == top


def bools(kind: str) -> Any:
    """True, False, True, True as an array or field."""
    if kind == "torch":
        torch = pytest.importorskip("torch")
        return torch.tensor([True, False, True, True])
    given = np.array([True, False, True, True])
    if kind == "numpy":
        return given
    memory = qd.field(qd.u1, shape=4) if kind == "field" else qd.ndarray(qd.u1, 4)
    memory.from_numpy(given)
    return memory


@pytest.mark.parametrize("kind", ["numpy", "torch", "field", "ndarray"])
@pytest.mark.parametrize("dtype", [qd.u1, bool], ids=["u1", "bool"])
def test_arrays_of_bools(kind, dtype) -> None:
    """A kernel reads them as conditions, and what it writes is a bool again, of a number that is not 0, too."""
    x, out = bools(kind), bools(kind)
    taken = qd.template() if kind == "field" else qd.types.ndarray(dtype, 1)

    @qd.kernel
    def k(x: taken, out: taken) -> qd.i32:
        n = 0
        for i in range(4):
            if x[i] and not (i == 3 or x[1]):
                n += 10
            n += x[i]
            out[i] = not x[i]
        out[0] = n > 5
        out[3] = qd.cast(256.0, qd.u1)
        return n

    assert k(x, out) == 23
    said, read = (a.numpy() if kind == "torch" else np.array(a) if kind == "numpy" else a.to_numpy() for a in (out, x))
    assert (said.dtype, said.tolist()) == (np.bool_, [True, True, False, True])
    assert read.tolist() == [True, False, True, True]


def test_templates_that_hold_numbers_are_taken_by_value():
    out = qd.field(qd.f32, ())

    @qd.kernel
    def first(a: qd.template()):
        out[None] = a[0]

    @qd.kernel
    def named(a: qd.template()):
        out[None] = qd.static(a["x"])

    for given in (np.array([1.0, 2.0]), qd.Vector([1.0, 2.0]), [1.0, 2.0]):
        first(given)
        assert out[None] == 1
        given[0] = 7.0
        first(given)
        assert out[None] == 7
    given = {"x": 1.0}
    named(given)
    given["x"] = 7.0
    named(given)
    assert out[None] == 7


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    gain: float
    unit: float = dataclasses.field(default=1.0, compare=False)


class Equal:
    """Compares equal to everything."""

    def __init__(self, name: str, gain: float, unit: float = 1.0) -> None:
        self.gain, self.unit = gain, unit

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Unhashed(Equal):
    __hash__ = None


@pytest.mark.parametrize(("made", "plans"), [(Frozen, 4), (Equal, 8), (Unhashed, 8)])
def test_equal_templates_are_not_one(made, plans) -> None:
    @qd.kernel
    def inverse(a: qd.template()) -> qd.f32:
        return a.unit / a.gain
    kept = []  # what was compiled for an object goes with it
    for _ in range(2):
        kept += [made("a", gain) for gain in (0.0, -0.0, 2)] + [made("a", 2, unit=3.0)]
        assert [inverse(given) for given in kept[-4:]] == [np.inf, -np.inf, 0.5, 1.5]
    assert len(inverse.dispatcher.plans) == plans


def test_templates_that_python_changes_in_place() -> None:
    @qd.kernel
    def total(a: qd.template()) -> qd.i32:
        s = 0
        for i in qd.static(a):
            s += i
        return s

    for numbers in ({1}, collections.deque([1])):
        assert total(numbers) == 1
        getattr(numbers, "add" if isinstance(numbers, set) else "append")(2)
        assert total(numbers) == 3

    @qd.kernel
    def known(a: qd.template()) -> qd.i32:
        return qd.static(len(a[0]) if a.dtype.hasobject else a.count())

    of_lists = np.empty(1, dtype=object)
    of_lists[0] = [1]
    assert known(of_lists) == 1
    of_lists[0].append(2)
    assert known(of_lists) == 2
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    assert known(masked) == 2
    masked[0] = np.ma.masked
    assert known(masked) == 1
    assert known(np.ma.masked) == 0

    @qd.kernel
    def called(f: qd.template(), v: qd.f32) -> qd.f32:
        return f(v)

    factors = [2.0]
    scaled = functools.partial(lambda factors, v: factors[0] * v, factors)
    assert called(scaled, 1.0) == 2
    factors[0] = 3.0
    assert called(scaled, 1.0) == 3


def test_arrays_of_structs_whose_members_have_other_names() -> None:
    @qd.kernel
    def first(a: qd.template()) -> qd.i32:
        return qd.static(int(a[a.dtype.names[0]][0]) if "x" in a.dtype.names else -1)

    for name, value in (("x", 5), ("y", -1)):
        assert first(np.array([(5,)], dtype=[(name, "i4")])) == value


def test_a_struct_captured_and_one_as_template() -> None:
    body = Body(2, [1, 2, 3], 4)
    @qd.kernel
    def captured() -> qd.f32:
        return body.mass * body.pos.z
    assert captured() == 6


@pytest.mark.parametrize(("given", "help"), [
    ("3", "int(...) or float(...) reads a number from a text"), (np.ones(3), "take one element: x[i]"),
    (None, ""), (1.5, "convert it with int(...)"), (np.int64(2**40), "take a wider dtype"),
])  # fmt: skip
def test_what_to_do_about_an_argument_that_is_no_integer(given: object, help: str) -> None:
    @qd.kernel
    def k(a: qd.i32) -> qd.i32:
        return a

    with pytest.raises(ArgumentError) as raised:
        k(given)
    assert raised.value.help.startswith(help)
    assert bool(raised.value.help) == bool(help)


def test_a_mask_is_not_ignored() -> None:
    @qd.kernel
    def total(a: qd.types.ndarray()) -> qd.f32:
        s = 0.0
        for i in a:
            s += a[i]
        return s

    plain, x = np.arange(4, dtype=np.float32), qd.field(qd.f32, 4)
    masked = np.ma.masked_array(plain, plain > 1)
    for _ in range(2):  # the second launch takes the fast way
        assert total(masked.filled(0)) == 1.0
        with pytest.raises(ArgumentError, match="QL2043.*masked array(.|\n)*filled"):
            total(masked)
    with pytest.raises(TypeError, match="QL2012.*mask"):
        x.from_numpy(masked)


@pytest.mark.parametrize(("annotation", "says"), [
    ("NoSuchType", "annotation of 'p' cannot be evaluated: name 'NoSuchType' is not defined(.|\n)*define the type"),
    (["a long list"] * 20, "kernel k: an object of type list is not an annotation of the language"),
    (str, "kernel k: <class 'str'> is not an annotation of the language"),
], ids=["a name of nothing", "an object with a long text", "a class"])  # fmt: skip
def test_annotations_that_mean_nothing(annotation, says) -> None:
    def k(p: annotation):
        pass

    k.__annotations__["p"] = annotation
    with pytest.raises(qd.QuadrantsSyntaxError, match=says):
        qd.kernel(k)(1)
