"""Programs of the user guide of Quadrants in words of our own: a row is a program of a page, with what it returns.
`GUIDE` has all of them: what no other test of tests/lang shows, or what the peer makes something else of."""

from lang import guide_devices, guide_fields, guide_kernels, guide_launching, guide_mathematics  # noqa: F401  # rows
from lang.user_rows import GUIDE

__all__ = ["GUIDE"]
