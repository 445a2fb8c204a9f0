"""Implements `@qd.kernel` and `@qd.func`: kernels, their gradients, and functions that kernels call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from quadrants_lab.errors import Label, QuadrantsError, QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants_lab.frontend.diagnostics import error
from quadrants_lab.frontend.source import function_source
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.lang.classes import BoundFunc, BoundKernel, bind, is_method
from quadrants_lab.lang.config import shortened
from quadrants_lab.lang.graph import Graph, GraphStatus, check_options, checkpoints_of, graph_of, run
from quadrants_lab.lang.parameters import is_compound, positional, read_parameters
from quadrants_lab.lang.tensor_variants import TensorVariants
from quadrants_lab.runtime.launch.dispatch import Dispatcher

if TYPE_CHECKING:
    from pathlib import Path

    from quadrants_lab.ir.dot import Drawing
    from quadrants_lab.runtime.record.inspect import Sizes

T = TypeVar("T")

# a key in the metadata of a dataclass member, accepted without effect: the disk cache always compares the values for
# which a kernel was compiled
FIELD_METADATA_CACHE_VALUE = "add_value_to_cache_key"

# a list to which each kernel that is made is appended; None if nobody asks for it
KERNELS_MADE: ContextVar[list[Kernel] | None] = ContextVar("quadrants_lab_kernels_made", default=None)


@dataclass(frozen=True, slots=True)
class CacheObservations:
    """What the disk cache did for a specialisation of a kernel: whether it made a key, found a valid entry under the
    key, loaded that entry, and stored a new one."""

    cache_key_generated: bool = False
    cache_validated: bool = False
    cache_loaded: bool = False
    cache_stored: bool = False


class Launchable:
    """Base class of `Kernel`, `Gradient` and `ValueAndGradient`. A call launches; further methods show what was
    compiled.

    `ir` and `code` show the specialisation of the last call. Without a call they work if the kernel can be compiled
    without knowledge of its arguments.
    """

    __slots__ = ("__weakref__", "_dispatch", "_parameters", "_side", "_variants", "name")
    __qd_kernel__ = True

    def __init__(self, variants: TensorVariants, side: int) -> None:
        self.name = variants.source.name
        self._parameters = variants.parameters
        self._variants = variants
        self._side = side  # which dispatcher of a variant: forward, reverse or both
        self._dispatch = variants.default[side]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = positional(self.name, self._parameters, args, kwargs)
        try:
            return self._dispatch.call(*args)
        except (TypeError, SyntaxError, QuadrantsError) as e:
            if len(args) == len(self._parameters):
                raise shortened(e)  # noqa: B904 - it is the same error
        return self._dispatch.call(*positional(self.name, self._parameters, args, {}))

    def _call_flattened(self, *args: Any, **kwargs: Any) -> Any:
        """A call with parameters that are vectors, matrices or structs, or that can be fields or arrays."""
        if kwargs or len(args) != len(self._parameters):
            args = positional(self.name, self._parameters, args, kwargs)
        try:
            if not self._variants.tensors:
                return self._dispatch.call(*self._dispatch.flat(args))
            flat = self._variants.default[0].flat(args)
            self._dispatch = chosen = self._variants.for_arguments(flat)[self._side]
            return chosen.call(*flat)  # not self._dispatch, which another thread may have changed
        except QuadrantsError as e:
            raise shortened(e)  # noqa: B904

    def ir(self, stage: str = "") -> str:
        """The IR as text at ``stage`` ("front end", or the name of a pass, with or without "after"); by default, the IR
        that the backend gets. An unknown stage is a KeyError that lists the stages."""
        from quadrants_lab.runtime.record.inspect import ir_text

        return ir_text(self._dispatch, stage)

    def code(self, stage: str = "") -> str:
        """The code that a backend makes at ``stage``, for instance "llvm", "asm", "c", "spirv" or "msl"; no device is
        needed. The default is the last stage of the session's backend. An unknown stage is a KeyError that lists the
        stages."""
        from quadrants_lab.runtime.record.inspect import code_text

        return code_text(self._dispatch, stage)

    def schedule(self) -> str:
        """One line for each task that says how the session's device runs it, and why: lanes, colours, copies, how many
        iterations a thread takes at a time."""
        from quadrants_lab.runtime.record.inspect import schedule_text

        return schedule_text(self._dispatch)

    def reproduce(self, path: str | Path, *args: Any, **kwargs: Any) -> Path:
        """Writes a script with the kernel's source, its data and one launch. Run in a process of its own, the script
        shows what is wrong. The launch runs with all checks; for a gradient (``k.grad.reproduce``) the script compares
        it with finite differences and forward mode. Data of more than 32 numbers go to an .npz file beside it.

        With arguments, the script has the present data. Without arguments, it repeats the last recorded launch, with
        the data from before that launch; launches are recorded in a ``%%qdkernel`` cell, and in a session with
        ``qd.init(check="nan")`` or more. Returns the absolute path. QL0716 if the kernel uses something that a script
        cannot make again."""
        return self._reproduce(path, args, kwargs)

    def _reproduce(self, path: str | Path, args: Any, kwargs: Any, instance: Any = None) -> Path:
        from quadrants_lab.lang.reproduce import reproduce

        return reproduce(path, self, args, kwargs, self._side > 0, instance)

    @property
    def dispatcher(self) -> Dispatcher:
        return self._dispatch

    def __reduce__(self) -> str:
        """A copy is the same object, and a pickle contains only the name, as for Python functions."""
        return self._variants.source.fn.__qualname__ + ("", ".grad", ".value_and_grad")[self._side]


class Gradient(Launchable):
    """The reverse-mode derivative of a kernel. A call reads the gradients of the fields that the kernel writes and adds
    to the gradients of the fields that the kernel reads. It does not run the kernel itself."""

    __slots__ = ()

    def sizes(self) -> Sizes:
        """A table with a row for each adstack and its depth in the last gradient launch, and notes on values that have
        no adstack."""
        from quadrants_lab.runtime.record.inspect import sizes

        return sizes(self._dispatch)

    def __repr__(self) -> str:
        return f"<gradient of qd.kernel {self.name}>"


class ValueAndGradient(Launchable):
    """A kernel followed by its gradient: the same as ``k(...)`` and then ``k.grad(...)``. Returns the kernel's value.

    The gradients of what the kernel writes must be set before, as for `Kernel.grad`. If the gradient does not depend on
    results of the whole launch, both are one launch, in which each iteration of the last loop computes its value and
    then its derivative. Otherwise, and under a Tape and in checked modes, there are two launches.
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
        functools.update_wrapper(self, fn, updated=())

    def sizes(self) -> Sizes:
        """A table with a row for each adstack of the gradient and its depth in the last launch of the gradient (or, if
        there was none, of `value_and_grad`)."""
        from quadrants_lab.runtime.record.inspect import sizes

        return sizes(self.grad.dispatcher, self.value_and_grad.dispatcher)

    def export(self, path: str | Path, iterations: Sequence[object] = (), live: bool = False) -> Path:
        """Writes the inspector of the last launches to a file: a page for any browser (.html), or data that
        `qd.inspect` opens (.json). ``iterations``: the indices of the iterations whose steps the page shows, for
        instance 3, or (3, 5) of two nested loops; steps exist only for launches in a `%%qdkernel` cell. ``live``: the
        kernel and its gradient run in the page, on numbers that its reader changes."""
        from quadrants_lab.notebook.saved import export_kernel

        return export_kernel(self, path, iterations, live)

    def beside(self, other: Kernel | str) -> object:
        """Shows this kernel beside another kernel, or beside itself: on another backend (``"vulkan"``), in an earlier
        launch of the cell (``"launch 3, forward"``), or before the cell's last edit (``"edit"``). Figures, source, IR
        and code are compared, with differences marked."""
        from quadrants_lab.notebook import beside

        return beside(self, other)

    def graph(self, name: str = "cfg") -> Drawing:
        """A graph of the last launches, which a notebook draws; ``.source`` is its DOT text. "cfg": the control flow of
        the forward slice; "scc": its strongly connected components and what they push; "sizes": the expression of each
        stack's depth; "program": fields and launches of the program, if a ``%%qdkernel`` cell had it under a Tape. With
        the package `graphviz` it is a `graphviz.Source`, so ``.render("cfg", format="pdf")`` writes a file."""
        from quadrants_lab.notebook.graphs import graph

        return graph(self, name)

    @property
    def _primal(self) -> Kernel:
        return self

    @property
    def src_ll_cache_observations(self) -> CacheObservations:
        """What the disk cache did for the specialisation of the last launch; all False without ``fastcache``."""
        plan = self._dispatch.last if self.source.pure else None
        cached = plan.compiled.cached if plan is not None else ""
        loaded = cached == "loaded"
        return CacheObservations(bool(cached), loaded, loaded, cached == "stored")

    def __get__(self, instance: object, owner: type | None = None) -> Kernel | BoundKernel:
        if instance is None or not self.method:
            return self
        return bind(self, instance, owner or type(instance))

    def __repr__(self) -> str:
        return f"<qd.kernel {self.name}({', '.join(p.name for p in self._parameters)})>"


