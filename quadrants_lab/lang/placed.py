"""What fields do that are placed in nodes whose cells need not be active: see `lang.snode`."""

from __future__ import annotations

from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime.memory.memory import SHARED


class Placed:
    """A base of `Field`. What Python writes to an element activates its cell; what it writes to the whole goes to the
    elements that are active. Gradients and duals are dense."""

    __slots__ = ()
    snode: Any  # the node that it is placed in; None of a field made with a shape
    primal: Any
    shape: tuple[int, ...]
    element_shape: tuple[int, ...]
    _memory: Any

    def __reduce__(self) -> Any:
        if self._in_sparse():
            raise QuadrantsRuntimeError(
                f"{self!r} lies in a sparse layout, which cannot be pickled",
                code="QL2037",
                help="send to_numpy(), and place a field where it arrives",
            )
        return super().__reduce__()

    def parent(self, n: int = 1) -> Any:
        """The node that it is placed in, or one n - 1 levels above it; None of a field made with a shape."""
        return self.snode and self.snode.parent(n - 1)

    def lie_in(self, node: Any) -> None:
        """The field is placed in this node."""
        self.snode = node
        if self._in_sparse():
            self._memory.watchers = (*self._memory.watchers, self._activate)

    def clear(self) -> None:
        """Writes 0 to all of it, active or not."""
        self._memory.write(..., 0)

    def _activate(self, where: Any) -> None:
        at = where if type(where) is tuple else (where,)
        if ... not in at and where is not SHARED:
            self.snode.activate(at[: len(self.shape)])

    def _in_sparse(self) -> bool:
        return self.snode is not None and self.snode.sparse is not None and self.primal is None

    def _only(self) -> Any:
        return self.snode.active().reshape(*self.shape, *(1 for _ in self.element_shape)) if self._in_sparse() else None
