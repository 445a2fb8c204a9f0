"""Implements `@qd.data_oriented`, for classes whose methods are kernels and funcs, and such methods bound to
objects."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import WeakKeyDictionary, ref

from quadrants_lab.errors import QuadrantsSyntaxError
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.weak import has_weak
from quadrants_lab.lang.dense import ScalarField
from quadrants_lab.runtime import session

if TYPE_CHECKING:
    from pathlib import Path

C = TypeVar("C", bound=type)


@overload
def data_oriented(cls: C, /) -> C: ...
@overload
def data_oriented(*, stable_members: bool = False, template_primitives: bool = True) -> Callable[[C], C]: ...
def data_oriented(cls: Any = None, /, *, stable_members: bool = False, template_primitives: bool = True) -> Any:
    """Allows kernels and funcs as methods of the class and of its subclasses; ``self`` is a compile-time argument.

    Kernels read the attributes of ``self``: fields and ndarrays, other data-oriented objects, containers, constants. A
    kernel is compiled again when an attribute that it reads has become a different field, ndarray or object. Numbers
    are constants of the compiled kernel: changing one has no effect on kernels that are already compiled. With
    ``template_primitives=False`` it has an effect: kernels read numbers when they run, integers as i32 or i64 and
    floats as default_fp. If a number must be known at compile time, as in `qd.static`, the kernel is compiled for each
    of its values; a bool is always treated this way. ``stable_members`` is accepted.
    """

    def mark(cls: C) -> C:
        if not isinstance(cls, type):
            raise QuadrantsSyntaxError(f"@qd.data_oriented decorates a class, not {cls!r}", code="QL2115")
        cls.__qd_data_oriented__ = "constants" if template_primitives else "values"  # type: ignore[attr-defined]
        cls.__qd_number__ = staticmethod(number_of)  # type: ignore[attr-defined]
        return cls

    return mark if cls is None else mark(cls)


class Number:
    """A number that is an attribute of an object, whose class has ``template_primitives=False``. Kernels read it from a
    0-d field; `state` writes the attribute's present value to this field before a launch."""

    __slots__ = ("__weakref__", "_fields", "_name", "_owner")

    def __init__(self, owner: Callable[[], Any], name: str) -> None:
        self._owner, self._name = owner, name
        # session -> (its field, the number that the field holds)
        self._fields: WeakKeyDictionary[session.Session, tuple[ScalarField, Any]] = WeakKeyDictionary()

    @property
    def state(self) -> Any:
        """What a kernel is compiled for: the dtype of the attribute if it is a number, otherwise its value."""
        value: Any = getattr(self._owner(), self._name, None)
        return self.field(value).dtype.name if type(value) in (int, float) else value

    def field(self, value: Any) -> ScalarField:
        """The field of the current session, which now holds this number."""
        now = session.current()
        dtype = now.settings.compile.default_fp if type(value) is float else i32 if i32.holds(value) else i64
        field, held = self._fields.get(now, (None, None))
        if field is None or field.dtype is not dtype:
            field = ScalarField(dtype, name=self._name)
            field.allocate(())
        elif held == value:
            return field
        field[None] = value
        self._fields[now] = field, value
        return field


_numbers: dict[int, tuple[Callable[[], Any], dict[str, Number]]] = {}  # by the id of an object that is alive


def number_of(owner: Any, name: str) -> Number | None:
    """The `Number` of an attribute; None if Python has no weak references to the owner."""
    if not has_weak(owner):
        return None
    known, numbers = _numbers.get(id(owner), (None, {}))
    if known is None or known() is not owner:
        key = id(owner)
        known, numbers = ref(owner, lambda _: _numbers.pop(key, None)), {}
        _numbers[key] = known, numbers
    return numbers.setdefault(name, Number(known, name))


def is_method(fn: Callable[..., Any]) -> bool:
    """Whether the function was defined in the body of a class."""
    return fn.__qualname__.rpartition(".")[0].rpartition(".")[2] not in ("", "<locals>")


def is_named(made: Any) -> bool:
    """Whether ``made``, the object that a decorator made of a function, is found in its module under the function's
    name."""
    module: Any = sys.modules.get(made.__module__)
    names = getattr(made, "__qualname__", "").split(".")  # a functools.partial has no name
    return reduce(lambda at, name: getattr(at, name, None), names, module) is made


class BoundFunc:
    """A func that is a method, bound to an object; kernels call it."""

    __slots__ = ("__qd_bound__",)

    def __init__(self, func: Any, instance: Any) -> None:
        self.__qd_bound__ = (func, instance)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundFunc):
            return NotImplemented
        (func, instance), (func2, instance2) = self.__qd_bound__, other.__qd_bound__
        return func is func2 and instance is instance2

    def __hash__(self) -> int:
        func, instance = self.__qd_bound__
        return hash((func, id(instance)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        func, instance = self.__qd_bound__
        return func(instance, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<bound {self.__qd_bound__[0]!r}>"


class BoundKernel:
    """A kernel that is a method, or its gradient, bound to an object."""

    __slots__ = ("__self__", "kernel")

    def __init__(self, kernel: Any, instance: Any) -> None:
        self.kernel, self.__self__ = kernel, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(self.__self__, *args, **kwargs)

    def reproduce(self, path: str | Path, *args: Any, **kwargs: Any) -> Path:
        """`Launchable.reproduce` of the method."""
        written: Path = self.kernel._reproduce(path, args, kwargs, self.__self__)
        return written

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters but for the object, for `inspect.signature`."""
        whole = inspect.signature(self.kernel._variants.source.fn)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __reduce__(self) -> Any:
        return BoundKernel, (self.kernel, self.__self__)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.kernel, name)
        return BoundKernel(value, self.__self__) if name in ("grad", "resume", "value_and_grad") else value

    def __repr__(self) -> str:
        return f"<bound {self.kernel!r} of {self.__self__!r}>"


def bind(kernel: Any, instance: Any, cls: type) -> BoundKernel:
    """The kernel with ``instance`` as its ``self``; raises an error if the class is not data-oriented."""
    if not hasattr(cls, "__qd_data_oriented__"):
        raise QuadrantsSyntaxError(
            f"kernel {kernel.name} is a method of {cls.__name__}, which is not data-oriented",
            code="QL2116",
            help=f"write @qd.data_oriented above class {cls.__name__}",
        )
    return BoundKernel(kernel, instance)
