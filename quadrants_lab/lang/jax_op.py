"""`qd.jax_op`: a kernel, or a Python function that launches kernels, as a function that JAX differentiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import BoundArguments
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.types import from_numpy
from quadrants_lab.lang.fields import ndarray
from quadrants_lab.lang.operation import Operation
from quadrants_lab.runtime import session
from quadrants_lab.runtime.launch.observe import unwatched, watch
from quadrants_lab.runtime.tape.recorder import Launches

Array = npt.NDArray[Any]


def jax_op(fn: Callable[..., Any] | None = None, /, *, outputs: Mapping[str, Any]) -> Any:
    """Makes a function of JAX arrays from a kernel, or from a Python function that launches kernels.

    ``outputs``: as those of `torch_op`; in the place of a tensor stands an array or a `jax.ShapeDtypeStruct`. JAX calls
    the function on the host with copies of the arrays, wherever it runs by itself: under `jit`, `grad` and `vmap`,
    which goes through a batch one by one. For a derivative ``fn`` runs once more, as under a `Tape`, so it must do the
    same each time. The gradients of fields that it uses are set to 0 before, and hold the derivatives by these fields.
    Elements are numbers. There are no second derivatives, and no forward mode.
    """
    return (lambda fn: JaxOp(fn, outputs)) if fn is None else JaxOp(fn, outputs)


class JaxOp(Operation):
    """Made by `jax_op`."""

    maker = "jax_op"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        self.check_context()
        bound = self.own.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {n: v for n, v in bound.arguments.items() if isinstance(v, jax.Array)}
        rest = {n: v for n, v in bound.arguments.items() if n not in given}
        floats = [n for n, x in given.items() if np.issubdtype(x.dtype, np.floating)]
        kinds = jax.Array, jax.ShapeDtypeStruct
        dtype = given[floats[0]].dtype if floats else np.dtype(np.float32)
        found = {n: self.like(n, bound.arguments, kinds) for n in self.outputs}
        like = {n: jax.ShapeDtypeStruct(*((s.shape, s.dtype) if isinstance(s, kinds) else (tuple(s), dtype)))
                for n, s in found.items()}  # fmt: skip

        def values(*xs: Any) -> Any:
            made = tuple(like.values())
            return jax.pure_callback(lambda *xs: self.run(rest, given, xs, like), made, *xs, vmap_method="sequential")

        def backward(xs: Any, grads: Any) -> Any:
            of = tuple(jax.ShapeDtypeStruct(given[n].shape, given[n].dtype) for n in floats)
            wanted = [g for g, out in zip(grads, like.values(), strict=True) if np.issubdtype(out.dtype, np.floating)]
            back = lambda *both: self.run(rest, given, both[: len(xs)], like, floats, both[len(xs) :])  # noqa: E731
            found = dict(zip(floats, jax.pure_callback(back, of, *xs, *wanted, vmap_method="sequential"), strict=True))
            return tuple(found.get(n) for n in given)

        differentiable = jax.custom_vjp(values)
        differentiable.defvjp(lambda *xs: (values(*xs), xs), backward)
        made = differentiable(*given.values())
        return made if len(made) > 1 else made[0]

    def run(
        self, rest: Mapping[str, Any], names: Mapping[str, Any], xs: Any, like: Mapping[str, Any],
        by: list[str] | None = None, grads: Any = (),
    ) -> tuple[Array, ...]:  # fmt: skip
        """The outputs; with ``by``, the derivatives by these arguments, from ``grads`` of the outputs of floats."""
        with session.current().lock:
            given = {n: _ndarray(np.asarray(x), by is not None) for n, x in zip(names, xs, strict=True)}
            made = {n: _ndarray(np.zeros(s.shape, s.dtype), by is not None) for n, s in like.items()}
            named = {**rest, **given, **made}
            whole = BoundArguments(self.whole, {n: named[n] for n in self.whole.parameters})
            if by is None:
                self.fn(*whole.args, **whole.kwargs)
                return tuple(out.to_numpy() for out in made.values())
            record = Launches()
            with watch(record):
                self.fn(*whole.args, **whole.kwargs)
            for tracked in record.tracked.values():
                if tracked.grad is not None:
                    tracked.grad.write(..., 0)
            for out, grad in zip((o for o in made.values() if o.grad is not None), grads, strict=True):
                out.grad.from_numpy(np.asarray(grad))
            with unwatched():
                record.differentiate()
            record.clear()
            return tuple(given[n].grad.to_numpy() for n in by)


def _ndarray(array: Array, grad: bool) -> Any:
    made = ndarray(from_numpy(array.dtype), array.shape, grad and bool(np.issubdtype(array.dtype, np.floating)))
    made.from_numpy(array)
    return made
