"""How fields and ndarrays are made: `field`, `ndarray`, and the constructors of Vector, Matrix and their types."""

from __future__ import annotations

from operator import index as as_index
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError, QuadrantsSyntaxError
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dense import Field, Ndarray, ScalarField, ScalarNdarray
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.elements import MatrixField, MatrixNdarray, VectorNdarray
from quadrants_lab.lang.matrix import Matrix, Vector
from quadrants_lab.lang.matrix_types import MatrixType, VectorType
from quadrants_lab.lang.shapes import Layout, Shape, check_offset, check_order, check_shape


def field(
    dtype: Any,
    shape: Shape | None = None,
    order: str | None = None,
    name: str = "",
    offset: Shape | None = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
) -> Field:
    """A dense field of zeros of a dtype, or of a vector or matrix type.

    ``shape`` is an int, or a tuple with up to 12 positive extents (() for 0-d). Without it the field has no memory
    until it is placed: ``qd.root.dense(qd.i, n).place(x)``. ``offset`` is the first index of each axis. ``order``, a
    permutation of the axes' letters, and ``layout`` are taken and do not change what a program means. ``needs_grad``
    (floating point only) gives it a ``.grad`` of the same shape, ``needs_dual`` a ``.dual``.
    """
    element_shape, type_ = _element("field", dtype, needs_grad or needs_dual)
    if not isinstance(layout, Layout):
        raise QuadrantsRuntimeTypeError(f"{layout!r} is not a qd.Layout", code="QL2024")
    x = (MatrixField if element_shape else ScalarField)(type_, element_shape, name)
    x.needs = frozenset(which for which, needed in (("grad", needs_grad), ("dual", needs_dual)) if needed)
    if shape is None:
        for what, given in (("offset", offset), ("order", order)):
            if given is not None:
                raise QuadrantsSyntaxError(f"shape cannot be None when {what} is set", code="QL2017")
        if type_.is_float:
            x.companion("grad")
            x.companion("dual")
        return x
    extents = check_shape("field", shape)
    check_order(order, extents)
    first = check_offset(offset, extents)
    x.allocate(extents, first)
    for which in x.needs:
        x.companion(which).allocate(extents, first)
    return x


def ndarray(dtype: Any, shape: Shape, needs_grad: bool = False) -> Ndarray:
    """A dense array of zeros to be passed to kernels: of a dtype, or of a vector or matrix type. See `field`."""
    element_shape, type_ = _element("ndarray", dtype, needs_grad)
    extents = check_shape("ndarray", shape)
    cls = (ScalarNdarray, VectorNdarray, MatrixNdarray)[len(element_shape)]
    x = cls(type_, element_shape)
    if needs_grad:
        x.grad = cls(type_, element_shape)
        x.grad.allocate(extents)
    x.allocate(extents)
    return x


def _element(kind: str, dtype: Any, differentiable: bool) -> tuple[tuple[int, ...], DType]:
    """Shape and dtype of the elements that the caller asked for: numbers, vectors or matrices."""
    what, shape = getattr(dtype, "__qd_type__", ""), ()
    if what:
        if what != "matrix" or dtype.given is None:
            raise QuadrantsRuntimeTypeError(
                f"{dtype!r} cannot be the element of a {kind} made so",
                code="QL2010",
                help="write S.field(shape=...) for a struct type S" if what == "struct" else "give it a dtype",
            )
        shape, dtype = dtype.shape, dtype.given
    if isinstance(dtype, (list, tuple)):
        raise QuadrantsRuntimeError("the entries of a vector or matrix must have one dtype", code="QL2018")
    type_ = as_dtype(dtype)
    if differentiable and not type_.is_float:
        raise QuadrantsRuntimeError(
            f"{type_} is not supported for a {kind} with needs_grad=True or needs_dual=True",
            code="QL2018",
            help="only floating point can have a gradient",
        )
    return shape, type_


def element_type(dtype: Any, *extents: int) -> MatrixType:
    """The type of vectors of n elements, or of matrices of n rows and m columns."""
    shape = tuple(as_index(n) for n in extents)
    if any(n <= 0 for n in shape):
        raise QuadrantsRuntimeError(f"{shape} is not the shape of a vector or matrix", code="QL2019")
    return VectorType(shape[0], 1, dtype) if len(shape) == 1 else MatrixType(shape[0], shape[1], dtype)


def vector_field(n: int, dtype: Any, *args: Any, **kwargs: Any) -> Field:
    """``qd.Vector.field(n, dtype, shape)``: a field of vectors of n elements; see `field`."""
    return field(element_type(dtype, n), *args, **kwargs)


def matrix_field(n: int, m: int, dtype: Any, *args: Any, **kwargs: Any) -> Field:
    """``qd.Matrix.field(n, m, dtype, shape)``: a field of matrices of n rows and m columns; see `field`."""
    return field(element_type(dtype, n, m), *args, **kwargs)


def vector_ndarray(n: int, dtype: Any, shape: Shape, needs_grad: bool = False) -> Ndarray:
    """``qd.Vector.ndarray(n, dtype, shape)``: an ndarray of vectors of n elements."""
    return ndarray(element_type(dtype, n), shape, needs_grad)


def matrix_ndarray(n: int, m: int, dtype: Any, shape: Shape, needs_grad: bool = False) -> Ndarray:
    """``qd.Matrix.ndarray(n, m, dtype, shape)``: an ndarray of matrices of n rows and m columns."""
    return ndarray(element_type(dtype, n, m), shape, needs_grad)


Vector.field, Vector.ndarray = staticmethod(vector_field), staticmethod(vector_ndarray)
Matrix.field, Matrix.ndarray = staticmethod(matrix_field), staticmethod(matrix_ndarray)
