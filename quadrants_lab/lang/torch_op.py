"""Implements `qd.torch_op`, which makes a kernel, or a function that launches kernels, an operation that torch can
differentiate."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError, ended
from quadrants_lab.lang.external_op import ExternalOp
from quadrants_lab.runtime import session
from quadrants_lab.runtime.interop.tensors import asks, check_kind, has_tangent
from quadrants_lab.runtime.observe.observers import watch
from quadrants_lab.runtime.tape.recorded import Fields, Recorded

Outputs = Mapping[str, Any]


def torch_op(fn: Callable[..., Any] | None = None, /, *, outputs: Outputs, recompute: bool = False) -> Any:
    """Makes an operation of torch from a kernel, or from a Python function that launches kernels.

    ``outputs``: the parameters of ``fn`` that the operation creates as zeros and returns: one tensor, or a tuple of
    several in this order. The other parameters of ``fn`` are those of the operation. An output is described by the name
    of a tensor argument, from which it takes shape, dtype and device; by a shape, with dtype and device of the first
    tensor argument of floats; by a tensor, from which it takes shape and dtype (for example ``torch.empty(3,
    dtype=torch.int32, device="meta")``); or by a function of arguments, by their names, that returns one of these.

    torch gets the derivatives with respect to the tensor arguments from the gradients of the kernels, last kernel
    first, as under a `Tape`. ``fn`` gets contiguous arguments without a copy and copies of all others; it must not
    write to them. Each backward pass sets the gradients of fields that ``fn`` uses to 0, and leaves the derivatives by
    these fields there.

    The backward pass reads fields again: a field that was written in between is a QuadrantsRuntimeError. With
    ``recompute``, the backward pass runs ``fn`` again instead and then restores fields; only the fields that ``fn``
    reads and never writes must be unchanged. Second derivatives are errors.
    """
    if fn is None:
        return lambda fn: TorchOp(fn, outputs, recompute)
    return TorchOp(fn, outputs, recompute)


class TorchOp(ExternalOp):
    """An operation made by `torch_op`."""

    maker = "torch_op"

    def __init__(self, fn: Callable[..., Any], outputs: Outputs, recompute: bool) -> None:
        super().__init__(fn, outputs)
        self.recompute = recompute
        self._uncompiled: Any = None  # a wrapper of `_launch` that torch.compile does not trace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if "torch._dynamo" not in sys.modules:  # it is slow to load
            return self._launch(torch, *args, **kwargs)
        self._uncompiled = self._uncompiled or torch.compiler.disable(self._launch)
        return self._uncompiled(torch, *args, **kwargs)

    __call__._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch.compile breaks its graph here

    def _launch(self, torch: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = self.arguments(args, kwargs)
        tensors = {n: v for n, v in arguments.items() if isinstance(v, torch.Tensor)}
        self._check(torch, arguments, tensors)
        call = Call(self, arguments, tuple(tensors))
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors.values()):
            outputs = _functions(torch, self.name)[0].apply(call, *tensors.values())
        else:
            outputs = tuple(call.run(torch, {n: _usable(t) for n, t in tensors.items()}).values())
        return outputs if len(outputs) > 1 else outputs[0]

    def made_of(self) -> tuple[Any, ...]:
        return self.fn, self.outputs, self.recompute

    def _check(self, torch: Any, arguments: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        """Raises errors for calls that cannot be differentiated or whose derivatives would silently be wrong."""
        self.check_context()
        for name, value in arguments.items():
            parts: Iterable[Any] = ()
            match value:
                case dict():
                    parts = value.values()
                case list() | tuple():
                    parts = value
            if any(isinstance(part, torch.Tensor) and part.requires_grad for part in parts):
                raise QuadrantsRuntimeTypeError(
                    f"argument {name!r} of torch_op {self.name} is a {type(value).__name__} of tensors that require a "
                    "gradient, which torch would not follow",
                    code="QL2126",
                    help="give each tensor a parameter of its own, or pass torch.stack(...)",
                )
        if torch.jit.is_tracing():
            raise _not_under(self.name, "torch.jit.trace, which would keep the values of this call")
        if any(map(asks(torch, "is_functorch_wrapped_tensor"), tensors.values())):
            raise _not_under(self.name, _TRANSFORMED)
        if any(has_tangent(torch, tensor) for tensor in tensors.values()):
            raise _not_under(self.name, _FORWARD)
        for name, tensor in tensors.items():
            check_kind(tensor, f"argument {name!r} of torch_op {self.name}")


class Call:
    """One call of the operation, with the data that its backward pass needs. ``names`` are the names of the arguments
    that are tensors."""

    def __init__(self, op: TorchOp, arguments: Mapping[str, Any], names: tuple[str, ...]) -> None:
        self.op = op
        self.names = names
        self.rest = {n: v for n, v in arguments.items() if n not in names}
        self.session = session.current()
        self.record: Recorded | None = None
        self.fields = Fields()
        self.outputs: dict[str, Any] = {}  # with gradients, over the memory of the tensors that were returned
        self.copies: dict[str, Any] = {}  # with recompute: copies of the outputs

    # --- forward -------------------------------------------------------------------------------------------------

    def run(self, torch: Any, usable: Mapping[str, Any], grads: bool = False) -> dict[str, Any]:
        """Calls the function and returns its outputs by name; with ``grads`` they require gradients."""
        op, arguments = self.op, {**self.rest, **usable}
        outputs = {name: _zeros(torch, op.like(name, arguments, torch.Tensor), usable) for name in op.outputs}
        versions = {n: _version(t) for n, t in usable.items()}
        with torch.set_grad_enabled(grads or torch.is_grad_enabled()):  # torch then tracks what ``fn`` computes
            if grads:
                outputs = {n: _with_gradient(t) for n, t in outputs.items()}
            op.call_function(arguments | outputs)
        for name, tensor in usable.items():
            if _version(tensor) != versions[name]:
                raise QuadrantsRuntimeError(
                    f"torch_op {op.name} writes to its argument {name!r}",
                    code="QL2124",
                    help="write to an output, or to a copy that the function makes",
                )
        return outputs

    def forward(self, torch: Any, ctx: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        given = dict(zip(self.names, tensors, strict=True))
        usable = {n: _usable(t, t.requires_grad) for n, t in given.items()}
        if self.op.recompute:
            with watch(self.fields):
                returned = self.run(torch, {n: t.detach() for n, t in usable.items()})
            self.copies = {n: t.clone() for n, t in returned.items()}
            read = list(tensors)
        else:
            record = self.record = self._recorded(torch, usable)
            returned = {n: t.detach() for n, t in self.outputs.items()}
            shared = [t for n, t in given.items() if t.data_ptr() == usable[n].data_ptr()]
            read = [t for t in (*shared, *returned.values()) if record.reads(t)]
        ctx.save_for_backward(*read)
        ctx.mark_non_differentiable(*[t for t in returned.values() if not t.is_floating_point()])
        ctx.set_materialize_grads(False)
        return tuple(returned.values())

    def _recorded(self, torch: Any, usable: dict[str, Any], again: bool = False) -> Recorded:
        record = Recorded(f"torch_op {self.op.name}", usable, repeatable=again)
        try:
            with watch(record):
                self.outputs = self.run(torch, usable, grads=True)
                record.close()
                record.check_outputs(self.outputs)
        except BaseException:
            record.clear()
            raise
        return record

    # --- backward ------------------------------------------------------------------------------------------------

    def backward(self, torch: Any, ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # torch raises an error here if one was overwritten or the graph was freed
        if not self.session.alive:
            raise ended(f"what torch_op {self.op.name} recorded")
        kept = self.record
        if changed := self.fields.changed() if kept is None else kept.changed():
            raise QuadrantsRuntimeError(
                f"{changed}, which torch_op {self.op.name} uses, was written between the forward and the backward pass",
                code="QL2122",
                help="a second call may have done it: call backward() before it, let the function make what it works "
                "in, or give torch_op recompute=True if the function writes the field before it reads it",
            )
        record = kept or self._recomputed(torch, dict(zip(self.names, saved, strict=True)))
        found = record.backward(zip(self.outputs.values(), grads, strict=True))
        if kept is None:
            record.restore()
            self.outputs = {}
        needed = ctx.needs_input_grad[1:]
        return tuple(found.get(n) if needs else None for n, needs in zip(self.names, needed, strict=True))

    def _recomputed(self, torch: Any, given: dict[str, Any]) -> Recorded:
        """Runs the function again and returns the record of its launches; an error if its outputs differ."""
        usable = {n: _usable(t, t.requires_grad) for n, t in given.items()}
        record = self._recorded(torch, usable, again=True)
        for name, tensor in self.outputs.items():
            first = self.copies[name]
            tol = 1e3 * torch.finfo(first.dtype).eps if first.is_floating_point() else 0.0  # sums have no fixed order
            largest = float(first.abs().max()) if first.numel() else 0.0
            if not torch.allclose(tensor.detach(), first, rtol=tol, atol=tol * largest, equal_nan=True):
                record.restore()
                raise QuadrantsRuntimeError(
                    f"output {name!r} of torch_op {self.op.name} has other values when the backward pass runs the "
                    "function again",
                    code="QL2123",
                    help="the function may read a field before it writes it, or draw random numbers: make the field "
                    "or the numbers an argument, or leave out recompute=True",
                )
        return record


_FORWARD = "forward mode of torch"
_TRANSFORMED = "a transformation of torch.func, as vmap or grad are"


@cache
def _functions(torch: Any, name: str) -> tuple[Any, Any]:
    """The `torch.autograd.Function` for operations of this name, which torch shows in graphs and errors, and another
    one whose derivative is the error for second derivatives."""

    def forward(ctx: Any, call: Call, *tensors: Any) -> tuple[Any, ...]:
        ctx.call = call
        return call.forward(torch, ctx, tensors)

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        have = [g for g in grads if g is not None]
        if any(map(asks(torch, "is_legacy_batchedtensor"), have)):  # as torch makes for ``is_grads_batched``
            return _for_each(torch, grads, partial(backward, ctx))
        if any(map(asks(torch, "is_functorch_wrapped_tensor"), have)):
            raise _not_under(name, _TRANSFORMED)
        with torch.no_grad():
            found = ctx.call.backward(torch, ctx, grads)
        if torch.is_grad_enabled():  # create_graph=True: differentiating the gradients must be an error
            have = [g for g in found if g is not None]
            marked = iter(once.apply(len(have), *have, *grads, *ctx.saved_tensors))
            found = tuple(None if g is None else next(marked) for g in found)
        return None, *found

    def unchanged(ctx: Any, count: int, *tensors: Any) -> tuple[Any, ...]:
        return tuple(t.view_as(t) for t in tensors[:count])

    def refuse(ctx: Any, *grads: Any) -> Any:
        raise QuadrantsRuntimeError(
            f"torch_op {name} is differentiated twice: its kernels have first derivatives only",
            code="QL2128",
            help="write the first derivative as kernels and make a torch_op of those, or leave out create_graph=True",
        )

    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _not_under(name, _FORWARD)

    base, static = torch.autograd.Function, staticmethod
    once: Any = type(f"{name}_twice", (base,), {"forward": static(unchanged), "backward": static(refuse)})
    body = {"forward": static(forward), "backward": static(backward), "jvp": static(jvp)}
    return type(name, (base,), body), once


def _for_each(torch: Any, given: Sequence[Any], work: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
    """The results of ``work`` for each element of a batch: some of the values ``given`` are batches of torch's only
    vmap of this kind, at level 1, and the results are, too."""
    is_batch = asks(torch, "is_legacy_batchedtensor")
    split = [
        repeat(x) if x is None or not is_batch(x) else torch._remove_batch_dim(x, 1, 0, 0).unbind() for x in given
    ]
    results = zip(*[work(*each) for each in zip(*split, strict=False)], strict=True)
    return tuple(None if r[0] is None else torch._add_batch_dim(torch.stack(r), 0, 1) for r in results)


def _not_under(name: str, how: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"torch_op {name} is called under {how}",
        code="QL2127",
        help="call it outside; a loop over the batch, or a kernel with one more axis, takes the place of vmap",
    )


def _usable(tensor: Any, grad: bool = False) -> Any:
    """A leaf tensor that shares the memory of ``tensor``, or has a copy of it if kernels cannot use that memory."""
    own = tensor.detach().resolve_neg().resolve_conj().contiguous()
    return own.requires_grad_() if grad else own


def _with_gradient(zeros: Any) -> Any:
    """A tensor of zeros that requires a gradient. It is no leaf, so that torch may write to it."""
    if not zeros.is_floating_point():
        return zeros
    made = zeros.new_zeros(()).requires_grad_().expand(zeros.shape).clone()
    made.retain_grad()
    return made


def _version(tensor: Any) -> int:
    """Torch's count of the writes to the tensor; 0 for inference tensors, which have no count."""
    return 0 if tensor.is_inference() else tensor._version


def _zeros(torch: Any, like: Any, given: Mapping[str, Any]) -> Any:
    """The tensor of zeros that the function gets for an output. ``like`` is the tensor or shape that describes the
    output, and ``given`` are the tensors among the arguments."""
    tensors = list(given.values())
    first = next((t for t in tensors if t.is_floating_point()), None)
    device = (first if first is not None else tensors[0]).device if tensors else None
    if isinstance(like, torch.Tensor):
        return torch.zeros(like.shape, dtype=like.dtype, device=like.device if like.device.type != "meta" else device)
    return torch.zeros(tuple(like), dtype=None if first is None else first.dtype, device=device)
