"""Runs shards (parts of a program's data) in the current session, reuses objects from one shard to the next, and
sums the results."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.ir.types import DTYPES
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.fields import field
from quadrants_lab.runtime import session
from quadrants_lab.runtime.session import Session

Array = npt.NDArray[Any]
T = TypeVar("T")
UNNAMED = ""  # the name of the array if the parameters are a single one
_FLOATS = {np.dtype(t.numpy): t for t in DTYPES.values() if t.is_float}
_kept: WeakKeyDictionary[Session, dict[Hashable, Any]] = WeakKeyDictionary()


class ShardError(QuadrantsRuntimeError):
    """The error of a shard. ``shard``: its index. ``error``: the exception, None if it could not be pickled."""

    shard = -1
    error: BaseException | None = None


def kept(make: Callable[..., T], *args: Hashable) -> T:
    """The result of ``make(*args)``, which is called once in each session: for fields, and objects with fields, that
    shards share.

    A worker keeps its session, so later shards, also of later calls of `map_gradients`, get the objects that the
    first shard made.
    """
    objects = _kept.setdefault(session.current(), {})
    if (make, args) not in objects:
        objects[make, args] = make(*args)
    found: T = objects[make, args]
    return found


@dataclass
class Part:
    """Results of consecutive shards from number ``first`` on. ``gradients``: a dict of arrays by the parameters' names
    for each shard, or one dict for their sum. ``warned``: the texts of warnings."""

    first: int
    losses: list[float]
    gradients: list[dict[str, Array]]
    warned: tuple[str, ...] = ()


def total(parts: Sequence[Part]) -> Part:
    """Joins parts and adds up their gradients in pairs: the sum of the first ``2**k`` shards, for the greatest ``2**k``
    less than their number, plus the sum of the rest.

    So the order of additions does not depend on how shards were grouped, if the groups are powers of two.
    """
    if len(parts) == 1 and len(parts[0].gradients) == 1:
        return parts[0]
    gradients = _pairwise([g for part in parts for g in part.gradients])
    return replace(joined(parts), gradients=[gradients])


def joined(parts: Sequence[Part]) -> Part:
    """Joins parts to one part that has the gradients of each shard."""
    losses = [loss for part in parts for loss in part.losses]
    warned = tuple(dict.fromkeys(message for part in parts for message in part.warned))
    return Part(parts[0].first, losses, [g for part in parts for g in part.gradients], warned)


def _pairwise(found: list[dict[str, Array]]) -> dict[str, Array]:
    if len(found) == 1:
        return found[0]
    half = 1 << ((len(found) - 1).bit_length() - 1)
    left, right = _pairwise(found[:half]), _pairwise(found[half:])
    return {name: left[name] + right[name] for name in left}


def named(params: Any) -> dict[str, Array]:
    """The parameters as a dict of arrays by name. Raises QL2201 for an array that is not of floats."""
    given = params if isinstance(params, Mapping) else {UNNAMED: params}
    arrays = {str(name): np.asarray(value) for name, value in given.items()}
    for name, array in arrays.items():
        if array.dtype not in _FLOATS:
            raise QuadrantsRuntimeError(
                f"map_gradients: parameter {name or 'params'} has dtype {array.dtype}, and no gradient",
                code="QL2201",
                help="parameters are arrays of f16, f32 or f64; data without a gradient belong to the shards",
            )
    return arrays


def run_group(
    fn: Callable[..., Any], params: dict[str, Array], first: int, shards: Sequence[Any], summed: bool
) -> Part:
    """Runs ``fn`` for consecutive shards in the current session, of which the first has the number ``first``. Raises
    ShardError if a shard fails."""
    done: list[Part] = []
    for n, shard in enumerate(shards, first):
        try:
            loss, gradients = _run(fn, params, shard)
        except MemoryError:
            raise
        except Exception as error:
            raise failed(n, error) from error
        done.append(Part(n, [loss], [gradients]))
    return total(done) if summed else joined(done)


def failed(shard: int, error: BaseException) -> ShardError:
    """The error of a shard, with its number and the text of the exception."""
    text = str(error) if isinstance(error, QuadrantsError) else f"{type(error).__name__}: {error}"
    made = ShardError(f"shard {shard} failed\n{text}")
    made.shard, made.error = shard, error
    return made


def _run(fn: Callable[..., Any], params: dict[str, Array], shard: Any) -> tuple[float, dict[str, Array]]:
    fields = {name: kept(_parameter, name, array.dtype, array.shape) for name, array in params.items()}
    for name, array in params.items():
        fields[name].from_numpy(array)
        fields[name].grad.fill(0)
    before = {name: x.grad._memory.version for name, x in fields.items()}
    single = UNNAMED in params
    found = fn(fields[UNNAMED] if single else fields, shard)
    if isinstance(found, tuple):
        loss, slopes = _number(found[0]), {UNNAMED: found[1]} if single else found[1]
    else:
        loss, slopes = _number(found), {name: x.grad for name, x in fields.items()}
        if fields and all(x.grad._memory.version == before[name] for name, x in fields.items()):
            raise QuadrantsRuntimeError(
                "the function returned a loss, but no gradient was run",
                code="QL2202",
                help="launch the kernels under qd.ad.Tape(loss), or return the loss and the gradients",
            )
    return loss, {name: _slope(name, params[name], slopes) for name in params}


def _parameter(name: str, dtype: Any, shape: tuple[int, ...]) -> Dense:
    made: Dense = field(_FLOATS[dtype], shape=shape, needs_grad=True, name=name)
    return made


def _number(loss: Any) -> float:
    array = loss.to_numpy() if hasattr(loss, "to_numpy") else np.asarray(loss)
    if array.size != 1:
        raise QuadrantsRuntimeError(
            f"the function returned {loss!r} where a loss is one number",
            code="QL2203",
            help="return the 0-d field of the loss, a number, or one of these and the gradients",
        )
    return float(array.reshape(()))


def _slope(name: str, param: Array, slopes: Any) -> Array:
    found: Any = slopes.get(name) if isinstance(slopes, Mapping) else None
    array = found.to_numpy() if hasattr(found, "to_numpy") else np.array(found)
    if found is None or array.shape != param.shape:
        there = "none" if found is None else f"one of shape {array.shape}"
        raise QuadrantsRuntimeError(
            f"the function returned {there} for the gradient by {name or 'params'}, which has shape {param.shape}",
            code="QL2203",
            help="the gradients have the names and shapes of the parameters",
        )
    return array.astype(param.dtype, copy=False)

