"""Programs of the user guide of Quadrants in words of our own: a row is a program of a page, with what it returns.
`GUIDE` has all of them."""

from lang import (  # noqa: F401  # each adds rows
    guide_devices,
    guide_fields,
    guide_kernels,
    guide_launching,
    guide_loops,
    guide_mathematics,
    guide_values,
)
from lang.user_rows import GUIDE

__all__ = ["GUIDE"]
