"""What a recorded program reads around its function: numbers, objects, fields."""

import importlib
from array import array
from collections import ChainMap, UserList, deque
from ctypes import c_double
from functools import partial
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np
import pytest
from runtime.test_program import COUNT, session  # noqa: F401  # fixtures

import quadrants_lab as qd
from quadrants_lab.runtime.tape.environment import environment_key


def test_numbers_around_the_function_are_watched():
    x = qd.field(qd.i32, 2)

    @qd.kernel
    def add(by: qd.i32):
        for i in x:
            x[i] += by

    class Settings:
        def __init__(self) -> None:
            self.by = 1

        @qd.ad.program
        def method(self) -> None:
            add(self.by)

    settings, times = Settings(), 1

    @qd.ad.program
    def run() -> None:
        for _ in range(COUNT + times):
            add(settings.by)

    def grown(call: Any) -> int:
        before = x[0]
        call()
        return int(x[0] - before)

    global COUNT
    assert [grown(run) for _ in range(3)] == [2, 2, 2]
    COUNT = 2
    assert [grown(run) for _ in range(3)] == [3, 3, 3]
    times = 0
    assert [grown(run) for _ in range(3)] == [2, 2, 2]
    settings.by = 5
    assert [grown(run) for _ in range(3)] == [10, 10, 10]
    assert [grown(settings.method) for _ in range(3)] == [5, 5, 5]
    settings.by = 7
    assert [grown(settings.method) for _ in range(3)] == [7, 7, 7]
    COUNT = 1


def test_fields_around_the_function_count_by_which_they_are():
    a, b = qd.field(qd.f32, 2), qd.field(qd.f32, 2)

    @qd.kernel
    def add(x: qd.template()):
        for i in x:
            x[i] += 1.0

    holder, near = SimpleNamespace(x=a), a

    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, x: Any) -> None:
            self.x = [x]

    @qd.ad.program
    def run(given: Any) -> None:
        add(holder.x)
        add(near)
        add(given.x[0])

    for n, x in enumerate([a, a, b, a, b, b, b, a]):
        holder.x = near = x
        x.fill(n)
        run(Unhashable(x))
        assert x[1] == n + 3


FAR: Any = 1.0


def far() -> Any:
    return FAR


def set_far(by: Any) -> None:
    global FAR
    FAR = by


class ByClass:
    by = 1.0


class Held:
    """A number that operators and a constructor read."""

    first = 1.0

    def __init__(self) -> None:
        self.by = Held.first

    def __call__(self) -> float:
        return self.by

    def __getitem__(self, n: int) -> float:
        return self.by

    def __get__(self, owner: Any, kind: Any = None) -> float:
        return self.by


HELD = Held()


class Holder:
    of = HELD


def named() -> None:
    pass


def set_named(by: float) -> None:
    named.__dict__["by"] = by


BYTES, ARRAY, MAP = bytearray(1), array("d", [1.0]), ChainMap({"by": 1.0})
LIST, OBJECTS, NUMBER = UserList([1.0]), np.array([HELD], object), c_double(1.0)
NEAR, CHOSEN = {"by": 1.0}, [partial(float, 1.0)]
PLAIN, SOME, TURN, OUTER = [1.0], {1.0}, deque([1.0], 1), SimpleNamespace(inner=SimpleNamespace(by=1.0))
VIEW, WEAK = MAP.maps[0].values(), ref(HELD)


class Raises:
    """Raises another error than it should where it is asked for an attribute."""

    def __init__(self) -> None:
        self.numbers = {"by": 1.0}

    def __getattr__(self, name: str) -> float:
        return self.__dict__["numbers"][name]  # type: ignore[no-any-return]