def _called_by(call: Callable[..., Any], base: type[T]) -> type[T]:
    """A subclass of ``base`` whose ``__call__`` is ``call``: Python looks this method up in the class, not in the
    object."""
    return type(base.__name__, (base,), {"__slots__": (), "__call__": call})


class FlattenedKernel(Kernel):
    """A kernel whose arguments are flattened before a launch: vectors, matrices and structs become their numbers. A
    kernel is one too if a parameter of it takes both fields and arrays."""

    __slots__ = ()
    __call__ = Launchable._call_flattened
    _gradient, _both = _called_by(__call__, Gradient), _called_by(__call__, ValueAndGradient)


def _no_gradient(self: Launchable, *args: Any, **kwargs: Any) -> Any:
    raise QuadrantsRuntimeError(
        f"kernel {self.name} consists of several launches, as many as its flags say, and has no single gradient",
        code="QL2131",
        help="launch it under qd.ad.Tape(loss), which records its launches",
    )


class GraphKernel(Kernel):
    """A kernel whose launch consists of several steps, see `lang.graph`."""

    __slots__ = ("steps",)
    _gradient, _both = _called_by(_no_gradient, Gradient), _called_by(_no_gradient, ValueAndGradient)

    def __init__(self, fn: Callable[..., Any], variants: TensorVariants, graph: Graph) -> None:
        super().__init__(fn, variants)
        for step in graph:
            if step.piece is not None:
                piece = TensorVariants(step.piece, variants.parameters, variants.graph)
                step.piece = _kernel(fn, piece)
        self.steps = graph

    def __call__(self, *args: Any, **kwargs: Any) -> GraphStatus | None:
        status = self._run(args, kwargs, 0)
        return status if checkpoints_of(self.steps) else None

    def resume(self, *args: Any, from_checkpoint: Any, **kwargs: Any) -> GraphStatus:
        """Continues a launch that ended at a checkpoint: begins with the block of that checkpoint. The arguments must
        be the same."""
        begins = checkpoints_of(self.steps)
        if from_checkpoint not in begins:
            known = ", ".join(map(repr, begins)) or "none"
            raise QuadrantsRuntimeError(
                f"kernel {self.name} has no checkpoint {from_checkpoint!r}", code="QL2131", help=f"it has {known}"
            )
        return self._run(args, kwargs, begins[from_checkpoint])

    def _run(self, args: Sequence[Any], kwargs: dict[str, Any], at: int) -> GraphStatus:
        args = positional(self.name, self._parameters, args, kwargs)
        return run(self.steps, dict(zip((p.name for p in self._parameters), args, strict=True)), at)

    def ir(self, stage: str = "") -> str:
        """The IR of each step, in order."""
        return "\n".join(step.piece.ir(stage) for step in self.steps if step.piece is not None)

    def code(self, stage: str = "") -> str:
        """The code of each step, in order."""
        return "\n".join(step.piece.code(stage) for step in self.steps if step.piece is not None)

    def schedule(self) -> str:
        """What the device does with the tasks of each step, in order."""
        return "\n".join(step.piece.schedule() for step in self.steps if step.piece is not None)


