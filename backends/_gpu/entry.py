"""The fast entry of a GPU frame: a function that is generated for the kernel's parameters and checks each argument as
strictly as the CPU's entry does, sets it, and launches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends import overlap
from quadrants_lab.backends.launch import ArrayParam, Param, ScalarParam
from quadrants_lab.ir.record import function
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends._gpu.frame import GpuFrame


_FEW = 8  # arrays of which each pair is compared


class LongAxis(Exception):
    """An array has an axis that is too long for the kernel's code."""


def meet(a: Any, b: Any) -> bool:
    """Whether two arrays of the host, or two of the device, share memory."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a.__class__ is b.__class__ and np.may_share_memory(a, b)
    return bool(a.address < b.address + b.nbytes and b.address < a.address + a.nbytes)


def fits(t: DType, x: str) -> str:
    """A Python expression that says whether the variable ``x`` converts to the dtype without a loss that the caller
    would have to decide about."""
    if t.kind == "b":
        return f"{x}.__class__ is bool"
    if t.is_float:
        if t.bits == 16:
            return "False"
        most = float(np.finfo(t.numpy).max)
        inside = f"({x}.__class__ is int and abs({x}) < {most!r})"
        narrow = "" if t.bits == 64 else f" and not {most!r} < abs({x}) < inf"
        return f"(({x}.__class__ is float{narrow}) or {inside})"
    low, high = t.limits
    return f"({x}.__class__ is int and {low} <= {x} <= {high})"


def make_entry(frame: GpuFrame, params: list[Param], returns: str) -> Callable[..., Any]:
    """See `quadrants_lab.backends.launch.Frame.entry`."""
    if any(b.wide for b in frame.exe.kernel.buffers.values()):
        return lambda *args: NotImplemented
    types = {a.name: a.type for a in frame.exe.kernel.args}
    space: dict[str, Any] = {
        "memory": frame.device.memory, "array": np.ndarray, "bind_temp": frame.bind_temp, "launch": frame.launch,
        "ret": frame.ret, "set_arg": frame.set_arg, "view": frame.view, "inf": float("inf"), "long_axis": LongAxis,
        "meet": meet,
    }  # fmt: skip
    names = [f"a{n}" for n in range(len(params))]
    checks: list[str] = []
    sets: list[str] = []
    for n, p in enumerate(params):
        if isinstance(p, ScalarParam):
            checks.append(f"    if not {fits(types[p.arg], f'a{n}')}: return NotImplemented")
            if p.arg in frame.exe.sizing_args:
                sets.append(f"    set_arg({p.arg!r}, a{n})")
            else:
                space[f"pack{n}"], at = frame.place(p.arg)
                sets.append(f"    pack{n}(view, {at}, a{n})")
        elif isinstance(p, ArrayParam):
            b = frame.exe.kernel.buffers[p.buffer]
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
            sets.append(f"    g{n} = bind_temp({b.name!r}, a{n})")
            sets.append(f"    if g{n} is not None: after.append(g{n})")
    lines = ["def entry(*args):", f"    if len(args) != {len(params)}: return NotImplemented"]
    if names:
        lines.append(f"    {', '.join(names)}, = args")
    lines += [*checks, *_overlaps(frame, params, space)]
    if any(isinstance(p, ArrayParam) for p in params):
        lines += ["    after = []", "    try:", *(f"    {line}" for line in sets)]
        lines += ["    except long_axis: return NotImplemented", "    status = launch()"]
        lines.append("    for unbind in after: unbind()")
    else:
        lines += [*sets, "    status = launch()"]
    lines.append("    if status: return Ellipsis")
    lines.append(f"    return ret({returns!r})" if returns else "    return None")
    entry: Callable[..., Any] = function("entry", "\n".join(lines), space)
    return entry


def _overlaps(frame: GpuFrame, params: list[Param], space: dict[str, Any]) -> list[str]:
    """Lines that refuse arrays which overlap if the kernel writes to one of them. An ``aliased`` kernel takes them, but
    not those of the host: each would be copied by itself (`frames.launch_slowly`)."""
    arrays = [(n, p.buffer) for n, p in enumerate(params) if isinstance(p, ArrayParam)]
    written, aliased = frame.exe.written, frame.exe.kernel.aliased
    if len(arrays) > _FEW and not written.isdisjoint(name for _, name in arrays):
        kinds = [overlap.WRITTEN if name in written else overlap.READ for _, name in arrays]
        space["met"] = lambda given: any(given[n].__class__ is np.ndarray or not aliased
                                         for n, _ in overlap.overlapping(overlap.spans(given), kinds))  # fmt: skip
        return [f"    if met(({', '.join(f'a{n}' for n, _ in arrays)})): return NotImplemented"]
    pairs = [(n, m) for (n, a), (m, b) in combinations(arrays, 2) if {a, b} & written]
    if aliased:
        return [f"    if a{n}.__class__ is array and meet(a{n}, a{m}): return NotImplemented" for n, m in pairs]
    numbers = sorted({n for pair in pairs for n in pair})
    lines = [f"    s{n} = a{n}.__class__ is array or a{n}.imported" for n in numbers]
    met = "a{n} is a{m} or ((s{n} or s{m}) and meet(a{n}, a{m}))"
    return lines + [f"    if {met.format(n=n, m=m)}: return NotImplemented" for n, m in pairs]
