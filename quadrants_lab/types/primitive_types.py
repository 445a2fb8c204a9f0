"""`qd.types.primitive_types`: the dtypes, and sets of them."""

from quadrants_lab.ir.types import DTYPES
from quadrants_lab.lang.annotations import ref
from quadrants_lab.lang.dtypes import *  # noqa: F403  # exactly the dtypes
from quadrants_lab.lang.dtypes import __all__ as _dtypes

__all__ = ["all_types", "integer_types", "real_types", "ref", *_dtypes]  # noqa: PLE0604  # the list holds strings

real_types = {float, *(t for t in DTYPES.values() if t.is_float)}
integer_types = {int, bool, *(t for t in DTYPES.values() if not t.is_float)}
all_types = real_types | integer_types
