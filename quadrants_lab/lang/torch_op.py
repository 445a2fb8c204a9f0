"""`qd.torch_op`: a kernel, or a Python function that launches kernels, as an operation that torch differentiates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from inspect import BoundArguments
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.operation import Operation
from quadrants_lab.runtime import session
from quadrants_lab.runtime.launch.observe import watch
from quadrants_lab.runtime.session import ended
from quadrants_lab.runtime.tape.recorded import Fields, Recorded

Outputs = Mapping[str, Any]


def torch_op(fn: Callable[..., Any] | None = None, /, *, outputs: Outputs, recompute: bool = False) -> Any:
    """Makes an operation of torch from a kernel, or from a Python function that launches kernels.

    ``outputs``: parameters of ``fn`` that the operation makes, as zeros, and returns: one tensor, or a tuple of several
    in this order. All other parameters are those of the operation. What an output is like is the name of a tensor
    argument, whose shape, dtype and device it takes; or a shape, with dtype and device of the first tensor argument of
    floats; or a tensor (``torch.empty(3, dtype=torch.int32, device="meta")`` will do), whose shape and dtype it takes;
    or a function of some arguments, by their names, that returns one of these.

    torch's derivative by the tensor arguments is that of the kernels, in opposite order, as under a `Tape`. ``fn`` gets
    the memory of contiguous arguments and a copy of others; it must not write to them. The gradients of fields that it
    uses are set to 0 by each backward pass, which leaves there the derivatives by these fields.

    What fields held is needed again by the backward pass: where one was written in between, that is a
    QuadrantsRuntimeError. With ``recompute``, the backward pass runs ``fn`` once more instead, and then puts fields
    back: only those that ``fn`` reads and never writes must be what they were. Second derivatives are refused.
    """
    if fn is None:
        return lambda fn: TorchOp(fn, outputs, recompute)
    return TorchOp(fn, outputs, recompute)


class TorchOp(Operation):
    """Made by `torch_op`."""

    maker = "torch_op"

    def __init__(self, fn: Callable[..., Any], outputs: Outputs, recompute: bool) -> None:
        super().__init__(fn, outputs)
        self.recompute = recompute
        self._uncompiled: Any = None  # what torch.compile does not look into

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if "torch._dynamo" not in sys.modules:  # it is slow to load
            return self._launch(torch, *args, **kwargs)
        self._uncompiled = self._uncompiled or torch.compiler.disable(self._launch)
        return self._uncompiled(torch, *args, **kwargs)

    __call__._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch.compile breaks its graph here

    def _launch(self, torch: Any, *args: Any, **kwargs: Any) -> Any:
        bound = self.own.bind(*args, **kwargs)
        bound.apply_defaults()
        self._check(torch, bound)
        tensors = {n: v for n, v in bound.arguments.items() if isinstance(v, torch.Tensor)}
        call = Call(self, bound.arguments, tuple(tensors))
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors.values()):
            made = _functions(torch, self.name)[0].apply(call, *tensors.values())
        else:
            made = tuple(call.run(torch, {n: _usable(t) for n, t in tensors.items()}).values())
        return made if len(made) > 1 else made[0]

    def __deepcopy__(self, memo: Any) -> TorchOp:
        return self  # a module that has it can be copied

    def _check(self, torch: Any, bound: BoundArguments) -> None:
        """What cannot be differentiated, or would be wrong without a word."""
        self.check_context()
        for name, value in bound.arguments.items():
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            if any(isinstance(part, torch.Tensor) and part.requires_grad for part in parts):
                raise QuadrantsRuntimeTypeError(
                    f"argument {name!r} of torch_op {self.name} is a {type(value).__name__} of tensors that require a "
                    "gradient, which torch would not follow",
                    code="QL2126",
                    help="give each tensor a parameter of its own, or pass torch.stack(...)",
                )
        wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda value: False)
        how = ""
        if torch.jit.is_tracing():
            how = "torch.jit.trace, which would keep the values of this call"
        elif any(isinstance(v, torch.Tensor) and wrapped(v) for v in bound.arguments.values()):
            how = "a transformation of torch.func, as vmap or grad are"
        if how:
            raise _not_under(self.name, how)


class Call:
    """One call: what is kept of it for the backward pass. ``names``: the arguments that are tensors."""

    def __init__(self, op: TorchOp, arguments: Mapping[str, Any], names: tuple[str, ...]) -> None:
        self.op = op
        self.names = names
        self.rest = {n: v for n, v in arguments.items() if n not in names}
        self.session = session.current()
        self.record: Recorded | None = None
        self.fields = Fields()
        self.made: dict[str, Any] = {}  # outputs with a gradient of their own, over the memory of what was returned
        self.then: dict[str, Any] = {}  # with recompute: copies of the outputs

    # --- forward -------------------------------------------------------------------------------------------------

    def run(self, torch: Any, usable: Mapping[str, Any], grads: bool = False) -> dict[str, Any]:
        """The outputs of the function, which it was called with; with ``grads`` they require gradients."""
        op, named = self.op, {**self.rest, **usable}
        made = {name: _zeros(torch, op, name, named) for name in op.outputs}
        for tensor in made.values() if grads else ():
            tensor.requires_grad_(tensor.is_floating_point())
        counts = {n: _writes(t) for n, t in usable.items()}
        whole = BoundArguments(op.whole, {n: (named | made)[n] for n in op.whole.parameters})
        op.fn(*whole.args, **whole.kwargs)
        for name, tensor in usable.items():
            if _writes(tensor) != counts[name]:
                raise QuadrantsRuntimeError(
                    f"torch_op {op.name} writes to its argument {name!r}",
                    code="QL2124",
                    help="write to an output, or to a copy that the function makes",
                )
        return made

    def forward(self, torch: Any, ctx: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        given = dict(zip(self.names, tensors, strict=True))
        usable = {n: _usable(t, t.requires_grad) for n, t in given.items()}
        if self.op.recompute:
            with watch(self.fields):
                made = self.run(torch, {n: t.detach() for n, t in usable.items()})
            self.then = {n: t.clone() for n, t in made.items()}
            returned, read = made, list(tensors)
        else:
            record = self.record = self._recorded(torch, usable)
            returned = {n: t.detach() for n, t in self.made.items()}
            read = [t for n, t in given.items() if _same(t, usable[n]) and record.reads(usable[n])]
            read += [t for t in returned.values() if record.reads(t)]
        ctx.save_for_backward(*read)
        ctx.mark_non_differentiable(*[t for t in returned.values() if not t.is_floating_point()])
        ctx.set_materialize_grads(False)
        return tuple(returned.values())

    def _recorded(self, torch: Any, usable: dict[str, Any], again: bool = False) -> Recorded:
        record = Recorded(f"torch_op {self.op.name}", usable, repeatable=again)
        try:
            with watch(record):
                self.made = self.run(torch, usable, grads=True)
                record.close()
        except BaseException:
            record.clear()
            raise
        return record

    # --- backward ------------------------------------------------------------------------------------------------

    def backward(self, torch: Any, ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # or torch's error, where one was written to or the graph is gone
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
        record = kept or self._again(torch, dict(zip(self.names, saved, strict=True)))
        found = record.backward(zip(self.made.values(), grads, strict=True))
        if kept is None:
            record.restore()
            self.made = {}
        needed = ctx.needs_input_grad[1:]
        return tuple(found.get(n) if needs else None for n, needs in zip(self.names, needed, strict=True))

    def _again(self, torch: Any, given: dict[str, Any]) -> Recorded:
        """Runs the function once more."""
        usable = {n: _usable(t, t.requires_grad) for n, t in given.items()}
        record = self._recorded(torch, usable, again=True)
        for name, tensor in self.made.items():
            then = self.then[name]
            tol = 1e3 * torch.finfo(then.dtype).eps if then.is_floating_point() else 0.0  # sums have no fixed order
            most = float(then.abs().max()) if then.numel() else 0.0
            if not torch.allclose(tensor.detach(), then, rtol=tol, atol=tol * most, equal_nan=True):
                record.restore()
                raise QuadrantsRuntimeError(
                    f"output {name!r} of torch_op {self.op.name} is another one when the backward pass runs the "
                    "function again",
                    code="QL2123",
                    help="the function may read a field before it writes it, or draw random numbers: make the field "
                    "or the numbers an argument, or leave out recompute=True",
                )
        return record


@cache
def _functions(torch: Any, name: str) -> tuple[Any, Any]:
    """The classes of torch for an operation of this name, by which torch names it in graphs and errors."""

    def forward(ctx: Any, call: Call, *tensors: Any) -> tuple[Any, ...]:
        ctx.call = call
        return call.forward(torch, ctx, tensors)

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        with torch.no_grad():
            found = ctx.call.backward(torch, ctx, grads)
        if torch.is_grad_enabled():  # a graph of the gradient is wanted
            have = [g for g in found if g is not None]
            ends = iter(once.apply(len(have), *have, *grads, *ctx.saved_tensors))
            found = tuple(None if g is None else next(ends) for g in found)
        return None, *found

    def end(ctx: Any, count: int, *tensors: Any) -> tuple[Any, ...]:
        return tuple(t.view_as(t) for t in tensors[:count])

    def refuse(ctx: Any, *grads: Any) -> Any:
        raise QuadrantsRuntimeError(
            f"torch_op {name} is differentiated twice: its kernels have first derivatives only",
            code="QL2128",
            help="write the first derivative as kernels and make a torch_op of those, or leave out create_graph=True",
        )

    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _not_under(name, "forward mode of torch")

    base, static = torch.autograd.Function, staticmethod
    once: Any = type(f"{name}_twice", (base,), {"forward": static(end), "backward": static(refuse)})
    body = {"forward": static(forward), "backward": static(backward), "jvp": static(jvp)}
    return type(name, (base,), body), once


def _not_under(name: str, how: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"torch_op {name} is called under {how}",
        code="QL2127",
        help="call it outside; a loop over the batch, or a kernel with one more axis, takes the place of vmap",
    )


def _usable(tensor: Any, grad: bool = False) -> Any:
    """A leaf over the tensor's memory, or over a copy where kernels cannot use that."""
    own = tensor.detach().resolve_neg().resolve_conj().contiguous()
    return own.requires_grad_() if grad else own


def _same(a: Any, b: Any) -> bool:
    return bool(a.data_ptr() == b.data_ptr())


def _writes(tensor: Any) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _zeros(torch: Any, op: TorchOp, name: str, named: Mapping[str, Any]) -> Any:
    """The output, before the function writes to it."""
    like = op.like(name, named, torch.Tensor)
    tensors = [v for v in named.values() if isinstance(v, torch.Tensor)]
    first = next((t for t in tensors if t.is_floating_point()), None)
    device = (first if first is not None else tensors[0]).device if tensors else None
    if isinstance(like, torch.Tensor):
        return torch.zeros(like.shape, dtype=like.dtype, device=like.device if like.device.type != "meta" else device)
    return torch.zeros(tuple(like), dtype=None if first is None else first.dtype, device=device)
