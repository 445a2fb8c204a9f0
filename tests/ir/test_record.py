"""`ir.record.dataclass` beside Python's own."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from itertools import product
from typing import Any, ClassVar

import pytest

from quadrants_lab.ir import record

KINDS = [dict(zip(("frozen", "slots", "eq"), row, strict=True)) for row in product((False, True), repeat=3)]


def classes(decorator: Any, **how: bool) -> tuple[type, type]:
    @decorator(**how)
    class Base:
        """What it is."""

        a: int
        b: list[int] = field(default_factory=list, compare=False)
        c: str = field(default="c", kw_only=True)
        known: ClassVar[int] = 3

    @decorator(**how)
    class More(Base):
        d: float = field(default=2.5, repr=False)
        e: int = field(default=4, init=False) if not how["slots"] else 4

        def twice(self) -> int:
            return 2 * self.a

    return Base, More


def outcome(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (TypeError, dataclasses.FrozenInstanceError) as e:
        return type(e)


@pytest.mark.parametrize("how", KINDS, ids=str)
def test_it_is_as_pythons(how: dict[str, bool]) -> None:
    def seen(decorator: Any) -> list[Any]:
        base, more = classes(decorator, **how)
        x, y, z = base(1), base(1, [5]), more(1, c="x")
        x.b.append(7)

        def change() -> None:
            x.a = 3

        found = [
            repr(x), repr(z), x == y, x == base(2), x != y, x == 1, z.twice(), y.b, base(4).b, z.c, z.d, z.e,
            outcome(lambda: hash(x) == hash(y)), outcome(change), x.a, outcome(base), outcome(lambda: base(1, [], "c")),
            outcome(lambda: base(1, f=2)), repr(dataclasses.replace(z, a=9)), dataclasses.asdict(y), copy.copy(y).b,
            repr(copy.deepcopy(z)), base.__match_args__, more.known, hasattr(x, "__dict__"), base.__doc__,
        ]  # fmt: skip
        return [*found, *(f.name for f in dataclasses.fields(more))]

    assert seen(record.dataclass) == seen(dataclasses.dataclass)


@record.dataclass(frozen=True, slots=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


@record.dataclass
class Own:
    a: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return True


@record.dataclass(frozen=True, slots=True)
class Alike:
    a: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)


def test_a_field_may_have_any_name() -> None:
    @record.dataclass(frozen=True)
    class Any_:
        self: int
        cls: int
        put: int = 3
        missing: list[int] = field(default_factory=list)
        other: int = 5
    x = Any_(1, cls=2)
    assert (x.self, x.cls, x.put, x.missing, x.other) == (1, 2, 3, [], 5)
    assert x == Any_(1, 2)
    assert x != Any_(2, 2)


def test_what_is_frozen_travels() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_methods_of_its_own_stay() -> None:
    assert (repr(Own(1)), Own(1) == 5, Own.__hash__) == ("own", True, None)
    assert hash(Alike(3)) == hash(Alike(3))


def test_an_init_is_compiled_when_it_has_been_called_often() -> None:
    @record.dataclass(slots=True)
    class Late:
        a: int
        b: list[int] = field(default_factory=list)
        c: int = 5
    before = Late.__init__
    for n in range(2 * record._FIRST):
        assert (Late.__init__ is before) == (n <= record._FIRST)
        made = Late(n, c=n) if n % 2 else Late(a=n)
        assert (made.a, made.b, made.c) == (n, [], n if n % 2 else 5)


def test_an_init_is_compiled_when_its_arguments_are_wrong() -> None:
    @record.dataclass(slots=True)
    class Late:
        a: int
    with pytest.raises(TypeError, match="positional argument"):
        Late(1, 2)  # type: ignore[call-arg]
    assert Late.__init__.__qualname__.endswith("Late.__init__")
    with pytest.raises(TypeError, match=r"Late.__init__\(\) missing 1 required positional argument: 'a'"):
        Late()  # type: ignore[call-arg]