def make_kernel(
    fn: Callable[..., Any], graph: bool = False, checkpoints: bool = False, pure: bool = False
) -> Kernel:
    """Makes the kernel of the function ``fn``; the other arguments are those of the decorator `kernel`."""
    if fn.__name__ == "<lambda>":
        raise error("QL1101", None)
    source = function_source(fn)
    source.pure = pure
    steps = graph_of(source)
    variants = TensorVariants(source, read_parameters(fn, source), graph)
    if steps:
        check_options(source, steps, graph, checkpoints)
    kernel = GraphKernel(fn, variants, steps) if steps else _kernel(fn, variants)
    made = KERNELS_MADE.get()
    if made is not None:
        made.append(kernel)
    return kernel


def _kernel(fn: Callable[..., Any], variants: TensorVariants) -> Kernel:
    """The kernel object, of the subclass of `Kernel` that its parameters require."""
    flattened = variants.tensors or any(is_compound(p.annotation) for p in variants.parameters)
    return (FlattenedKernel if flattened else Kernel)(fn, variants)


@overload
def kernel(fn: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *, pure: bool | None = None, fastcache: bool = False, graph: bool = False, checkpoints: bool = False
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    fn: Callable[..., Any] | None = None, /, *, pure: bool | None = None, fastcache: bool = False,
    graph: bool = False, checkpoints: bool = False,
) -> Any:  # fmt: skip
    """Makes a kernel from a function. Its outermost loops run one after the other, each in parallel.

    Every parameter is annotated: a dtype, int or float for a number, `qd.types.ndarray` for an array, `qd.template` for
    a compile-time value. ``fastcache``, or its older name ``pure``: the kernel may use no data that are not arguments,
    and ``kernel._primal.src_ll_cache_observations`` says what the disk cache did. (The disk cache stores all kernels,
    with and without ``fastcache``.) ``graph``: on CUDA the loops of a launch, and of its gradient, start together, as a
    CUDA graph from the first launch on; such a kernel returns nothing and takes arrays on the GPU. `qd.graph.do_while`
    and, with ``checkpoints``, `qd.checkpoint` require it on every backend.
    """

    def made(fn: Callable[..., Any]) -> Kernel:
        return make_kernel(_function(fn, "kernel"), graph, checkpoints, fastcache or bool(pure))

    return made if fn is None else made(fn)


