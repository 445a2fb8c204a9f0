"""`@qd.kernel` and `@qd.func`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants_lab.frontend.diagnostics import error
from quadrants_lab.frontend.source import function_source
from quadrants_lab.lang.classes import BoundFunc, BoundKernel, bind, is_method
from quadrants_lab.lang.graph import Graph, GraphStatus, check_asked, graph_of, run
from quadrants_lab.lang.parameters import is_compound, positional, read_parameters
from quadrants_lab.lang.tensor_variants import TensorVariants
from quadrants_lab.lang.wrappers import unwrapped
from quadrants_lab.runtime.launch.dispatch import Dispatcher

if TYPE_CHECKING:
    from quadrants_lab.runtime.record.inspect import Sizes

T = TypeVar("T")


class Launchable:
    """Base of a kernel, its gradient and both together: a call, and access to what was compiled.

    ``ir`` and ``code`` show the specialisation of the last call; where nothing has to be known of the arguments they
    need no call.
    """

    __slots__ = ("__weakref__", "_dispatch", "_parameters", "_side", "_variants", "name")
    __qd_kernel__ = True

    def __init__(self, variants: TensorVariants, side: int) -> None:
        self.name = variants.source.name
        self._parameters = variants.parameters
        self._variants = variants
        self._side = side  # which of the dispatchers of a variant
        self._dispatch = variants.default[side]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = positional(self.name, self._parameters, args, kwargs)
        try:
            return self._dispatch.call(*args)
        except (TypeError, SyntaxError):
            if len(args) == len(self._parameters):
                raise
            args = positional(self.name, self._parameters, args, {})
        return self._dispatch.call(*args)

    def _call_flattened(self, *args: Any, **kwargs: Any) -> Any:
        """A call where some parameters are vectors, matrices or structs, or may be fields or arrays."""
        if kwargs or len(args) != len(self._parameters):
            args = positional(self.name, self._parameters, args, kwargs)
        if not self._variants.tensors:
            return self._dispatch.call(*self._dispatch.flat(args))
        flat = self._variants.default[0].flat(args)
        self._dispatch = self._variants.given(flat)[self._side]
        return self._dispatch.call(*flat)

    def ir(self, stage: str = "") -> str:
        """The IR as text: what the backend gets, or as it is at ``stage`` ("front end", or the name of a pass, with or
        without "after"). An unknown stage is a KeyError that lists them."""
        from quadrants_lab.runtime.record.inspect import ir_text

        return ir_text(self._dispatch, stage)

    def code(self, stage: str = "") -> str:
        """A backend's output at ``stage``, for instance "llvm", "asm", "c", "spirv" or "msl"; the device need not
        be there. Without one, the last stage of the session's backend. An unknown stage is a KeyError that lists
        them."""
        from quadrants_lab.runtime.record.inspect import code_text

        return code_text(self._dispatch, stage)

    @property
    def dispatcher(self) -> Dispatcher:
        return self._dispatch


class Gradient(Launchable):
    """The reverse-mode derivative of a kernel: adds into the gradients of what the kernel reads, and does not run the
    kernel itself."""

    __slots__ = ()

    def sizes(self) -> Sizes:
        """A row for each adstack, with its depth in the last gradient launch, and notes on values without one."""
        from quadrants_lab.runtime.record.inspect import sizes

        return sizes(self._dispatch)

    def __repr__(self) -> str:
        return f"<gradient of qd.kernel {self.name}>"


class ValueAndGradient(Launchable):
    """A kernel followed by its gradient: what ``k(...)`` and then ``k.grad(...)`` do, and the kernel's value.

    Set the gradients of what the kernel writes before, as for `Kernel.grad`. Where the gradient needs nothing that only
    the end of the launch tells, both are one launch, in which the kernel's last loop goes on to the derivative of each
    iteration while its values are at hand; else, and under a Tape and in checked modes, they are two.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<value and gradient of qd.kernel {self.name}>"


