"""Implements `qd.BufferView`, which passes a range of elements of an ndarray of one axis to a kernel."""

from __future__ import annotations

from typing import Any, ClassVar

from quadrants_lab.errors import QuadrantsRuntimeTypeError
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.runtime.arguments.slots import ArraySlot, ScalarSlot, StructSlot


@dataclass(frozen=True, slots=True, repr=False)
class BufferView:
    """``size`` elements of the ndarray ``arr``, from ``offset`` on; ``arr[8:24]`` makes one. In a kernel its first
    element is ``v[0]``, and it has a ``size`` and a ``shape``."""

    arr: Any
    offset: int
    size: int
    __qd_view__: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not getattr(self.arr, "__qd_ndarray__", False) or len(self.arr.shape) != 1:
            what = f"a view needs an ndarray of one axis, not {self.arr!r}"
            raise QuadrantsRuntimeTypeError(what, code="QL2133")
        _check("view", self.offset, self.size, self.arr.shape[0])

    def __class_getitem__(cls, dtype: Any) -> BufferViewType:
        return BufferViewType(dtype)

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)

    def get_ndarray(self) -> Any:
        """The ndarray that it is a view of."""
        return self.arr

    def subview(self, offset: int, size: int) -> BufferView:
        """A view of a part of this one, from its element ``offset`` on."""
        _check("subview", offset, size, self.size)
        return BufferView(self.arr, self.offset + offset, size)

    def __getitem__(self, key: Any) -> BufferView:
        return self.subview(*span(key, self.size))

    def __repr__(self) -> str:
        return f"<qd.BufferView of {self.arr!r}: {self.offset} to {self.offset + self.size}>"


def _check(what: str, offset: int, size: int, length: int) -> None:
    if not 0 <= offset <= offset + size <= length:
        raise ValueError(f"{what} out of range: offset={offset}, size={size}, parent size={length}")


def span(key: Any, length: int) -> tuple[int, int]:
    """The offset and the size of the range that the slice ``key`` selects from ``length`` elements."""
    if not isinstance(key, slice):
        raise TypeError(f"a view is sliced outside of kernels, v[2:6]; it has no element [{key!r}] there")
    if key.step not in (None, 1):
        raise ValueError(f"a view has step 1, not {key.step}")
    begin, end, _ = key.indices(length)
    return begin, max(0, end - begin)


@dataclass(frozen=True, slots=True)
class BufferViewType:
    """The annotation of a parameter that takes a `BufferView`, with elements of ``dtype`` if one is given;
    ``qd.BufferView[qd.f32]`` is another way to write it. ``boundary`` is accepted and has no effect."""

    dtype: Any = None
    boundary: str = "unsafe"
    __qd_type__: ClassVar[str] = "view"

    def slot(self, name: str) -> StructSlot:
        dtype = None if self.dtype is None else as_dtype(self.dtype)
        numbers = ((n, ScalarSlot(f"{name}.{n}", i32)) for n in ("offset", "size"))
        return StructSlot(name, BufferView, (("arr", ArraySlot(f"{name}.arr", dtype, 1, None)), *numbers), True)
