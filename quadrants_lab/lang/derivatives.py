"""Implements the attributes `grad` and `dual` of a field, their value if a field has no gradient or dual, and a
check for arguments that must have one."""

from __future__ import annotations

from typing import Any, NoReturn

from quadrants_lab.errors import QuadrantsAttributeError, QuadrantsRuntimeError, QuadrantsRuntimeTypeError

NAMES = {"grad": "gradient", "dual": "dual"}  # names of the attributes in messages


class NoDerivative:
    """The value of the attribute `grad` (or `dual`) of a floating-point field that has none. It is false in a
    condition; every other use raises an error that says what is missing."""

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
            raise AttributeError(name)  # copy and pickle look for such names
        self.used()

    def wanted(self) -> Any:
        """Gives the field a gradient or dual without memory, and returns it."""
        return self._of.companion(self._which)

    def used(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises the error that the field has no gradient or dual."""
        which = self._which
        raise QuadrantsAttributeError(
            f"{self._of!r} has no {NAMES[which]}",
            code="QL2059",
            help=f"make it with needs_{which}=True; qd.root.lazy_{which}() gives one to all fields of the session",
        )

    __getitem__ = __setitem__ = __iter__ = __len__ = __array__ = __float__ = used


class Companion:
    """The descriptor of the attribute `grad` or `dual` of fields. For integer fields, and for gradients and duals
    themselves, the attribute is None."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.kept = f"_{which}"  # the attribute that stores the gradient or dual

    def __get__(self, field: Any, owner: Any = None) -> Any:
        if field is None:  # read from the class
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
