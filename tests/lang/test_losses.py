"""A number that its dtype cannot hold is an error that names value, place and dtype wherever Python passes numbers, and
nothing is written. Numbers that fit arrive, whole floats for integer dtypes among them."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.ir.types import DTYPES
from quadrants_lab.runtime.memory.fitting import LIMITS, LossError, check

INTEGERS = [t for t in DTYPES.values() if t.is_int]
GOLDEN = Path(__file__).with_name("losses.txt")

session = session_of(EVERYWHERE, autouse=False)

Mixed = qd.types.struct(a=qd.i32, b=qd.i8, v=qd.types.vector(2, qd.u8))


@qd.kernel
def scalar(a: qd.i32, b: qd.u8) -> qd.i32:
    return a + qd.cast(b, qd.i32)

@qd.kernel
def vector(v: qd.types.vector(2, qd.i32)) -> qd.i32:
    return v[0] + v[1]

@qd.kernel
def matrix(m: qd.types.matrix(2, 2, qd.u8)) -> qd.i32:
    return qd.cast(m[1, 0], qd.i32)

@qd.kernel
def record(s: Mixed) -> qd.i32:
    return s.a


class Things:
    """One object of each kind to which Python writes, all of integers."""

    def __init__(self) -> None:
        self.field = qd.field(qd.i8, shape=(2, 2), name="f8")
        self.array = qd.ndarray(qd.i32, shape=4)
        self.unsigned = qd.field(qd.u32, shape=4)
        self.vectors = qd.Vector.field(2, qd.i32, shape=3)
        self.arrays = qd.Vector.ndarray(2, qd.u8, shape=3)
        self.records = Mixed.field(shape=2)
        self.truth = qd.field(qd.u1, shape=2)
        self.real = qd.field(qd.f64, shape=4)

    def state(self) -> list[object]:
        every = (self.field, self.array, self.unsigned, self.vectors, self.arrays, self.truth)
        return [x.to_numpy().tolist() for x in every] + [{k: v.tolist() for k, v in self.records.to_numpy().items()}]


def setter(target: str, key: object, value: object) -> Callable[[Things], None]:
    def run(t: Things) -> None:
        getattr(t, target)[key] = value

    return run


def entry(t: Things) -> None:
    t.vectors[1][0] = 2**31


def letters(t: Things) -> None:
    t.vectors[1].xy = [2, 2.5]


def member(t: Things) -> None:
    t.records[1].b = 300


def inner(t: Things) -> None:
    t.records[1].v = [1, 256]


def whole_record(t: Things) -> None:
    t.records[1] = {"a": 1, "b": 2.5, "v": [1, 1]}


def copied(t: Things) -> None:
    t.real.from_numpy(np.array([1.0, 2.0, 3.25, 4.0]))
    t.array.copy_from(t.real)


def vector_entry(t: Things) -> None:
    qd.Vector([1, 2], qd.i8)[1] = 128


def vector_letter(t: Things) -> None:
    qd.Vector([1, 2]).x = 0.5


FLOATS = np.array([1.0, 2.0, 3.0, 4.0])
LOST: dict[str, Callable[[Things], object]] = {
    "i32 argument": lambda t: scalar(2**31, 1),
    "u8 argument": lambda t: scalar(1, -1),
    "float argument": lambda t: scalar(2.0, 1),
    "numpy argument": lambda t: scalar(np.int64(2**40), 1),
    "huge argument": lambda t: scalar(2**200, 1),
    "vector argument": lambda t: vector([1, 2**31]),
    "vector argument of floats": lambda t: vector(qd.Vector([1.0, 2.5])),
    "matrix argument": lambda t: matrix(qd.Matrix([[1, 2], [300, 4]])),
    "struct argument": lambda t: record(Mixed(a=2**31)),
    "element": setter("field", (0, 1), 300),
    "element, float": setter("field", (0, 1), 2.0),
    "element, numpy": setter("unsigned", 1, np.int64(-1)),
    "element, no number": setter("field", (0, 1), "3"),
    "element of an array": setter("array", 2, 2**31),
    "vector element": setter("vectors", 1, [1, 2**31]),
    "vector element, float": setter("vectors", 1, [1, 2.0]),
    "vector element, array": setter("arrays", 1, np.array([1, -1])),
    "entry of a vector": entry,
    "letters of a vector": letters,
    "fill": lambda t: t.field.fill(128),
    "fill with a fraction": lambda t: t.array.fill(2.5),
    "fill with vectors": lambda t: t.vectors.fill([1, 2.5]),
    "fill of an entry": lambda t: t.vectors.get_scalar_field(1).fill(2**31),
    "from_numpy, fraction": lambda t: t.array.from_numpy(np.array([1.0, 2.5, 3.5, 4.0])),
    "from_numpy, NaN": lambda t: t.array.from_numpy(np.array([1.0, 2.0, np.nan, 4.0])),
    "from_numpy, infinity": lambda t: t.array.from_numpy(np.array([1.0, 2.0, -np.inf, 4.0], np.float32)),
    "from_numpy, range of floats": lambda t: t.array.from_numpy(np.array([0.0, 2.0**31, 1e300, 4.0])),
    "from_numpy, range": lambda t: t.field.from_numpy(np.array([[1, 2], [3, 128]])),
    "from_numpy, sign": lambda t: t.unsigned.from_numpy(np.array([1, -1, 3, 4], np.int8)),
    "from_numpy, transposed": lambda t: t.field.from_numpy(np.array([[1, 2], [300, -400]]).T),
    "from_numpy, vectors": lambda t: t.vectors.from_numpy(np.array([[1, 2], [3, 4], [5, 2**32]])),
    "from_numpy, truth": lambda t: t.truth.from_numpy(np.array([1.0, 0.5])),
    "from_numpy, complex": lambda t: t.array.from_numpy(FLOATS * 1j),
    "from_torch": lambda t: t.array.from_torch(pytest.importorskip("torch").tensor([1, 2, 3, 2**31])),
    "copy_from": copied,
    "member": member,
    "vector in a struct": inner,
    "whole struct": whole_record,
    "fill of structs": lambda t: t.records.fill({"a": 1, "b": 2.5, "v": 1}),
    "from_numpy, structs": lambda t: t.records.from_numpy(
        {"a": np.ones(2), "b": np.array([1, 2]), "v": np.array([[1, 2], [3, -4]])}
    ),
    "struct": lambda t: Mixed(a=1, b=-129),
    "struct, fraction": lambda t: Mixed(a=1.5),
    "Vector": lambda t: qd.Vector([1, 2**31], dt=qd.i32),
    "Vector, fraction": lambda t: qd.Vector([1.0, 2.5], dt=qd.i32),
    "Matrix": lambda t: qd.Matrix([[1, 2], [3, 256]], qd.u8),
    "vector type": lambda t: qd.types.vector(2, qd.u8)(1, -1),
    "entry of a Vector": vector_entry,
    "letter of a Vector": vector_letter,
    "fill of a Vector": lambda t: qd.Vector([1, 2], qd.u8).fill(256),
}


@pytest.mark.parametrize("name", LOST)
def test_a_value_that_does_not_fit_is_an_error_and_writes_nothing(session, name: str) -> None:
    t = Things()
    before = t.state()
    with pytest.raises(qd.QuadrantsRuntimeTypeError) as caught:
        LOST[name](t)
    assert isinstance(caught.value, (TypeError, ValueError))
    assert t.state() == before


def test_messages(golden: Callable[[Path, str], None]) -> None:
    qd.init(arch=qd.cpu)
    t, out = Things(), []
    for name, run in LOST.items():
        if name != "from_torch":
            with pytest.raises(qd.QuadrantsRuntimeTypeError) as caught:
                run(t)
            out.append(f"--- {name}\n{type(caught.value).__name__}: {caught.value}\n")
    golden(GOLDEN, "\n".join(out))


def test_values_that_fit_arrive(session) -> None:
    t = Things()
    t.array.from_numpy(FLOATS)
    assert t.array.to_numpy().tolist() == [1, 2, 3, 4]
    t.array.from_numpy(np.array([-(2.0**31), 2.0**31 - 1, -0.0, 7]))
    assert t.array.to_numpy().tolist() == [-(2**31), 2**31 - 1, 0, 7]
    t.unsigned.from_numpy(np.array([0, 2**32 - 1, 5, 6]))
    assert t.unsigned.to_numpy().tolist() == [0, 2**32 - 1, 5, 6]
    t.field.fill(-7.0)
    t.vectors.fill([3.0, 4])
    t.truth.from_numpy(np.array([0, 300]))
    t.truth[0] = True
    t.records[0].b = 2.0
    t.records[1] = {"a": 1, "b": np.int64(-128), "v": [0, 255]}
    t.array[0], t.array[1], t.array[2] = True, np.uint64(5), np.bool_(True)
    t.real.from_numpy(np.array([1.0, 2.0, 3.0, 4.0]))
    t.unsigned.copy_from(t.real)
    assert t.state() == [
        [[-7, -7], [-7, -7]], [1, 5, 1, 7], [1, 2, 3, 4], [[3, 4]] * 3, [[0, 0]] * 3, [True, True],
        {"a": [0, 1], "b": [2, -128], "v": [[0, 0], [0, 255]]},
    ]  # fmt: skip
    assert scalar(True, np.uint64(255)) == 256
    assert vector(np.array([1, 2])) == 3
    assert matrix([[1, 2], [255, 4]]) == 255
    assert record(Mixed(a=2.0)) == 2
    assert qd.Vector([2.0, -3.0], qd.i8).to_list() == [2, -3]


@qd.kernel
def real(a: qd.f32, b: qd.f16) -> qd.f32:
    return a + qd.cast(b, qd.f32)


def test_real_numbers_are_rounded(session) -> None:
    """Numbers that are too large become infinity without a warning, as in a kernel."""
    x, h = qd.field(qd.f32, shape=2), qd.field(qd.f16, shape=2)
    inf = float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.from_numpy(np.array([1e300, 16777217.0]))
        assert x.to_numpy().tolist() == [inf, 16777216.0]
        x[0], x[1] = -1e300, 2**24 + 1
        h[0], h[1] = 65519.0, 65520.0
        assert x.to_numpy().tolist() == [-inf, 16777216.0]
        assert h.to_numpy().tolist() == [65504.0, inf]
        h.fill(2**20)
        assert h[1] == inf
        assert [real(v, 0.0) for v in (1e300, -(10**39), 2**24 + 1)] == [inf, -inf, 16777216.0]
        assert [real(0.0, v) for v in (70000, -65520.0, 65519)] == [inf, -inf, 65504.0]
        assert qd.Vector([1e300, 1.0], qd.f32)[0] == inf
    for wrong in (lambda: real(10**400, 0.0), lambda: x.fill(10**400)):
        with pytest.raises(TypeError, match="an integer of 1329 bits.*no f32 is that large"):
            wrong()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_every_dtype_at_its_ends(dtype) -> None:
    """`check` says of arrays of any dtype, size and layout what Python says of their numbers one by one."""
    low, high = LIMITS[dtype.name]
    ends = [low - 1, low, low + 1, 0, high - 1, high, high + 1, -(2**63), 2**63, 2**64 - 1]
    for given in (*INTEGERS, DTYPES["f32"], DTYPES["f64"]):
        for end in ends:
            if given.is_int and not LIMITS[given.name][0] <= end <= LIMITS[given.name][1]:
                continue
            value = given.numpy(end)
            fits = low <= int(value) <= high
            for size, at in ((1, 0), (70, 69), (100_000, 99_999)):
                array = np.zeros((2, size), given.numpy)
                array[1, at] = value
                layouts = {f"1, {at}": array, f"{at}, 1": array.T, f"1, {size - 1 - at}": array[:, ::-1]}
                for place, layout in layouts.items():
                    if fits:
                        check(layout, dtype, "x")
                    else:
                        with pytest.raises(LossError, match=rf"element \[{place}\], into x: {dtype} holds"):
                            check(layout, dtype, "x")
