"""Implements `qd.ad.hessian_vector`, the product of a Hessian with a vector."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.derivatives import check_has_derivative
from quadrants_lab.lang.forward_mode import by_key, seed_of
from quadrants_lab.runtime import session
from quadrants_lab.runtime.memory.memory import THREAD
from quadrants_lab.runtime.observe.observers import MODE, launching


def hessian_vector(program: Callable[[], object], tape: AbstractContextManager[Any], x: Any, v: Any) -> Any:
    """The result of `qd.ad.hessian_vector`; ``tape``: a Tape for the loss."""
    if MODE.get() != "forward":
        raise QuadrantsRuntimeError(
            "hessian_vector does not work inside of FwdMode or of another hessian_vector",
            code="QL2103",
            help="there are no third derivatives; call hessian_vector after the with",
        )
    params = by_key(x)
    directions = {None: v} if None in params else by_key(v)  # the direction of a single field may be a list
    if params.keys() != directions.keys():
        raise QuadrantsRuntimeError(
            f"hessian_vector got parameters {list(params)} and directions for {list(directions)}",
            code="QL2105",
            help="give a direction for each parameter, in the same list or dict; zeros if it does not change",
        )
    for param in params.values():
        check_has_derivative(param, "a parameter of hessian_vector", "QL2105")
        param._live()  # raises an error if its session has ended
    seeds = {key: seed_of(param, directions[key], "v") for key, param in params.items()}
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
    if None in found:
        return found[None]
    return found if params is x else list(found.values())
