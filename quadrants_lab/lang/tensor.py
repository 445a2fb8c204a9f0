"""`qd.tensor` and `qd.Tensor`: one name for fields and ndarrays.

A tensor is a field or an ndarray, and not a wrapper of one: `Tensor` only adds `isinstance`. So it costs nothing and
is accepted wherever a field or an ndarray is.
"""

from __future__ import annotations

from enum import IntEnum
from functools import wraps
from typing import Any, ClassVar

from quadrants_lab.errors import QuadrantsTypeError
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.fields import element_type, field, ndarray
from quadrants_lab.lang.matrix import Matrix, Vector
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.lang.shapes import Shape, check_shape


class Backend(IntEnum):
    """What a tensor is: a field, which kernels are compiled for one by one, or an ndarray."""

    FIELD = 0
    NDARRAY = 1


_MAKERS: dict[Backend, Any] = {Backend.FIELD: field, Backend.NDARRAY: ndarray}
_OPTIONS = {
    Backend.FIELD: {"needs_grad", "needs_dual", "name", "offset"},
    Backend.NDARRAY: {"needs_grad"},
}


class _Kind(type):
    """isinstance() by the number of axes of an element; None: any."""

    axes: ClassVar[int | None]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Dense) and cls.axes in (None, len(value.element_shape))

    def __call__(cls, *args: Any) -> Any:
        return cls._of(*args)

    def __getattr__(cls, name: str) -> Any:
        """What a tensor has, a field or ndarray has, each in its own way: ``qd.Tensor.fill(x, 1)``."""
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
        if isinstance(impl, Dense) and cls.__instancecheck__(impl):
            return impl
        raise TypeError(f"{cls.__name__}(impl) takes a field or ndarray, not a {type(impl).__name__}")


class Tensor(metaclass=_Kind):
    """Any field or ndarray. A kernel's parameter with this annotation takes those, numpy and torch arrays, and None."""

    axes: ClassVar[int | None] = None


class VectorTensor(Tensor):
    """Any field or ndarray of vectors."""

    axes = 1


class MatrixTensor(Tensor):
    """Any field or ndarray of matrices."""

    axes = 2


def wrap(impl: Any) -> Any:
    """The tensor that a field or ndarray is: itself. TypeError for anything else."""
    return Tensor._of(impl)


def tensor(
    dtype: Any,
    shape: Shape,
    *,
    backend: Backend = Backend.NDARRAY,
    layout: tuple[int, ...] | None = None,
    **options: Any,
) -> Any:
    """A `field` or, by default, an `ndarray` of zeros; ``options`` are those of what it is.

    ``layout``, a permutation of the axes (ValueError otherwise), is taken and remembered; memory is row-major in any
    case, so it does not change what a program means."""
    if not isinstance(backend, Backend):
        raise ValueError(f"backend={backend!r} is not a qd.Backend: it is qd.Backend.FIELD or qd.Backend.NDARRAY")
    for name in options:
        if name not in _OPTIONS[backend]:
            hint = "say layout=(1, 0) for order='ji'" if name == "order" else ""
            raise QuadrantsTypeError(
                f"a tensor that is a {backend.name.lower()} takes no {name}=", code="QL2033", help=hint
            )
    axes = len(check_shape("tensor", shape))
    if layout is not None and sorted(layout) != list(range(axes)):
        raise ValueError(f"layout={layout} is not a permutation of the {axes} axes of the tensor")
    made = _MAKERS[backend](dtype, shape, **options)
    if layout is not None and tuple(layout) != tuple(range(axes)):
        for x in (made, made.grad, made.dual):
            if x is not None:
                x.layout = tuple(layout)
    return made


def vector_tensor(n: int, dtype: Any, shape: Shape, **options: Any) -> Any:
    """``qd.Vector.tensor(n, dtype, shape)``: a `tensor` of vectors of n elements."""
    return tensor(element_type(dtype, n), shape, **options)


def matrix_tensor(n: int, m: int, dtype: Any, shape: Shape, **options: Any) -> Any:
    """``qd.Matrix.tensor(n, m, dtype, shape)``: a `tensor` of matrices of n rows and m columns."""
    return tensor(element_type(dtype, n, m), shape, **options)


Vector.tensor, Matrix.tensor = staticmethod(vector_tensor), staticmethod(matrix_tensor)
