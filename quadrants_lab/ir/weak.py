"""Makes weak references to objects of the program, and tables whose entries are removed with the objects that their
keys name."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakMethod, ref

K = TypeVar("K")
V = TypeVar("V")


def has_weak(value: Any) -> bool:
    """Whether Python can refer weakly to the object. It cannot refer weakly to numbers, tuples, or objects of a class
    with ``__slots__`` that do not name ``__weakref__``."""
    return bool(type(value).__weakrefoffset__)


def strong(value: Any) -> Callable[[], Any]:
    """A function that returns the object, and keeps it alive."""
    return lambda: value


def weak(value: Any, gone: Any = None) -> Callable[[], Any]:
    """A function that returns the object as long as the program has it, and ``gone`` afterwards. If Python cannot refer
    weakly to the object, the function keeps it alive."""
    if not has_weak(value):
        return strong(value)
    found = ref(value)
    return found if gone is None else lambda: gone if (alive := found()) is None else alive


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A function that calls a bound method as long as the program has its object, and does nothing afterwards."""
    found = WeakMethod(method)

    def call(*args: Any) -> None:
        alive = found()
        if alive is not None:
            alive(*args)

    return call


class Table(dict[K, V]):
    """A dict whose keys name objects by their ids. An entry is removed as soon as one of its objects ends, before
    another object can get the same id. So an id in a key always stands for the same object.

    Entries may be removed at any time, so nobody may loop over the table itself: ``list(table.values())`` is safe.
    ``gone`` is called with the value of a removed entry."""

    __slots__ = ("__weakref__", "_ends", "_gone")

    def __init__(self, gone: Callable[[V], None] | None = None) -> None:
        self._ends: dict[K, list[ref[Any]]] = {}
        self._gone = gone

    def put(self, key: K, value: V, objects: Iterable[Any]) -> None:
        """Sets an entry. ``objects``: the objects that the key names. Python must be able to refer weakly to each."""
        mine = ref(self)

        def ended(_: Any) -> None:
            table = mine()
            value = None if table is None else table.pop(key, None)
            if table is not None and value is not None and table._gone is not None:
                table._gone(value)

        self[key] = value
        self._ends[key] = [ref(one, ended) for one in objects]

    def pop(self, key: K, *default: Any) -> Any:
        self._ends.pop(key, None)
        return super().pop(key, *default)

    def clear(self) -> None:
        self._ends.clear()
        super().clear()
