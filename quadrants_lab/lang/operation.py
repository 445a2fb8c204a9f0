"""What an operation of another library's derivatives has, whichever library it is: a function, and its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from inspect import Signature, signature
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.classes import BoundKernel
from quadrants_lab.runtime.launch.observe import differentiating


class Operation:
    """A kernel, or a Python function that launches kernels. ``outputs``: which of its parameters (``whole``) the
    operation makes and returns, and what each is like; ``own`` are the others. ``maker``: what users call it."""

    maker = ""

    def __init__(self, fn: Callable[..., Any], outputs: Mapping[str, Any]) -> None:
        if not callable(fn):
            raise QuadrantsRuntimeTypeError(
                f"{self.maker} takes a kernel or a Python function, not {fn!r}", code="QL2120"
            )
        update_wrapper(self, fn, updated=())
        self.fn = fn
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.title = f"{self.maker} {self.name}"
        self.outputs = dict(outputs)
        parameters = list(signature(fn).parameters.values())[isinstance(fn, BoundKernel) :]
        self.whole = Signature(parameters)
        unknown = [name for name in self.outputs if name not in self.whole.parameters]
        if unknown or not self.outputs:
            what = f"{unknown[0]!r} is no parameter of it" if unknown else "none are given"
            raise QuadrantsRuntimeTypeError(
                f"outputs of {self.title}: {what}",
                code="QL2120",
                help="the parameters are " + ", ".join(self.whole.parameters),
            )
        self.own = Signature([p for p in parameters if p.name not in self.outputs])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<qd.{self.title}{self.own} -> {', '.join(self.outputs)}>"

    def check_context(self) -> None:
        """An error where what differentiates does not see through the operation."""
        if differentiating():
            raise QuadrantsRuntimeError(
                f"{self.title} is called under a Tape or FwdMode, which do not see through it",
                code="QL2121",
                help=f"call {self.name} itself there, or let {self.maker.removesuffix('_op')} differentiate all of it",
            )

    def like(self, output: str, named: Mapping[str, Any], array: Any) -> Any:
        """What an output is like: an ``array`` or a shape, from what was given, an argument's name, or a function of
        some arguments."""
        like = self.outputs[output]
        if callable(like) and not isinstance(like, array):
            like = like(*[self._argument(output, name, named) for name in signature(like).parameters])
        if isinstance(like, str):
            like = self._argument(output, like, named)
        if isinstance(like, int):
            like = (like,)
        if isinstance(like, array) or (isinstance(like, (tuple, list)) and all(isinstance(n, int) for n in like)):
            return like
        raise QuadrantsRuntimeTypeError(
            f"output {output!r} of {self.title} must be like an argument, a shape or a tensor, not {like!r}",
            code="QL2120",
            help='for example outputs={"y": "x"}, {"loss": ()} or {"y": lambda x: x.shape[:1]}',
        )

    def _argument(self, output: str, name: str, named: Mapping[str, Any]) -> Any:
        if name not in named:
            raise QuadrantsRuntimeTypeError(
                f"output {output!r} of {self.title} is to be like {name!r}, which is no argument",
                code="QL2120",
                help="the arguments are " + ", ".join(self.own.parameters),
            )
        return named[name]
