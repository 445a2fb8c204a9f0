"""Implements `qd.tensor` and `qd.Tensor`: one function to make, and one type for, fields and ndarrays.

A tensor is a field or an ndarray itself, not a wrapper: the class `Tensor` exists for `isinstance` and annotations
only. So a tensor is accepted wherever a field or an ndarray is accepted.
"""

from enum import IntEnum
from functools import wraps
from typing import Any, ClassVar

from quadrants_lab.errors import QuadrantsTypeError
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.dtypes import Shape, check_shape
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.lang.fields import add_constructors, field, ndarray


class Backend(IntEnum):
    """The kind of object that `tensor` makes: a field (kernels are compiled for each field) or an ndarray (one compiled
    kernel serves all of the same dtype and number of axes)."""

    FIELD = 0
    NDARRAY = 1


_OPTIONS = {Backend.FIELD: {"needs_grad", "needs_dual", "name", "offset"}, Backend.NDARRAY: {"needs_grad"}}


class _Kind(type):
    """Metaclass of `Tensor` and its subclasses. isinstance() is true for fields and ndarrays whose elements have
    ``axes`` axes; None allows any number."""

    axes: ClassVar[int | None]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Dense) and cls.axes in (None, len(value.element_shape))

    def __call__(cls, *args: Any) -> Any:
        return cls._of(*args)

    def __getattr__(cls, name: str) -> Any:
        """A function that calls the method ``name`` of its first argument, a field or ndarray: ``qd.Tensor.fill(x,
        1)``."""
        found = getattr(Dense, name, None)
        if found is None:
            missing_attribute(f"qd.{cls.__name__}", name, vars(Dense))
        if not callable(found):
            return found

        @wraps(found)
        def call(tensor: Any, *args: Any, **options: Any) -> Any:
            return getattr(cls._of(tensor), name)(*args, **options)

        return call

    def _of(cls, impl: Any) -> Any:
        if cls.__instancecheck__(impl):
            return impl
        raise TypeError(f"{cls.__name__}(impl) takes a field or ndarray, not a {type(impl).__name__}")


class Tensor(metaclass=_Kind):
    """Any field or ndarray. A kernel's parameter with this annotation also takes numpy and torch arrays, and None."""

    axes: ClassVar[int | None] = None


class VectorTensor(Tensor):
    """Any field or ndarray of vectors."""

    axes = 1


class MatrixTensor(Tensor):
    """Any field or ndarray of matrices."""

    axes = 2


def wrap(impl: Any) -> Any:
    """Returns a field or ndarray unchanged. Raises TypeError for any other object."""
    return Tensor._of(impl)


def tensor(
    dtype: Any, shape: Shape, *, backend: Backend = Backend.NDARRAY, layout: tuple[int, ...] | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    """An `ndarray` or `field` of zeros, by ``backend``; ``options`` are those of `ndarray` or `field`.

    ``layout``, a permutation of the axes (ValueError otherwise), is stored and has no effect: memory is row-major."""
    if not isinstance(backend, Backend):
        raise ValueError(f"backend={backend!r} is not a qd.Backend: it is qd.Backend.FIELD or qd.Backend.NDARRAY")
    for name in options:
        if name not in _OPTIONS[backend]:
            hint = "say layout=(1, 0) for order='ji'" if name == "order" else ""
            what = f"a tensor that is a {backend.name.lower()} takes no {name}="
            raise QuadrantsTypeError(what, code="QL2033", help=hint)
    axes = len(check_shape("tensor", shape))
    if layout is not None and sorted(layout) != list(range(axes)):
        raise ValueError(f"layout={layout} is not a permutation of the {axes} axes of the tensor")
    made: Any = (field if backend is Backend.FIELD else ndarray)(dtype, shape, **options)
    if layout is not None and tuple(layout) != tuple(range(axes)):
        for x in (made, made.grad, made.dual):
            if x:
                x.layout = tuple(layout)
    return made


add_constructors(tensor)