def pure(fn: Kernel) -> Kernel:
    """Forbids a kernel to read anything but its arguments, as ``fastcache`` does, and returns it."""
    fn.source.pure = True
    return fn


class Func:
    """A function that is inlined into the kernels that call it. ``requires_top_level``: calls are allowed only at the
    statement level of kernels, where the func's loops are parallel."""

    __slots__ = ("__dict__", "__weakref__", "method", "requires_top_level", "source")
    __qd_func__ = True

    def __init__(self, fn: Callable[..., Any], requires_top_level: bool = False) -> None:
        self.source = function_source(fn)
        self.requires_top_level = requires_top_level
        self.method = is_method(fn)
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise QuadrantsRuntimeError(
            f"func {self.source.name} can be called only from kernels and funcs",
            code="QL2063",
            help="wrap it in a kernel that returns its value",
        )

    def __reduce__(self) -> str:
        return self.source.fn.__qualname__

    def __get__(self, instance: object, owner: type | None = None) -> Func | BoundFunc:
        return self if instance is None or not self.method else BoundFunc(self, instance)

    def __repr__(self) -> str:
        return f"<qd.func {self.source.name}>"


class PyFunc(Func):
    """A func that Python can call, too: the call runs the Python function from which the func was made."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["__wrapped__"](*args, **kwargs)


@overload
def func(fn: Callable[..., Any], /) -> Func: ...
@overload
def func(
    fn: None = None, /, *, is_real_function: bool = False, requires_top_level: bool = False
) -> Callable[[Callable[..., Any]], Func]: ...
def func(
    fn: Callable[..., Any] | None = None, /, *, is_real_function: bool = False, requires_top_level: bool = False
) -> Any:
    """Makes a func, which kernels and other funcs can call. With ``requires_top_level`` a call within a loop or an if
    is an error. ``is_real_function`` is accepted and has no effect: every func is inlined."""

    def made(fn: Callable[..., Any]) -> Func:
        return Func(_function(fn, "func"), requires_top_level)

    return made if fn is None else made(fn)


def pyfunc(fn: Callable[..., Any]) -> PyFunc:
    """Makes a func that Python can call too."""
    return PyFunc(_function(fn, "pyfunc"))


def real_func(fn: Callable[..., Any]) -> Func:
    """The same as `func`: every func is inlined."""
    return Func(_function(fn, "real_func"))


for _decorator in (func, pyfunc, real_func):
    setattr(_decorator, "__qd_compile_time__", True)  # noqa: B010  # kernels can call these decorators


def _function(fn: Any, what: str) -> Callable[..., Any]:
    """The Python function to which the decorator ``@qd.WHAT`` is applied; an error if ``fn`` is not such a function."""
    if isinstance(fn, (staticmethod, classmethod)):
        help = f"write @staticmethod above @qd.{what}"
        raise QuadrantsSyntaxError(f"@qd.{what} goes under @staticmethod", code="QL2064", help=help)
    if isinstance(fn, (Launchable, Func)):
        raise QuadrantsSyntaxError(f"{fn!r} is decorated twice", code="QL2064")
    if not callable(fn) or isinstance(fn, type):
        given = f"the class {fn.__name__}" if isinstance(fn, type) else f"an object of type {type(fn).__name__}"
        raise TypeError(f"@qd.{what} decorates a function, not {given}")
    return _unwrapped(fn, what)


def _unwrapped(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function that ``@qd.WHAT`` compiles. A cache around a func is ignored. Any other wrapper is an error, because
    its Python code would be lost; the message says where the wrapper belongs."""
    if isinstance(fn, functools.partial):
        name = getattr(fn.func, "__name__", "f")
        raise _wrapper_error(
            fn.func, f"@qd.{what} compiles functions, functools.partial({name}, ...) is not one",
            f"the other way round: functools.partial(qd.kernel({name}), ...)" if what == "kernel"
            else f"write a {what} that calls {name} with these arguments",
        )  # fmt: skip
    inner = getattr(fn, "__wrapped__", None)
    if inner is None:
        return fn
    if hasattr(fn, "cache_info"):
        if what != "kernel":
            return _unwrapped(inner, what)
        raise _wrapper_error(
            inner, f"kernel {inner.__name__} is cached: a launch that the cache answers would write nothing",
            "leave the cache out: what is compiled is kept without it",
        )  # fmt: skip
    if not isinstance(fn, FunctionType) or _own_parameters(fn) != _own_parameters(inner):
        name = getattr(inner, "__name__", "a function")
        raise _wrapper_error(
            inner, f"the wrapper of {name} is Python code that @qd.{what} cannot compile",
            f"the other way round: write @qd.{what} directly above def, under the other decorators",
        )  # fmt: skip
    return fn


def _own_parameters(fn: Callable[..., Any]) -> list[str]:
    """The names of the parameters of the function itself; those of a function that it wraps do not count."""
    return list(inspect.signature(fn, follow_wrapped=False).parameters)


def _wrapper_error(fn: Any, message: str, help: str) -> QuadrantsSyntaxError:
    """The error about a wrapped function, located at the function's definition if it is a Python function."""
    fn = inspect.unwrap(fn) if hasattr(fn, "__wrapped__") else fn
    labels: tuple[Label, ...] = ()
    if isinstance(fn, FunctionType):
        line = fn.__code__.co_firstlineno
        labels = (Label(Span(fn.__code__.co_filename, line, 0, line + 1, 0), "this function"),)
    return QuadrantsSyntaxError(message, code="QL2067", labels=labels, help=help)
