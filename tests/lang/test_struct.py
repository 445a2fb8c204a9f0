"""Structs, struct types and fields of structs, from Python."""

from copy import copy

import numpy as np
import pytest
from sessions import EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError
from quadrants_lab.lang.struct import MemberError

vec3 = qd.types.vector(3, qd.f32)
Body = qd.types.struct(mass=qd.f32, pos=vec3, tag=qd.i32)


@qd.dataclass
class Particle:
    pos: vec3
    mass: qd.f32

    @qd.func
    def energy(self):
        return 0.5 * self.mass * self.pos.dot(self.pos)

    def doubled(self):
        return 2 * self.mass


session = session_of(EVERYWHERE)


def test_values() -> None:
    b = Body(mass=1, pos=[1, 2, 3], tag=2.0)
    assert b.to_dict() == {"mass": 1.0, "pos": [1.0, 2.0, 3.0], "tag": 2}
    assert (b.mass, b["tag"], b.pos.y) == (1.0, 2, 2.0)
    b.mass = 5
    b.pos[1] = 9
    b["tag"] = 4
    assert str(b) == "{'mass': 5.0, 'pos': [1.0, 9.0, 3.0], 'tag': 4}"
    assert b.keys == ["mass", "pos", "tag"]
    assert Body().to_dict() == {"mass": 0.0, "pos": [0.0, 0.0, 0.0], "tag": 0}
    assert Body(1, [1, 2, 3]).to_dict() == {"mass": 1.0, "pos": [1.0, 2.0, 3.0], "tag": 0}
    for wrong in (lambda: Body(color=1), lambda: Body(1, 2, 3, 4), lambda: Body("x"), lambda: b.color):
        with pytest.raises((QuadrantsError, AttributeError)):
            wrong()
    with pytest.raises(AttributeError):
        b.color = 1


def test_untyped() -> None:
    s = qd.Struct(a=1, b={"c": 2.5}, v=[1, 2])
    assert s.to_dict() == {"a": 1, "b": {"c": 2.5}, "v": [1, 2]}
    assert s.b.c == 2.5
    assert qd.Struct({"a": 1}, b=2).keys == ["a", "b"]


def test_methods() -> None:
    p = Particle(pos=[1, 2, 3], mass=2)
    assert p.doubled() == 4
    assert set(Particle.methods) == {"energy", "doubled"}
    with pytest.raises(qd.QuadrantsRuntimeError, match="only from kernels"):
        p.energy()


def test_types() -> None:
    assert Body == qd.types.struct(mass=qd.f32, pos=qd.types.vector(3, qd.f32), tag=qd.i32)
    assert Body != qd.types.struct(mass=qd.f64, pos=vec3, tag=qd.i32)
    assert qd.types.struct(a=int, b=float).members == {"a": qd.i32, "b": qd.f32}
    for bad in (3, qd.types.ndarray(), "f32", None):
        with pytest.raises(ValueError, match="cannot be a member"):
            qd.types.struct(a=bad)
    with pytest.raises(QuadrantsError, match="default"):
        @qd.dataclass
        class Wrong:
            a: qd.f32 = 1


def test_members_are_a_dict_that_is_not_empty() -> None:
    for make in (lambda: qd.Struct.field(qd.f32, shape=4), lambda: qd.sparse.grid(qd.f32, 4)):
        with pytest.raises(MemberError, match="QL2029.*f32 is not a dict of members"):
            make()
    for make in (lambda: qd.types.struct().field(4), lambda: qd.sparse.grid({}, 4)):
        with pytest.raises(MemberError, match="without members"):
            make()


def test_fields() -> None:
    x = Body.field(shape=3)
    x[1].mass = 4
    x[1].pos = [1, 2, 3]
    x[1].pos.y = 7
    x[2] = Body(2, 3, 4)
    x[0] = {"mass": 2, "pos": [1, 2, 3], "tag": 3}
    got = x.to_numpy()
    assert got["mass"].tolist() == [2, 4, 2]
    assert got["pos"].tolist() == [[1, 2, 3], [1, 7, 3], [3, 3, 3]]
    assert x[1].to_dict() == {"mass": 4.0, "pos": [1.0, 7.0, 3.0], "tag": 0}
    assert (x.shape, x.keys, x.pos.element_shape) == ((3,), ["mass", "pos", "tag"], (3,))
    y = Body.field(shape=3)
    y.copy_from(x)
    assert y.tag.to_numpy().tolist() == [3, 0, 4]
    y.from_numpy({"mass": np.ones(3), "pos": np.ones((3, 3)), "tag": np.ones(3, int)})
    assert y.get_member_field("tag")[2] == 1
    y.fill(2)
    assert y[0].to_dict() == {"mass": 2.0, "pos": [2.0, 2.0, 2.0], "tag": 2}
    with pytest.raises(qd.QuadrantsAssertionError, match="outside"):
        x[3]
    with pytest.raises(qd.QuadrantsRuntimeTypeError):
        x[0] = {"mass": 1}
    with pytest.raises(AttributeError):
        _ = x.color
    with pytest.raises(KeyError, match=r"QL2012.* an array for each of mass, pos, tag, not \['mass'\]"):
        y.from_numpy({"mass": np.ones(3)})
    with pytest.raises(KeyError, match=r"QL2012.*not an object of type ndarray"):
        y.from_numpy(np.ones(3))
    held = x[0]
    x.mass[0] = 11
    assert held.mass == 11


