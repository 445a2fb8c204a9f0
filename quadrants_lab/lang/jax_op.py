"""`qd.jax_op`: a kernel, or a Python function that launches kernels, as a function that JAX can differentiate."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.types import from_numpy
from quadrants_lab.lang.external_op import ExternalOp
from quadrants_lab.lang.fields import ndarray
from quadrants_lab.runtime import session
from quadrants_lab.runtime.observe.observers import unwatched, watch
from quadrants_lab.runtime.tape.recorder import Launches

Array = npt.NDArray[Any]


def jax_op(fn: Callable[..., Any] | None = None, /, *, outputs: Mapping[str, Any]) -> Any:
    """Makes a function of JAX arrays from a kernel, or from a Python function that launches kernels.

    ``outputs``: as for `torch_op`, with an array or a `jax.ShapeDtypeStruct` in place of a tensor. JAX calls the
    function on the host with copies of the arrays, on every device, also under `jit`, `grad` and `vmap`, which calls it
    once for each item of a batch. For a derivative ``fn`` runs again, as under a `Tape`, and must do the same each
    time. The gradients of fields that it uses are set to 0 before; afterwards they are the derivatives by these fields.
    Array elements are numbers. Second derivatives and forward mode are not supported.
    """
    return (lambda fn: JaxOp(fn, outputs)) if fn is None else JaxOp(fn, outputs)


class JaxOp(ExternalOp):
    """A function made by `jax_op`."""

    maker = "jax_op"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        self.check_context()
        arguments = self.arguments(args, kwargs)
        given = {n: v for n, v in arguments.items() if isinstance(v, jax.Array)}
        rest = {n: v for n, v in arguments.items() if n not in given}
        floats = [n for n, x in given.items() if np.issubdtype(x.dtype, np.floating)]
        kinds = jax.Array, jax.ShapeDtypeStruct
        dtype = given[floats[0]].dtype if floats else np.dtype(np.float32)
        found = {n: self.like(n, arguments, kinds) for n in self.outputs}
        like = {n: jax.ShapeDtypeStruct(*((s.shape, s.dtype) if isinstance(s, kinds) else (tuple(s), dtype)))
                for n, s in found.items()}  # fmt: skip

        callback = partial(jax.pure_callback, vmap_method="sequential")

        def values(*xs: Any) -> Any:
            return callback(lambda *xs: self.run(rest, given, xs, like), tuple(like.values()), *xs)

        def backward(xs: Any, grads: Any) -> Any:
            shapes = tuple(jax.ShapeDtypeStruct(given[n].shape, given[n].dtype) for n in floats)
            wanted = [g for g, out in zip(grads, like.values(), strict=True) if np.issubdtype(out.dtype, np.floating)]
            run = lambda *both: self.run(rest, given, both[: len(xs)], like, floats, both[len(xs) :])  # noqa: E731
            found = dict(zip(floats, callback(run, shapes, *xs, *wanted), strict=True))
            return tuple(found.get(n) for n in given)

        differentiable = jax.custom_vjp(values)
        differentiable.defvjp(lambda *xs: (values(*xs), xs), backward)
        outputs = differentiable(*given.values())
        return outputs if len(outputs) > 1 else outputs[0]

    def run(
        self, rest: Mapping[str, Any], names: Mapping[str, Any], xs: Any, like: Mapping[str, Any],
        by: list[str] | None = None, grads: Any = (),
    ) -> tuple[Array, ...]:  # fmt: skip
        """Runs the function. Returns its outputs; with ``by``, the derivatives by these arguments, for ``grads`` of the
        outputs that are floats."""
        with session.current().lock:
            given = {n: _ndarray(np.asarray(x), by is not None) for n, x in zip(names, xs, strict=True)}
            outputs = {n: _ndarray(np.zeros(s.shape, s.dtype), by is not None) for n, s in like.items()}
            record = Launches()
            with watch(record) if by is not None else nullcontext():
                self.call_function({**rest, **given, **outputs})
            if by is None:
                return tuple(out.to_numpy() for out in outputs.values())
            for tracked in record.tracked.values():
                if tracked.grad is not None:
                    tracked.grad.write(..., 0)
            for out, grad in zip((o for o in outputs.values() if o.grad is not None), grads, strict=True):
                out.grad.from_numpy(np.asarray(grad))
            with unwatched():
                record.differentiate()
            record.clear()
            return tuple(given[n].grad.to_numpy() for n in by)


def _ndarray(array: Array, grad: bool) -> Any:
    made = ndarray(from_numpy(array.dtype), array.shape, grad and bool(np.issubdtype(array.dtype, np.floating)))
    made.from_numpy(array)
    return made
