"""Implements `qd.jax_op`, which makes a kernel, or a function that launches kernels, a function that JAX can
differentiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.types import from_numpy
from quadrants_lab.lang.dense import ScalarNdarray
from quadrants_lab.lang.external_op import ExternalOp
from quadrants_lab.lang.fields import ndarray
from quadrants_lab.runtime import session
from quadrants_lab.runtime.interop import dlpack
from quadrants_lab.runtime.interop.arrays import ndarray_over
from quadrants_lab.runtime.observe.observers import unwatched, watch
from quadrants_lab.runtime.session import Session
from quadrants_lab.runtime.tape.recorder import Launches

Array = npt.NDArray[Any]


def jax_op(fn: Callable[..., Any] | None = None, /, *, outputs: Mapping[str, Any]) -> Any:
    """Makes a function of JAX arrays from a kernel, or from a Python function that launches kernels.

    ``outputs``: as for `torch_op`, with an array or a `jax.ShapeDtypeStruct` in place of a tensor. In a session on
    CUDA, kernels work on JAX's own memory on the same GPU, ordered with JAX's stream, and nothing is copied to the
    host. Elsewhere JAX hands copies to the host. This holds under `jit`, `grad` and `vmap` (which calls ``fn`` once for
    each item of a batch). For a derivative ``fn`` runs again, as under a `Tape`, and must compute the same each time.
    The gradients of fields that ``fn`` uses are set to 0 before; afterwards they hold the derivatives with respect to
    these fields. Array elements are numbers. Second derivatives and forward mode are not supported. A function that
    writes to an array that JAX gave it is an error (QL2048): copy the array to an output first.
    """
    return (lambda fn: JaxOp(fn, outputs)) if fn is None else JaxOp(fn, outputs)


class JaxOp(ExternalOp):
    """A function made by `jax_op`. ``_kept`` has the ndarrays that held the outputs during the last derivative on the
    GPU, by their shapes and dtypes, so that the next one can use them again."""

    maker = "jax_op"

    def __init__(self, fn: Any, outputs: Mapping[str, Any]) -> None:
        super().__init__(fn, outputs)
        self._kept: tuple[Any, dict[str, Any]] = None, {}

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

        def values(*xs: Any) -> Any:
            def run(arrays: Arrays, outs: Sequence[Any], *xs: Any) -> None:
                self.run(arrays, rest, dict(zip(given, xs, strict=True)), dict(zip(like, outs, strict=True)))

            return _call(run, tuple(like.values()), xs)

        def backward(xs: Any, grads: Any) -> Any:
            shapes = tuple(jax.ShapeDtypeStruct(given[n].shape, given[n].dtype) for n in floats)
            wanted = {n: g for (n, out), g in zip(like.items(), grads, strict=True)
                      if np.issubdtype(out.dtype, np.floating)}  # fmt: skip

            def run(arrays: Arrays, outs: Sequence[Any], *both: Any) -> None:
                inputs, slopes = dict(zip(given, both, strict=False)), both[len(given) :]
                self.differentiate(
                    arrays, rest, inputs, like, dict(zip(wanted, slopes, strict=True)),
                    dict(zip(floats, outs, strict=True)),
                )  # fmt: skip

            found = dict(zip(floats, _call(run, shapes, (*xs, *wanted.values())), strict=True))
            return tuple(found.get(n) for n in given)

        differentiable = jax.custom_vjp(values)
        differentiable.defvjp(lambda *xs: (values(*xs), xs), backward)
        outputs = differentiable(*given.values())
        return outputs if len(outputs) > 1 else outputs[0]

    def run(
        self, arrays: Arrays, rest: Mapping[str, Any], xs: Mapping[str, Any], outs: Mapping[str, Any]
    ) -> None:
        """Runs the function on the inputs ``xs`` and fills ``outs``."""
        with arrays.session.lock:
            given = {n: arrays.given(x) for n, x in xs.items()}
            outputs = {n: arrays.zeros(out) for n, out in outs.items()}
            self._call(rest, given, outputs)
            arrays.finish([(outputs[n], out) for n, out in outs.items()])

    def differentiate(
        self, arrays: Arrays, rest: Mapping[str, Any], xs: Mapping[str, Any], like: Mapping[str, Any],
        slopes: Mapping[str, Any], by: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Runs the function and its gradient. ``slopes`` are the derivatives of the loss with respect to the
        floating-point outputs; fills ``by`` with those with respect to the floating-point inputs."""
        arrays.taped = True
        with arrays.session.lock:
            given = {n: arrays.given(x) for n, x in xs.items()}
            for n, out in by.items():
                given[n].grad = arrays.zeros(out)
            outputs = self._outputs(arrays, like)
            record = Launches()
            with watch(record):
                self._call(rest, given, outputs)
            for tracked in record.tracked.values():
                if tracked.grad is not None:
                    tracked.grad.write(..., 0)
            for n, slope in slopes.items():
                arrays.copy(outputs[n].grad, slope)
            with unwatched():
                record.differentiate()
            record.clear()
            arrays.finish([(given[n].grad, out) for n, out in by.items()])

    def _outputs(self, arrays: Arrays, like: Mapping[str, Any]) -> dict[str, Any]:
        """Ndarrays of zeros, with gradients, for the outputs. On a GPU the ndarrays of the last call are used again,
        because freeing memory there waits for all launches."""
        key = arrays.session, tuple((n, s.shape, s.dtype) for n, s in like.items())
        known, outputs = self._kept
        if known == key:
            for x in outputs.values():
                x._memory.write(..., 0)
            return outputs
        outputs = {n: _ndarray(s, True) for n, s in like.items()}
        if arrays.keeps:
            self._kept = key, outputs
        return outputs

    def _call(self, rest: Mapping[str, Any], given: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Calls the function; raises an error if it has written to an array of JAX."""
        before = {n: x.version for n, x in given.items()}
        self.call_function({**rest, **given, **outputs})
        for n, x in given.items():
            if x.version != before[n]:
                raise QuadrantsRuntimeError(
                    f"{self.title} writes to its argument {n!r}, an array of JAX, which nobody may change",
                    code="QL2048",
                    help=f"copy it to an output first: out.copy_from({n})",
                )


def _call(run: Callable[..., None], like: Any, xs: Sequence[Any]) -> Any:
    """JAX arrays with the shapes and dtypes ``like``. ``run(arrays, outputs, *inputs)`` fills them when JAX executes
    the call."""
    import jax

    if dlpack.can_import(session.current()) and jax.default_backend() == "gpu":
        from jax.experimental.buffer_callback import buffer_callback

        def on_gpu(context: Any, outs: Any, *xs: Any) -> None:
            now = session.current()
            if not dlpack.can_import(now):
                raise QuadrantsRuntimeError(
                    f"JAX compiled this call for a session on CUDA, and the session is on {now.settings.arch} now",
                    code="QL2052",
                    help="call jax.clear_caches() after qd.init",
                )
            run(OnGpu(now, context.stream), outs, *xs)

        return buffer_callback(on_gpu, like, vmap_method="sequential")(*xs)

    def on_host(*xs: Any) -> Any:
        outs = tuple(np.zeros(s.shape, s.dtype) for s in like)
        run(Arrays(session.current()), outs, *map(np.asarray, xs))
        return outs

    return jax.pure_callback(on_host, like, *xs, vmap_method="sequential")


class Arrays:
    """How a call uses JAX's arrays on the host: JAX hands numpy arrays over, which are copied to ndarrays and back."""

    keeps = False  # whether a later call can reuse the ndarrays of this one

    def __init__(self, session: Session) -> None:
        self.session = session
        self.taped = False  # whether launches are recorded

    def given(self, x: Any) -> Any:
        """An ndarray with the data of an input."""
        made = _ndarray(x, False)
        made.from_numpy(x)
        return made

    def zeros(self, out: Any) -> Any:
        """An ndarray of zeros for an output."""
        return _ndarray(out, False)

    def copy(self, to: Any, x: Any) -> None:
        to.from_numpy(x)

    def finish(self, outputs: Sequence[tuple[Any, Any]]) -> None:
        """Copies results back at the end of a call. ``outputs`` has the ndarrays that `zeros` made, each with the array
        of JAX for which it was made."""
        for x, out in outputs:
            out[...] = x.to_numpy()


class OnGpu(Arrays):
    """How a call uses JAX's buffers on the session's GPU: in place, without copies. ``stream`` is JAX's stream."""

    keeps = True

    def __init__(self, session: Session, stream: int) -> None:
        super().__init__(session)
        self.stream = stream
        dlpack.device_of(session).wait_stream(stream)

    def given(self, x: Any) -> Any:
        # A launch that would write to memory of others is refused if the memory is read-only. A Tape would compare
        # memory of others on the host, but nobody else writes to it during this call.
        memory = dlpack.of_buffer(x, self.session, self.stream, None if self.taped else True)
        return ndarray_over(memory, ScalarNdarray, 0)

    def zeros(self, out: Any) -> Any:
        x = self.given(out)
        x._memory.write(..., 0)
        return x

    def copy(self, to: Any, x: Any) -> None:
        to.copy_from(self.given(x))

    def finish(self, outputs: Sequence[tuple[Any, Any]]) -> None:
        dlpack.device_of(self.session).signal_stream(self.stream)


def _ndarray(like: Any, grad: bool) -> Any:
    return ndarray(from_numpy(like.dtype), like.shape, grad and bool(np.issubdtype(like.dtype, np.floating)))
