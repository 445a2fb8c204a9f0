"""The fast entry of a GPU frame: checks each argument as strictly as the CPU's does, sets it, launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends.launch import ArrayParam, Param, ScalarParam
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends._gpu.frame import GpuFrame


def matches_scalar(t: DType) -> Callable[[Any], bool]:
    """Whether a Python value is of the dtype without loss that the caller would have to decide about."""
    if t.kind == "b":
        return lambda x: type(x) is bool
    if t.is_float:
        if t.bits == 16:
            return lambda x: False
        most = float(np.finfo(t.numpy).max)
        return lambda x: (
            (type(x) is float and (t.bits == 64 or not most < abs(x) < float("inf")))
            or (type(x) is int and abs(x) < most)
        )
    low, high = int(np.iinfo(t.numpy).min), int(np.iinfo(t.numpy).max)
    return lambda x: type(x) is int and low <= x <= high


def make_entry(frame: GpuFrame, params: list[Param], returns: str) -> Callable[..., Any]:
    """The callable; it takes as many positional arguments as there are params."""
    types = {a.name: a.type for a in frame.exe.kernel.args}
    scalars: list[tuple[int, str, Callable[[Any], bool]]] = []
    arrays: list[tuple[int, str, Any, int, bool]] = []
    for n, p in enumerate(params):
        if isinstance(p, ScalarParam):
            scalars.append((n, p.arg, matches_scalar(types[p.arg])))
        elif isinstance(p, ArrayParam):
            b = frame.exe.kernel.buffers[p.buffer]
            arrays.append((n, b.name, np.dtype(b.dtype.numpy), b.ndim, b.name in frame.exe.written))
    count = len(params)

    def launch(*args: Any) -> Any:
        if len(args) != count:
            return NotImplemented
        for n, _, matches in scalars:
            if not matches(args[n]):
                return NotImplemented
        for n, _, dtype, ndim, written in arrays:
            a = args[n]
            if type(a) is not np.ndarray or a.dtype != dtype or a.ndim != ndim:
                return NotImplemented
            flags = a.flags
            if not (flags.c_contiguous and flags.aligned and (flags.writeable or not written)):
                return NotImplemented
        for n, name, _ in scalars:
            frame.set_arg(name, args[n])
        after = [frame.borrow(name, args[n]) for n, name, *_ in arrays]
        status = frame.launch()
        for give_back in after:
            if give_back is not None:
                give_back()
        if status:
            return Ellipsis
        return frame.ret(returns) if returns else None

    return launch
