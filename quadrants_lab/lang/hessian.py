"""`qd.ad.hessian_vector`: products of a Hessian with a vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.forward_mode import seed_of
from quadrants_lab.runtime import session
from quadrants_lab.runtime.memory.memory import THREAD
from quadrants_lab.runtime.observe.observers import MODE, launching


def hessian_vector(program: Callable[[], object], tape: AbstractContextManager[Any], x: Any, v: Any) -> Any:
    """The result of `qd.ad.hessian_vector`; ``tape``: a Tape for the loss."""
    if MODE.get() != "forward":
        raise QuadrantsRuntimeError(
            "hessian_vector does not work inside of FwdMode or of another hessian_vector",
            code="QL2103",
            help="there are no third derivatives; call it after the with",
        )
    several = isinstance(x, (Mapping, list, tuple))
    params, directions = (_by_key(given) if several else {None: given} for given in (x, v))
    if params.keys() != directions.keys():
        raise QuadrantsRuntimeError(
            f"hessian_vector got parameters {list(params)} and directions for {list(directions)}",
            code="QL2105",
            help="give a direction for each parameter, in the same list or dict; zeros where it does not change",
        )
    seeds = {key: seed_of(_checked(param), directions[key], "v") for key, param in params.items()}
    if len({id(param) for param in params.values()}) < len(params):
        raise QuadrantsRuntimeError("a parameter of hessian_vector is given twice", code="QL2105")
    for owner in session.current().differentiable:
        for array in (owner, owner.grad):
            if array and array._tangent is not None and array._tangent._memory.owner == THREAD.number:
                array._tangent.fill(0)
    for key, param in params.items():
        param.tangent().from_numpy(seeds[key])
    with launching("second"), tape:
        program()
    found = {key: param.grad.tangent().to_numpy() for key, param in params.items()}
    return found[None] if not several else found if isinstance(x, Mapping) else list(found.values())


def _by_key(given: Any) -> Mapping[Any, Any]:
    """A dict as it is; the entries of a list by index."""
    if isinstance(given, Mapping):
        return given
    return dict(enumerate(given if isinstance(given, (list, tuple, np.ndarray)) else [given]))


def _checked(x: Any) -> Dense:
    if not isinstance(x, Dense):
        raise QuadrantsRuntimeTypeError(
            f"hessian_vector takes fields and ndarrays as parameters, not {x!r}",
            code="QL2105",
            help="of a field of structs the members: [s.position, s.velocity]",
        )
    if not x.has_grad():
        what = f"a parameter of hessian_vector must have a gradient, it is {x!r}"
        raise QuadrantsRuntimeError(what, code="QL2105", help="make it with needs_grad=True")
    x._live()  # raises an error if its session has ended
    return x
