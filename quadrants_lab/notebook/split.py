"""Implements `%%qdkernel --shards N`: runs the call ``fn(params, data)`` that ends a cell on N parts of its data,
and compares the sum of their results with the whole."""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from quadrants_lab.distributed import map_gradients
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.notebook.cell import Cell, execute
from quadrants_lab.notebook.shards import Live
from quadrants_lab.runtime.observe.observers import unwatched
from quadrants_lab.widgets.tree import seconds

_AGREES = {2: 1e-2, 4: 1e-4, 8: 1e-9}  # bytes of the parameters' dtype -> tolerance relative to the sum of sizes


def parts(cell: Cell, namespace: dict[str, Any]) -> tuple[Callable[..., Any], Any, Any]:
    """``fn``, ``params`` and ``data`` of the cell's last expression; QL2212 if it is not of that form."""
    __tracebackhide__ = True
    if not cell.pair:
        raise QuadrantsRuntimeError(
            "--shards: the cell does not end in fn(params, data)",
            code="QL2212",
            help="fn is what map_gradients takes: it launches kernels under a Tape, and returns the loss",
        )
    fn, params, data = [execute(part, namespace) for part in cell.pair]
    return fn, params, data


def split(data: Any, count: int) -> list[Any]:
    """``data`` (an array, or a tuple, list or dict of arrays) cut along its first axis. QL2213 for anything else."""
    if isinstance(data, np.ndarray) and data.ndim and len(data) >= count:
        return np.array_split(data, count)
    if isinstance(data, Mapping):
        return [dict(zip(data, part, strict=True)) for part in split(tuple(data.values()), count)]
    arrays = isinstance(data, tuple | list) and all(isinstance(x, np.ndarray) and x.ndim for x in data)
    if arrays and len({len(x) for x in data}) == 1:
        return [type(data)(part) for part in zip(*(split(x, count) for x in data), strict=True)]
    raise QuadrantsRuntimeError(
        f"--shards {count} cuts arrays of {count} elements or more along their first axis; the data are {_shape(data)}",
        code="QL2213",
        help="pass an array, or a tuple, list or dict of arrays of one length",
    )


def _shape(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"of shape {data.shape}"
    if isinstance(data, Mapping | tuple | list):
        inside = data.values() if isinstance(data, Mapping) else data
        return f"a {type(data).__name__} of {', '.join(map(_shape, inside))}"
    return f"of type {type(data).__name__}"


def compared(fn: Callable[..., Any], params: Any, data: Any, count: int) -> str:
    """A sentence that compares the sum over ``count`` shards on Dask's workers with one run over all data in this
    session. Observers see the run in this session."""
    pieces = split(data, count)
    start = perf_counter()
    whole = map_gradients(fn, params, [data], client=False, summed=True)
    here, loss, right = perf_counter() - start, float(whole.losses[0]), _flat(whole.gradients)
    start = perf_counter()
    with unwatched():
        found = map_gradients(fn, params, pieces, progress=Live(count))
    took = perf_counter() - start
    rows = [_flat(g) for g in found.gradients]
    total, size = sum(rows), sum(np.abs(r) for r in rows)
    off = float(np.abs(total - right).max() / (max(size.max(), np.abs(right).max()) or 1.0))
    narrowest = min(np.asarray(a).dtype.itemsize for a in _arrays(params))
    times = f"{seconds(took)} on the workers, {seconds(here)} here at once"
    if off <= _AGREES[narrowest]:
        return f"{count} shards: the sum of their gradients is the gradient of the whole, to {off:.0e} ({times})"
    ratio = float(total @ right / (right @ right)) if right.any() else np.inf
    says = f"{count} shards: the sum of their gradients DIFFERS from the gradient of the whole by {off:.0e} ({times})"
    if np.isfinite(ratio) and float(np.abs(total - ratio * right).max()) <= _AGREES[narrowest] * float(size.max()):
        says += f"; it is {ratio:.6g} times as large"
        if abs(ratio - count) < 1e-3 * count:
            says += ": a loss that is a mean must divide by the number of all inputs, not by that of its shard"
    return f"{says}; the losses sum up to {found.losses.sum():.6g}, the whole has {loss:.6g}"


def _arrays(given: Any) -> list[Any]:
    return list(given.values()) if isinstance(given, Mapping) else [given]


def _flat(gradient: Any) -> Any:
    return np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in _arrays(gradient)])
