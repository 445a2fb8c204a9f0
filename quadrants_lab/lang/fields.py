"""Implements `qd.field`, `qd.ndarray`, and the constructors `qd.Vector.field`, `qd.Matrix.field` and their like."""

from collections.abc import Callable
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError, QuadrantsSyntaxError
from quadrants_lab.lang.dense import Ndarray, ScalarField, ScalarNdarray
from quadrants_lab.lang.dtypes import (
    Layout,
    Shape,
    as_dtype,
    check_offset,
    check_order,
    check_shape,
    integers,
)
from quadrants_lab.lang.elements import MatrixField, MatrixNdarray, VectorNdarray
from quadrants_lab.lang.matrix import Matrix, Vector
from quadrants_lab.lang.matrix_types import MatrixType, VectorType
from quadrants_lab.lang.quantised import QuantField, QuantType


def field(
    dtype: Any,
    shape: Shape | None = None,
    order: str | None = None,
    name: str = "",
    offset: Shape | None = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
) -> Any:
    """A dense field of zeros of a dtype, or of a vector or matrix type.

    ``shape`` is an int, or a tuple with up to 12 positive extents (() for 0-d). Without it the field has no memory
    until it is placed: ``qd.root.dense(qd.i, n).place(x)``. ``offset`` is the first index of each axis. ``order``, a
    permutation of the axes' letters, and ``layout`` are accepted and have no effect. ``needs_grad`` (floating point
    only) gives it a ``.grad`` of the same shape, ``needs_dual`` a ``.dual``.
    """
    element_shape, type_ = _element("field", dtype, needs_grad or needs_dual)
    needs = frozenset(which for which, needed in (("grad", needs_grad), ("dual", needs_dual)) if needed)
    if isinstance(type_, QuantType):
        return _quantised(type_, element_shape, name, needs, shape)
    if not isinstance(layout, Layout):
        raise QuadrantsRuntimeTypeError(f"{layout!r} is not a qd.Layout", code="QL2024")
    x = (MatrixField if element_shape else ScalarField)(type_, element_shape, name)
    x.needs = needs
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


def _quantised(
    type_: QuantType, element_shape: tuple[int, ...], name: str, needs: frozenset[str], shape: Shape | None
) -> Any:
    """A quantised field, which has no memory until it is placed."""
    if shape is not None:
        raise QuadrantsRuntimeError(
            "a quantised field is made without a shape",
            code="QL2028",
            help="place it: b = qd.BitpackedFields(max_num_bits=32); b.place(x); qd.root.dense(qd.i, n).place(b)",
        )
    return QuantField(type_, element_shape, name, needs)


def ndarray(dtype: Any, shape: Shape, needs_grad: bool = False) -> Ndarray:
    """A dense array of zeros that can be passed to kernels, of a dtype or of a vector or matrix type. See `field`."""
    element_shape, type_ = _element("ndarray", dtype, needs_grad)
    extents = check_shape("ndarray", shape)
    cls = (ScalarNdarray, VectorNdarray, MatrixNdarray)[len(element_shape)]
    x = cls(type_, element_shape)
    if needs_grad:
        x.grad = cls(type_, element_shape)
        x.grad.allocate(extents)
    x.allocate(extents)
    return x


def _element(kind: str, dtype: Any, differentiable: bool) -> tuple[tuple[int, ...], Any]:
    """The shape and the dtype of the elements of a field or ndarray that is made with ``dtype``, which may also be a
    vector or matrix type. ``kind`` is "field" or "ndarray", for messages."""
    what, shape = getattr(dtype, "__qd_type__", ""), ()
    if what:
        if what != "matrix" or dtype.given is None:
            raise QuadrantsRuntimeTypeError(
                f"{dtype!r} cannot be the type of the elements of a {kind} here",
                code="QL2010",
                help="write S.field(shape=...) for a struct type S" if what == "struct" else "give it a dtype",
            )
        shape, dtype = dtype.shape, dtype.given
    type_: Any
    match dtype:
        case list() | tuple():
            raise QuadrantsRuntimeError("the entries of a vector or matrix must have one dtype", code="QL2018")
        case QuantType() if kind == "ndarray":
            raise QuadrantsRuntimeTypeError("an ndarray holds no quantised numbers", code="QL2028", help="use a field")
        case QuantType():
            type_, computed = dtype, dtype.compute
        case _:
            type_ = computed = as_dtype(dtype)
    if differentiable and not computed.is_float:
        raise QuadrantsRuntimeError(
            f"{type_} is not supported for a {kind} with needs_grad=True or needs_dual=True",
            code="QL2018",
            help="only floating point can have a gradient",
        )
    return shape, type_


def _element_type(dtype: Any, *extents: int) -> MatrixType:
    """The type of vectors of n elements, or of matrices of n rows and m columns."""
    wrong, cure = f"{extents} is not the shape of a vector or matrix", "an int from 1 on for each axis"
    shape = integers(extents, wrong, cure)
    if any(n <= 0 for n in shape):
        raise QuadrantsRuntimeError(wrong, code="QL2019", help=cure)
    return VectorType(shape[0], 1, dtype) if len(shape) == 1 else MatrixType(shape[0], shape[1], dtype)


def add_constructors(make: Callable[..., Any]) -> None:
    """Adds a static method with the name of ``make`` to `Vector` and `Matrix`. It takes the size of an element first,
    then the arguments of ``make``."""

    def of_vectors(n: int, dtype: Any, *args: Any, **options: Any) -> Any:
        return make(_element_type(dtype, n), *args, **options)

    def of_matrices(n: int, m: int, dtype: Any, *args: Any, **options: Any) -> Any:
        return make(_element_type(dtype, n, m), *args, **options)

    for cls, constructor in ((Vector, of_vectors), (Matrix, of_matrices)):
        constructor.__name__, constructor.__qualname__ = make.__name__, f"{cls.__name__}.{make.__name__}"
        constructor.__doc__ = f"The same as `qd.{make.__name__}`, for elements that are of this size."
        setattr(cls, make.__name__, staticmethod(constructor))


add_constructors(field)
add_constructors(ndarray)