class Kernel(Launchable):
    """A compiled function. Call it to launch; `grad` launches its reverse-mode derivative, `value_and_grad` both."""

    __slots__ = ("__dict__", "grad", "method", "source", "value_and_grad")
    _gradient, _both = Gradient, ValueAndGradient

    def __init__(self, fn: Callable[..., Any], variants: TensorVariants) -> None:
        super().__init__(variants, 0)
        self.source = variants.source
        self.method = is_method(fn)
        self.grad, self.value_and_grad = self._gradient(variants, 1), self._both(variants, 2)
        update_wrapper(self, fn, updated=())

    def sizes(self) -> Sizes:
        """A row for each adstack of the gradient, with its depth in the last gradient launch."""
        return self.grad.sizes()

    def export(self, path: str | Path, iterations: Sequence[object] = ()) -> Path:
        """Writes the inspector of the last launches to a file: a page for any browser (.html), or what `qd.inspect`
        opens (.json). ``iterations``: those whose steps can be followed there, for instance 3, or (3, 5) of two
        loops; they need a launch in a `%%qdkernel` cell."""
        from quadrants_lab.notebook.saved import export_kernel  # a floor above: only here

        return export_kernel(self, path, iterations)

    def __get__(self, instance: object, owner: type | None = None) -> Kernel | BoundKernel:
        if instance is None or not self.method:
            return self
        return bind(self, instance, owner or type(instance))

    def __repr__(self) -> str:
        return f"<qd.kernel {self.name}({', '.join(p.name for p in self._parameters)})>"


def _called_by(call: Callable[..., Any], base: type[T]) -> type[T]:
    """The class with another ``__call__``, which Python looks up in the class alone."""
    return type(base.__name__, (base,), {"__slots__": (), "__call__": call})


class FlattenedKernel(Kernel):
    """A kernel of which some parameters are vectors, matrices or structs, or may be fields or arrays."""

    __slots__ = ()
    __call__ = Launchable._call_flattened
    _gradient, _both = _called_by(__call__, Gradient), _called_by(__call__, ValueAndGradient)


def _under_a_tape(self: Launchable, *args: Any, **kwargs: Any) -> Any:
    raise QuadrantsRuntimeError(
        f"kernel {self.name} is several launches, as many as its flags say, and has no gradient of its own",
        code="QL2131",
        help="launch it under qd.ad.Tape(loss), which knows the launches that there were",
    )


class GraphKernel(Kernel):
    """A kernel whose launch is several, see `lang.graph`."""

    __slots__ = ()
    _gradient, _both = _called_by(_under_a_tape, Gradient), _called_by(_under_a_tape, ValueAndGradient)

    def __init__(self, fn: Callable[..., Any], variants: TensorVariants, made: Graph) -> None:
        super().__init__(fn, variants)
        pieces = [step.piece for step in made.steps if step.piece is not None]
        whole = {id(p): _kernel(fn, TensorVariants(p, variants.parameters, variants.graph)) for p in pieces}
        self.__dict__.update(graph=made, pieces=whole)

    def __call__(self, *args: Any, **kwargs: Any) -> GraphStatus | None:
        status = self._run(args, kwargs, 0)
        return status if self.__dict__["graph"].resume else None

    def resume(self, *args: Any, from_checkpoint: Any, **kwargs: Any) -> GraphStatus:
        """Goes on, with the same arguments, with the block of the checkpoint that ended a launch."""
        begins = self.__dict__["graph"].resume
        if from_checkpoint not in begins:
            known = ", ".join(map(repr, begins)) or "none"
            raise QuadrantsRuntimeError(
                f"kernel {self.name} has no checkpoint {from_checkpoint!r}", code="QL2131", help=f"it has {known}"
            )
        return self._run(args, kwargs, begins[from_checkpoint])

    def _run(self, args: Sequence[Any], kwargs: dict[str, Any], at: int) -> GraphStatus:
        args = positional(self.name, self._parameters, args, kwargs)
        given = dict(zip((p.name for p in self._parameters), args, strict=True))
        pieces = self.__dict__["pieces"]
        return run(self.__dict__["graph"], lambda piece: pieces[id(piece)](*args), given, at)

    def ir(self, stage: str = "") -> str:
        """That of each launch, in order."""
        return "\n".join(k.ir(stage) for k in self.__dict__["pieces"].values())

    def code(self, stage: str = "") -> str:
        """That of each launch, in order."""
        return "\n".join(k.code(stage) for k in self.__dict__["pieces"].values())