RAISES = Raises()
INDIRECT: dict[str, tuple[Any, Any]] = {  # by where a number is: how it is read and how it is set
    "global": (lambda: FAR, set_far),
    "helper": (lambda: far(), set_far),
    "lambda": (lambda: (lambda: FAR)(), set_far),
    "partial": (lambda: CHOSEN[0](), lambda by: CHOSEN.__setitem__(0, partial(float, by))),
    "list": (lambda: next(by for by in PLAIN), lambda by: PLAIN.__setitem__(0, by)),
    "dict": (lambda: NEAR["by"], lambda by: NEAR.__setitem__("by", by)),
    "default": (lambda default=NEAR: default["by"], lambda by: NEAR.__setitem__("by", by)),
    "nested": (lambda: OUTER.inner.by, lambda by: setattr(OUTER.inner, "by", by)),
    "class": (lambda: ByClass().by, lambda by: setattr(ByClass, "by", by)),
    "set": (lambda: sum(SOME), lambda by: (SOME.clear(), SOME.add(by))),
    "deque": (lambda: TURN[0], TURN.append),
    "call": (lambda: HELD(), lambda by: setattr(HELD, "by", by)),
    "item": (lambda: HELD[0], lambda by: setattr(HELD, "by", by)),
    "descriptor": (lambda: Holder().of, lambda by: setattr(HELD, "by", by)),
    "constructor": (lambda: Held().by, lambda by: setattr(Held, "first", by)),
    "getattr": (lambda: getattr(HELD, "by"), lambda by: setattr(HELD, "by", by)),  # noqa: B009
    "function": (lambda: named.by, set_named),  # type: ignore[attr-defined]
    "bytes": (lambda: float(BYTES[0]), lambda by: BYTES.__setitem__(0, int(by))),
    "array": (lambda: ARRAY[0], lambda by: ARRAY.__setitem__(0, by)),
    "mapping": (lambda: MAP["by"], lambda by: MAP.__setitem__("by", by)),
    "sequence": (lambda: LIST[0], lambda by: LIST.__setitem__(0, by)),
    "view of a dict": (lambda: sum(VIEW), lambda by: MAP.__setitem__("by", by)),
    "array of objects": (lambda: OBJECTS[0].by, lambda by: setattr(HELD, "by", by)),
    "number of C": (lambda: NUMBER.value, lambda by: setattr(NUMBER, "value", by)),
    "weak reference": (lambda: WEAK().by, lambda by: setattr(HELD, "by", by)),  # type: ignore[union-attr]
    "computed name": (lambda: getattr(HELD, "".join("by")), lambda by: setattr(HELD, "by", by)),
    "all attributes": (lambda: next(iter(vars(HELD).values())), lambda by: setattr(HELD, "by", by)),
    "attribute that raises": (lambda: RAISES.by, lambda by: RAISES.numbers.__setitem__("by", by)),
}


def follows(read: Any, put: Any) -> None:
    """A program whose launch has what ``read`` returns as its argument makes the same call as Python alone, whatever
    ``put`` changes: also an integer to a float of the same value."""
    x = qd.field(qd.f32, 2)

    @qd.kernel
    def set_to(by: qd.template()):
        for i in x:
            x[i] = by // 2 + 1 / by

    @qd.ad.program
    def run() -> None:
        set_to(read())

    def called(call: Any) -> float:
        x.fill(0)
        call()
        return float(x[0])

    for by in (1.0, 3, 3.0, np.float32(5), 1, 1.0, 3):
        put(by)
        assert called(run) == called(run.__wrapped__), by


@pytest.mark.parametrize("where", INDIRECT)
def test_numbers_that_are_not_read_by_name_are_watched(where: str):
    follows(*INDIRECT[where])


def test_the_end_of_a_long_chain_of_objects_is_watched():
    last = first = SimpleNamespace(value=1, next=None)
    for _ in range(3000):
        first = SimpleNamespace(value=0, next=first)

    def end() -> int:
        at = first
        while at.next is not None:
            at = at.next
        return at.value

    follows(end, lambda value: setattr(last, "value", int(value)))


def test_what_a_package_of_another_environment_reads_is_not_watched(tmp_path, monkeypatch):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "elsewhere.py").write_text("state = [1]\ndef read():\n    return len(state)\n")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    elsewhere = importlib.import_module("elsewhere")
    before = environment_key(elsewhere.read, set())
    elsewhere.state.append(2)
    assert environment_key(elsewhere.read, set()) == before


def test_tensors_and_modules_of_torch_are_watched():
    torch = pytest.importorskip("torch")
    tensor, module = torch.ones(2), torch.nn.Linear(1, 1, bias=False)
    follows(lambda: float(tensor[0]), tensor.fill_)
    follows(lambda: float(module(torch.ones(1)).detach()), module.weight.data.fill_)
