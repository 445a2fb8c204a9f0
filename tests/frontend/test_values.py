"""The laws of a kind of value: its tree of numbers can be taken apart and put together again."""

from typing import Any

import pytest

from quadrants_lab.frontend import values as V
from quadrants_lab.ir.nodes import Buffer
from quadrants_lab.ir.types import f32, i32

FIELD = V.Mem(Buffer("x", "field", f32, 2, (4, 3)), "x", (3,))
NUM, LIT, ARG = V.Num(7, f32), V.Lit(2.0), V.ArgRef("a", i32)
VECTOR = V.Matrix((2,), (NUM, LIT))
ROWS = V.Matrix((2, 2), (NUM,) * 4)
BALL = V.Struct(None, {"pos": VECTOR, "mass": NUM})
LISTED = V.List([BALL, LIT], 1, fixed=V.PASSED)
DICT = V.Dict({"a": ROWS, 3: LISTED}, 0)

# a value, the names of its numbers as a local "v", how many entries Python sees, and what a message calls it
KINDS: dict[str, tuple[Any, list[str], int | None, str]] = {
    "number": (NUM, ["v"], None, "a number of dtype f32"),
    "literal": (LIT, ["v"], None, "the number 2.0"),
    "argument": (ARG, ["v"], None, "a number of dtype i32"),
    "temp": (V.Temp(FIELD.buffer, "s"), ["v"], None, "a shared local"),
    "element": (V.Element(FIELD, (0,)), ["v"], None, "an element"),
    "vector": (VECTOR, ["v[0]", "v[1]"], 2, "a vector of 2"),
    "matrix": (ROWS, ["v[0,0]", "v[0,1]", "v[1,0]", "v[1,1]"], 2, "a 2 x 2 matrix"),
    "struct": (BALL, ["v.pos[0]", "v.pos[1]", "v.mass"], None, "a struct of pos, mass"),
    "list": (LISTED, ["v[0].pos[0]", "v[0].pos[1]", "v[0].mass", "v[1]"], 2, "a list of 2"),
    "dict": (DICT, [*(f"v[a][{i},{j}]" for i in (0, 1) for j in (0, 1)), "v[3][0].pos[0]", "v[3][0].pos[1]",
                    "v[3][0].mass", "v[3][1]"], 2, "a dict of 2"),
    "tuple": (V.Tuple((NUM, LIT)), [], 2, "a tuple"),
    "view": (V.View(lambda: (NUM,)), [], 1, "a tuple"),
    "field": (FIELD, [], None, "a field with 1 axis"),
    "structs": (V.StructMem(None, {"a": FIELD}, "s"), [], None, "a field with 1 axis"),
    "shape": (V.Shape(FIELD.buffer, 2), [], 2, "a tuple"),
    "object": (V.Obj("text"), [], 4, "'text'"),
    "method": (V.BoundMethod("norm", VECTOR, "v.norm"), [], None, "a method"),
    "range": (V.Range(LIT, NUM, None), [], None, "a range"),
    "ndrange": (V.NdRange(((LIT, NUM),), (0,)), [], None, "an ndrange"),
    "grouped": (V.Grouped(FIELD), [], None, "a grouped loop"),
    "tile": (V.Tile(FIELD), [], None, "a tile of 3 x 3"),
    "slab": (V.Slab(FIELD, (), (NUM, NUM), (NUM, NUM)), [], None, "a slice of an array"),
    "outer": (V.Outer(NUM, NUM), [], None, "qd.outer(...)"),
}  # fmt: skip


def test_the_table_has_every_kind() -> None:
    shown = {type(value) for value, *_ in KINDS.values()}
    kinds = {kind for name in V.__all__ if isinstance(kind := getattr(V, name), type) and issubclass(kind, V.Value)}
    assert kinds - shown == {V.Value, V.Container}


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_its_numbers_in_its_structure(kind: str) -> None:
    value, names, length, words = KINDS[kind]
    numbers = list(value.leaves())
    assert list(value.leaf_names("v")) == names
    assert len(numbers) == len(names)
    fresh = [V.Num(k, i32) for k in range(len(numbers))]
    other = value.with_leaves(fresh)
    assert type(other) is (type(value) if value.children() or not numbers else V.Num)
    assert list(other.leaves()) == fresh
    assert list(other.leaf_names("v")) == names
    assert other.structure() == value.structure()
    assert (other.token, other.depth) == (value.token, value.depth)
    assert value.length == length
    assert value.describe() == words


@pytest.mark.parametrize("kind", KINDS)
def test_the_structure_tells_kinds_apart(kind: str) -> None:
    value, *_ = KINDS[kind]
    numbers = ["number", "literal", "argument", "temp", "element"]
    same = [name for name, (other, *_) in KINDS.items() if other.structure() == value.structure()]
    assert same == (numbers if kind in numbers else [kind])


def test_another_number_of_entries_is_another_structure() -> None:
    assert VECTOR.structure() != V.Matrix((3,), (NUM,) * 3).structure()
    assert BALL.structure() != V.Struct(None, {"pos": VECTOR, "speed": NUM}).structure()
    assert LISTED.structure() != V.List([BALL], 1).structure()
    assert DICT.structure() != V.Dict({"b": ROWS, 3: LISTED}, 0).structure()