def make_kernel(fn: Callable[..., Any], graph: bool = False, checkpoints: bool = False) -> Kernel:
    """The kernel of a function, of the class that it needs."""
    if fn.__name__ == "<lambda>":
        raise error("QL1101", None)
    source = function_source(fn)
    made = graph_of(source)
    variants = TensorVariants(source, read_parameters(fn, source), graph)
    if made is None:
        return _kernel(fn, variants)
    check_asked(source, made, graph, checkpoints)
    return GraphKernel(fn, variants, made)


def _kernel(fn: Callable[..., Any], variants: TensorVariants) -> Kernel:
    """The kernel of the class that its parameters need."""
    flattened = variants.tensors or any(is_compound(p.annotation) for p in variants.parameters)
    return (FlattenedKernel if flattened else Kernel)(fn, variants)


@overload
def kernel(fn: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *, pure: bool | None = None, fastcache: bool = False, graph: bool = False, checkpoints: bool = False
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    pure: bool | None = None,
    fastcache: bool = False,
    graph: bool = False,
    checkpoints: bool = False,
) -> Any:
    """Makes a kernel of a function. Its outermost loops run in parallel, one after the other.

    Every parameter is annotated: a dtype, int or float for a number, `qd.types.ndarray` for an array, `qd.template`
    for what is known at compile time. ``pure`` and ``fastcache`` are accepted: the disk cache needs no such promise.
    ``graph``: on CUDA the loops of a launch, and of its gradient, start together, as a CUDA graph from the first launch
    on; such a kernel returns nothing and takes arrays on the GPU. `qd.graph.do_while` and, with ``checkpoints``,
    `qd.checkpoint` ask for it everywhere.
    """

    def made(fn: Callable[..., Any]) -> Kernel:
        return make_kernel(_function(fn, "kernel"), graph, checkpoints)

    return made if fn is None else made(fn)


def pure(fn: Kernel) -> Kernel:
    """The kernel as it is: its promise to read no globals but constants is not needed here."""
    return fn


class Func:
    """A function that is inlined where kernels call it."""

    __slots__ = ("__dict__", "method", "source")
    __qd_func__ = True

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.source = function_source(fn)
        self.method = is_method(fn)
        update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise QuadrantsRuntimeError(
            f"func {self.source.name} can be called only from kernels and funcs",
            code="QL2063",
            help="wrap it in a kernel that returns its value",
        )

    def __get__(self, instance: object, owner: type | None = None) -> Func | BoundFunc:
        return self if instance is None or not self.method else BoundFunc(self, instance)

    def __repr__(self) -> str:
        return f"<qd.func {self.source.name}>"


class PyFunc(Func):
    """A func that Python can call too: it then runs as the Python that it is."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["__wrapped__"](*args, **kwargs)


def func(fn: Callable[..., Any]) -> Func:
    """Makes a function that kernels and other funcs can call."""
    return Func(_function(fn, "func"))


def pyfunc(fn: Callable[..., Any]) -> PyFunc:
    """Makes a function that kernels, funcs and Python can call."""
    return PyFunc(_function(fn, "pyfunc"))


def real_func(fn: Callable[..., Any]) -> Func:
    """The same as `func`: every func is inlined where it is called."""
    return Func(_function(fn, "real_func"))


for _decorator in (func, pyfunc, real_func):
    _decorator.__qd_decorator__ = True  # type: ignore[attr-defined]  # a kernel may call them on what it calls


def _function(fn: Any, what: str) -> Callable[..., Any]:
    if isinstance(fn, (staticmethod, classmethod)):
        raise QuadrantsSyntaxError(
            f"@qd.{what} goes under @staticmethod",
            code="QL2064",
            help=f"write @staticmethod above @qd.{what}",
        )
    if isinstance(fn, Launchable | Func):
        raise QuadrantsSyntaxError(f"{fn!r} is decorated twice", code="QL2064")
    if not callable(fn):
        raise TypeError(f"@qd.{what} decorates a function, not an object of type {type(fn).__name__}")
    return unwrapped(fn, what)
