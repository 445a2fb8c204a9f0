"""Derivatives by the complex step: f(x + ih).imag / h is f'(x) to the last digits, for nothing cancels.

``f`` is numpy code of analytic operations only; where it has to compare, it compares real parts. It shares nothing with
the compiler.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

H = 1e-40


def gradient(f: Callable[[Any], Any], x: Any) -> np.ndarray:
    """df/dx in the shape of the array ``x``, followed by the shape of ``f(x)`` if that is an array."""
    x = np.asarray(x, np.float64)
    rows = []
    for index in np.ndindex(*x.shape):
        moved = x.astype(np.complex128)
        moved[index] += 1j * H
        rows.append(np.imag(f(moved)) / H)
    return np.array(rows).reshape(x.shape + np.shape(rows[0]))