def test_struct_field_from_members() -> None:
    x = qd.Struct.field({"a": qd.f32, "v": vec3}, methods={"more": lambda s: s.a + 1}, shape=2)
    x[0].a = 1
    assert x[0].more() == 2


@NEEDS_F64
def test_gradients_by_member() -> None:
    kind = qd.types.struct(a=qd.f64, v=qd.types.vector(2, qd.f64))
    x = kind.field(shape=3, needs_grad=True)
    loss = qd.field(qd.f64, (), needs_grad=True)
    x.a.fill(2)
    x.v.fill(3)

    @qd.kernel
    def k():
        for i in x:
            loss[None] += x[i].a * x[i].v[1]

    with qd.ad.Tape(loss):
        k()
    assert x.grad.a.to_numpy().tolist() == x.a.grad.to_numpy().tolist() == [3, 3, 3]
    assert x.grad[1].v.to_list() == [0, 2]
    assert x.has_grad()


KINDS_OF_MEMBERS = {  # members, and which of them have a gradient
    "all reals": ({"a": qd.f32, "v": vec3}, ["a", "v"]),
    "of Python": ({"k": int, "a": float, "v": qd.types.vector(3, float), "w": qd.types.vector(2, int)}, ["a", "v"]),
    "no dtype": ({"k": qd.i32, "m": qd.types.matrix(2, 2, None)}, ["m"]),
    "an integer": ({"k": qd.i32, "a": qd.f32}, ["a"]),
    "vectors of integers": ({"a": qd.f32, "w": qd.types.vector(2, qd.i32)}, ["a"]),
    "a struct with an integer": ({"s": qd.types.struct(k=qd.u1, a=qd.f32), "v": vec3}, ["s", "v"]),
    "a struct of integers": ({"s": qd.types.struct(k=qd.i64), "a": qd.f32}, ["a"]),
}


@pytest.mark.parametrize("members, real", KINDS_OF_MEMBERS.values(), ids=KINDS_OF_MEMBERS)
def test_members_that_are_reals_have_gradients(members: dict, real: list[str]) -> None:
    x = qd.types.struct(**members).field(shape=3, needs_grad=True, needs_dual=True)
    assert [list(x.grad.members), list(x.dual.members)] == [real, real]
    assert x.has_grad()
    assert x.has_dual()
    assert not qd.types.struct(**members).field(shape=3).has_grad()


def test_a_struct_of_integers_has_no_gradient() -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2018.*i32.*needs_grad"):
        qd.types.struct(k=qd.i32, w=qd.types.vector(2, qd.i32)).field(shape=3, needs_grad=True)
    assert not qd.types.struct(k=qd.i32).field(shape=3).has_grad()


def test_placing() -> None:
    kind = qd.types.struct(a=qd.f32, v=vec3)
    x, y = kind.field(), kind.field()
    qd.root.dense(qd.i, 3).place(x, x.grad)
    qd.root.dense(qd.ij, (2, 2)).place(y, offset=(1, 1))
    assert (x.shape, x.grad.shape, x.has_grad()) == ((3,), (3,), True)
    assert (y.offset, bool(y.grad)) == ((1, 1), False)
    y[1, 1].a = 2
    assert y.a.to_numpy()[0, 0] == 2


def test_a_copy_has_members_of_its_own():
    first = qd.types.struct(mass=qd.f32, pos=qd.types.vector(2, qd.f32))(1.0, [2.0, 3.0])
    second = copy(first)
    second.mass, second.pos[0] = 5.0, 6.0
    assert first.to_dict() == {"mass": 1.0, "pos": [2.0, 3.0]}
    assert second.to_dict() == {"mass": 5.0, "pos": [6.0, 3.0]}


def test_a_method_with_a_field_of_structs_asks_it_for_nothing_at_each_launch(monkeypatch) -> None:
    """Each launch compares what the object holds; an attribute that a field of structs lacks takes an error's time."""

    @qd.data_oriented
    class Bodies:
        def __init__(self):
            self.bodies = Body.field(shape=2)

        @qd.kernel
        def add(self):
            for i in self.bodies:
                self.bodies[i].mass += 1.0

    b = Bodies()
    b.add()
    asked, kind = [], type(b.bodies)
    get = kind.__getattr__
    monkeypatch.setattr(kind, "__getattr__", lambda self, name: asked.append(name) or get(self, name))
    b.add()
    assert asked == []
    b.bodies = Body.field(shape=2)  # another one is noticed
    b.add()
    assert b.bodies[0].mass == 1


def test_an_atomic_on_an_element_returns_what_was_there() -> None:
    """This holds for each entry of a vector in the element, too."""
    x, old = Particle.field(shape=2), Particle.field(shape=2)
    x[1] = {"pos": [1.0, 2.0, 3.0], "mass": 4.0}

    @qd.kernel
    def k():
        for i in range(1, 2):
            old[i] = qd.atomic_add(x[i], Particle(pos=vec3(10.0, 20.0, 30.0), mass=40.0))

    k()
    assert x[1].to_dict() == {"pos": [11.0, 22.0, 33.0], "mass": 44.0}
    assert old[1].to_dict() == {"pos": [1.0, 2.0, 3.0], "mass": 4.0}
