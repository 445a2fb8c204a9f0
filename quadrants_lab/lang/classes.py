"""`@qd.data_oriented`: classes whose methods are kernels and funcs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from quadrants_lab.errors import QuadrantsSyntaxError

C = TypeVar("C", bound=type)


@overload
def data_oriented(cls: C, /) -> C: ...
@overload
def data_oriented(*, stable_members: bool = False, template_primitives: bool = True) -> Callable[[C], C]: ...
def data_oriented(cls: Any = None, /, *, stable_members: bool = False, template_primitives: bool = True) -> Any:
    """Allows kernels and funcs as methods of the class and of its subclasses; ``self`` is a compile-time argument.

    Kernels read the attributes of ``self``: fields and ndarrays, other such objects, containers, constants. A kernel is
    compiled again when an attribute that it reads has become a different field, ndarray or object. Numbers are
    constants of the compiled kernel: changing one has no effect on kernels that are already compiled. With
    ``template_primitives=False`` it has, and each value costs a compilation. ``stable_members`` is accepted.
    """

    def mark(cls: C) -> C:
        if not isinstance(cls, type):
            raise QuadrantsSyntaxError(f"@qd.data_oriented decorates a class, not {cls!r}", code="QL2115")
        cls.__qd_data_oriented__ = "constants" if template_primitives else "values"  # type: ignore[attr-defined]
        return cls

    return mark if cls is None else mark(cls)


def is_method(fn: Callable[..., Any]) -> bool:
    """Whether the function was defined in the body of a class."""
    return fn.__qualname__.rpartition(".")[0].rpartition(".")[2] not in ("", "<locals>")


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
