"""Base of `qd.torch_op` and `qd.jax_op`: a function of kernels as a differentiable operation of another library."""

from collections.abc import Mapping
from functools import update_wrapper
from inspect import BoundArguments, Signature, signature
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.classes import is_named
from quadrants_lab.runtime.observe.observers import differentiating

_EXAMPLES = 'for example outputs={"y": "x"}, {"loss": ()} or {"y": lambda x: x.shape[:1]}'


class ExternalOp:
    """An operation made from a kernel, or from a Python function that launches kernels.

    ``outputs``: the parameters of the function that the operation creates and returns, with a description of each.
    ``all_parameters``: the signature of the function; ``parameters``: that of the operation, without the outputs.
    ``maker``: the name of the decorator.
    """

    maker = ""

    def __init__(self, fn: Any, outputs: Any) -> None:
        if not callable(fn):
            what = f"{self.maker} takes a kernel or a Python function, not {fn!r}"
            raise QuadrantsRuntimeTypeError(what, code="QL2120")
        update_wrapper(self, fn, updated=())
        self.fn = fn
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.title = f"{self.maker} {self.name}"
        if not isinstance(outputs, Mapping):
            what = f"outputs of {self.title} must be a dict of descriptions by the names of parameters, not {outputs!r}"
            raise QuadrantsRuntimeTypeError(what, code="QL2120", help=_EXAMPLES)
        self.outputs = dict(outputs)
        try:
            parameters = list(signature(fn).parameters.values())
        except ValueError as e:  # some functions that are written in C have none
            raise QuadrantsRuntimeTypeError(f"{self.title}: {e}", code="QL2120") from None
        self.all_parameters = Signature(parameters)
        names = list(self.all_parameters.parameters)
        unknown = [name for name in self.outputs if name not in names]
        if unknown or not self.outputs:
            what = f"it has no parameter {unknown[0]!r}" if unknown else "none are given"
            help = "the parameters are " + ", ".join(names)
            raise QuadrantsRuntimeTypeError(f"outputs of {self.title}: {what}", code="QL2120", help=help)
        self.parameters = Signature([p for p in parameters if p.name not in self.outputs])

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call of the operation, by name, with defaults."""
        try:
            bound = self.parameters.bind(*args, **kwargs)
        except TypeError as e:
            takes = f"it takes ({', '.join(self.parameters.parameters)}), and makes {' and '.join(self.outputs)} itself"
            raise QuadrantsRuntimeTypeError(f"{self.title}: {e}", code="QL2049", help=takes) from None
        bound.apply_defaults()
        return bound.arguments

    def call_function(self, values: Mapping[str, Any]) -> None:
        """Calls the function with the values of all its parameters by name, outputs included."""
        bound = BoundArguments(self.all_parameters, {n: values[n] for n in self.all_parameters.parameters})
        returned = self.fn(*bound.args, **bound.kwargs)
        for value in returned if isinstance(returned, (tuple, list)) else (returned,):
            if hasattr(value, "shape") and not any(value is values[name] for name in self.outputs):
                raise QuadrantsRuntimeTypeError(
                    f"the function of {self.title} returns an array, of type {type(value).__name__}, which nobody gets",
                    code="QL2120",
                    help=f"write to {' and '.join(self.outputs)}, which the operation returns, in a kernel",
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<qd.{self.title}{self.parameters} -> {', '.join(self.outputs)}>"

    def __reduce__(self) -> Any:
        """Pickles a decorated function by its name, and any other operation by its class and the arguments
        `made_of`."""
        name: str = getattr(self, "__qualname__", "")  # a functools.partial has none
        return name if is_named(self) else (type(self), self.made_of())

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def made_of(self) -> tuple[Any, ...]:
        """The arguments with which its class makes the operation again."""
        return self.fn, self.outputs

    def check_context(self) -> None:
        """Raises an error under a Tape or FwdMode, because derivatives would not flow through the operation."""
        if differentiating():
            raise QuadrantsRuntimeError(
                f"{self.title} is called under a Tape or FwdMode, and derivatives do not flow through it there",
                code="QL2121",
                help=f"call {self.name} itself there, or let {self.maker.removesuffix('_op')} differentiate all of it",
            )

    def like(self, output: str, arguments: Mapping[str, Any], array: Any) -> Any:
        """The array or shape from which an output takes its shape. The description of the output is this object itself,
        the name of an argument, or a function of arguments that returns one of these. ``array`` is the class of
        arrays."""
        like = self.outputs[output]
        if callable(like) and not isinstance(like, array):
            like = like(*[self._argument(output, name, arguments) for name in signature(like).parameters])
        if isinstance(like, str):
            like = self._argument(output, like, arguments)
        if isinstance(like, int):
            like = (like,)
        extents = isinstance(like, (tuple, list)) and all(isinstance(n, int) and n >= 0 for n in like)
        if isinstance(like, array) or extents:
            return like
        what = repr(like)
        if given := next((name for name, value in arguments.items() if value is like), ""):
            what = f"argument {given!r}, which is of type {type(like).__name__}"
        raise QuadrantsRuntimeTypeError(
            f"output {output!r} of {self.title} must be like a tensor or have a shape, not like {what}",
            code="QL2120",
            help=_EXAMPLES,
        )

    def _argument(self, output: str, name: str, arguments: Mapping[str, Any]) -> Any:
        if name not in arguments:
            raise QuadrantsRuntimeTypeError(
                f"output {output!r} of {self.title} is described by {name!r}, which is not an argument",
                code="QL2120",
                help="the arguments are " + ", ".join(self.parameters.parameters),
            )
        return arguments[name]
