"""The gradient and the dual of a field as its attributes, what stands for one that a field lacks, and the check of an
argument that must have one."""

from __future__ import annotations

from typing import Any, NoReturn

from quadrants_lab.errors import QuadrantsAttributeError, QuadrantsRuntimeError, QuadrantsRuntimeTypeError

NAMES = {"grad": "gradient", "dual": "dual"}  # of the attributes, in messages


class NoDerivative:
    """The `grad` (or `dual`) of a field of floating point without one. It is false; any other use of it is an error
    that says what is missing."""

    __slots__ = ("_of", "_which")
    __qd_absent__ = True

    def __init__(self, of: Any, which: str) -> None:
        self._of, self._which = of, which

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<no {self._which} of {self._of!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)  # copy and pickle look for some
        self.used()

    def wanted(self) -> Any:
        """The gradient or dual, which the field gets now, without memory."""
        return self._of.companion(self._which)

    def used(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises the error."""
        which = self._which
        raise QuadrantsAttributeError(
            f"{self._of!r} has no {NAMES[which]}",
            code="QL2059",
            help=f"make it with needs_{which}=True; qd.root.lazy_{which}() gives one to all fields of the session",
        )

    __getitem__ = __setitem__ = __iter__ = __len__ = __array__ = __float__ = used


class Companion:
    """The attribute of a field that has its gradient or dual. Integers and gradients have none: there it is None."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.kept = f"_{which}"  # the attribute that has it

    def __get__(self, field: Any, owner: Any = None) -> Any:
        if field is None:  # asked of the class
            return self
        found = getattr(field, self.kept)
        if found is not None or not field.dtype.is_float or field.primal is not None:
            return found
        return NoDerivative(field, self.which)

    def __set__(self, field: Any, found: Any) -> None:
        setattr(field, self.kept, found)


def check_has_derivative(x: Any, what: str, code: str, which: str = "grad", help: str = "") -> None:
    """Raises an error unless ``x`` is a field or ndarray with a gradient ("grad") or dual that has memory. ``what``
    describes ``x`` in the message."""
    is_dense = getattr(x, "__qd_field__", False) or getattr(x, "__qd_ndarray__", False)
    if is_dense and (x.has_grad() if which == "grad" else x.has_dual()):
        return
    if getattr(x, "__qd_struct_field__", False):
        help = "give the fields of its members: s.position, s.velocity"
    raise (QuadrantsRuntimeError if is_dense else QuadrantsRuntimeTypeError)(
        f"{what} must be a field or ndarray with a {NAMES[which]}, it is {x!r}",
        code=code,
        help=help or f"make it with needs_{which}=True",
    )
