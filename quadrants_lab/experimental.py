"""`qd.experimental`: names that Quadrants keeps here."""

from quadrants_lab.lang.kernel import real_func

__all__ = ["real_func"]
