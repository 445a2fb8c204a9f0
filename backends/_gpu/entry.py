"""The fast entry of a GPU frame, made for the kernel's parameters, so that a launch walks over nothing: it checks each
argument as strictly as the CPU's does, sets it, launches."""

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
    """The callable; see `quadrants_lab.backends.launch.Frame.entry`."""
    types = {a.name: a.type for a in frame.exe.kernel.args}
    space: dict[str, Any] = {
        "memory": frame.device.memory, "array": np.ndarray, "borrow": frame.borrow, "launch": frame.launch,
        "ret": frame.ret,
    }  # fmt: skip
    names = [f"a{n}" for n in range(len(params))]
    checks: list[str] = []
    sets: list[str] = []
    borrows = False
    for n, p in enumerate(params):
        if isinstance(p, ScalarParam):
            space[f"fits{n}"] = matches_scalar(types[p.arg])
            space[f"set{n}"] = frame.setter(p.arg)
            checks.append(f"    if not fits{n}(a{n}): return NotImplemented")
            sets.append(f"    set{n}(a{n})")
        elif isinstance(p, ArrayParam):
            b = frame.exe.kernel.buffers[p.buffer]
            borrows = True
            space[f"dtype{n}"] = np.dtype(b.dtype.numpy)
            must = f"a{n}.dtype != dtype{n} or a{n}.ndim != {b.ndim}"
            flags = f"f{n}.c_contiguous and f{n}.aligned"
            if b.name in frame.exe.written:
                flags += f" and f{n}.writeable"
            checks += [
                f"    if a{n}.__class__ is not memory:",
                f"        if a{n}.__class__ is not array: return NotImplemented",
                f"        f{n} = a{n}.flags",
                f"        if not ({flags}): return NotImplemented",
                f"    if {must}: return NotImplemented",
            ]
            sets.append(f"    g{n} = borrow({b.name!r}, a{n})")
            sets.append(f"    if g{n} is not None: after.append(g{n})")
    lines = ["def entry(*args):", f"    if len(args) != {len(params)}: return NotImplemented"]
    if names:
        lines.append(f"    {', '.join(names)}, = args")
    lines += checks
    if borrows:
        lines.append("    after = []")
    lines += sets
    lines.append("    status = launch()")
    if borrows:
        lines.append("    for give_back in after: give_back()")
    lines.append("    if status: return Ellipsis")
    lines.append(f"    return ret({returns!r})" if returns else "    return None")
    exec("\n".join(lines), space)
    entry: Callable[..., Any] = space["entry"]
    return entry
