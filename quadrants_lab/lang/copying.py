"""Makes `Dense.copy_from` launch a kernel, so that derivatives flow through the copy. If Python copied the values, they
would count as constants."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from quadrants_lab.lang.annotations import Template
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.kernel import Kernel, make_kernel
from quadrants_lab.lang.tensor import Tensor

_grouped: Any = SimpleNamespace(__qd_op__="grouped")
_static: Any = SimpleNamespace(__qd_op__="static")


def copy_from(to: Tensor, source: Tensor, shift: Template) -> None:
    for i in _grouped(to):
        if _static(shift is None):
            to[i] = source[i]
        else:
            to[i] = source[i + shift]


@cache
def _kernel() -> Kernel:
    return make_kernel(copy_from)


def _copy(to: Dense, source: Dense) -> None:
    """Copies ``source`` to ``to``, which has the same shape but maybe another offset."""
    shift = tuple(b - a for a, b in zip(to.offset or (0,) * to.ndim, source.offset or (0,) * to.ndim, strict=True))
    _kernel()(to, source, shift if any(shift) else None)


Dense.copy_by_launch = staticmethod(_copy)
