"""Pickles a program for workers: its functions and kernels with their source, so that workers can compile kernels (also
kernels that a function makes there) and name source lines in errors.

If a part cannot be pickled, an error names the part and the path to it, before anything is sent.
"""

import io
import linecache
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

from quadrants_lab.ad import Tape
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.frontend.source import FunctionSource, function_source
from quadrants_lab.lang.classes import is_named
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.external_op import ExternalOp
from quadrants_lab.lang.kernel import Func, Kernel, Launchable, make_kernel
from quadrants_lab.lang.snode import SNode
from quadrants_lab.runtime.session import Session


class OfSession(TypeError):
    """An object that cannot be sent, because it belongs to the session of this process."""


def packed(thing: Any, what: str) -> bytes:
    """``thing`` as a pickle for `unpacked` in another process. Functions and classes that can be imported are sent by
    name, others by value. Raises QL2204, with the name of the part, if a part cannot be sent. ``what`` is the name of
    the whole, for messages."""
    try:
        return _dumped(thing)
    except Exception as error:
        path, last = [what], error
        part, seen = thing, {id(thing)}
        while (inner := _first_bad(part, seen)) is not None:
            name, part, last = inner
            path.append(name)
        why = str(last) if isinstance(last, OfSession) else f"{type(last).__name__}: {last}"
        raise QuadrantsRuntimeError(
            f"map_gradients cannot send {' -> '.join(path)}: {why}",
            code="QL2204",
            help="make fields where shards run, with kept(make, ...), and give kernels their fields as arguments; send "
            "data as numpy arrays, and a path or an address in place of an open file or connection",
        ) from error


def unpacked(raw: bytes) -> Any:
    import pickle

    return pickle.loads(raw)


def _dumped(thing: Any) -> bytes:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
        def reducer_override(self, obj: Any) -> Any:
            if (reduced := _reduced(obj)) is not None:
                return reduced
            if isinstance(obj, CodeType):
                lines = linecache.getlines(obj.co_filename)  # the same list for all code of a file, so it is sent once
                return _coded, (*self.dispatch_table[CodeType](obj), obj.co_filename, lines)
            return super().reducer_override(obj)

    out = io.BytesIO()
    Pickler(out, protocol=5).dump(thing)
    return out.getvalue()


def _reduced(obj: Any) -> Any:
    """The pickled form of an object of the language, as `__reduce__` returns it; None for any other object."""
    match obj:
        case Dense() | SNode() | Tape() | Session():
            raise OfSession(f"{obj!r} belongs to the session of this process")
        case Kernel() | Func() | ExternalOp() if _importable(obj):
            return _imported, (obj.__module__, obj.__dict__["__qualname__"])
        case Launchable():
            return _launchable, (obj._variants.source.fn, obj._variants.graph, obj._side)
        case Func():
            return type(obj), (obj.__dict__["__wrapped__"],)
        case ExternalOp():
            return type(obj), obj.made_of()
        case FunctionSource():
            return function_source, (obj.fn,)
    return None


def _importable(obj: Kernel | Func | ExternalOp) -> bool:
    import cloudpickle

    by_value = "__main__", *cloudpickle.list_registry_pickle_by_value()
    return obj.__module__ not in by_value and is_named(obj)


def _imported(module: str, qualname: str) -> Any:
    return reduce(getattr, qualname.split("."), import_module(module))


def _launchable(fn: Callable[..., Any], graph: bool, side: int) -> Launchable:
    made = make_kernel(fn, graph)
    return (made, made.grad, made.value_and_grad)[side]


def _coded(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str, lines: list[str]) -> CodeType:
    """Makes a code object from another process, whose source file need not exist here: puts its lines into linecache.
    cloudpickle 3.1.3 does not send the name of the file."""
    if lines:
        linecache.cache[file] = sum(map(len, lines)), None, lines, file  # checkcache keeps an entry without mtime
    return make(*parts).replace(co_filename=file)


def _first_bad(part: Any, seen: set[int]) -> tuple[str, Any, Exception] | None:
    """Name, value and error of the first component of ``part`` that cannot be sent."""
    for name, value in _inside(part).items():
        if id(value) in seen or isinstance(value, ModuleType):
            continue
        seen.add(id(value))
        try:
            _dumped(value)
        except Exception as error:
            return name, value, error
    return None


def _inside(part: Any) -> dict[str, Any]:
    """The components of an object by name: the names that a function uses, the items of a container, attributes."""
    match part:
        case Dense() | SNode() | Tape() | Session():
            return {}
        case Launchable():
            part = part._variants.source.fn
    part = getattr(part, "__func__", getattr(part, "__wrapped__", part))
    match part:
        case FunctionType():
            code = part.__code__
            cells = dict(zip(code.co_freevars, part.__closure__ or (), strict=True))
            inner = {n: c.cell_contents for n, c in cells.items() if c.cell_contents is not None}
            used = {n: part.__globals__[n] for n in code.co_names if n in part.__globals__}
            defaults = {f"default {n}": value for n, value in enumerate(part.__defaults__ or ())}
            return {**inner, **used, **defaults}
        case dict():
            return {repr(name): value for name, value in part.items()}
        case list() | tuple():
            return {f"[{n}]": value for n, value in enumerate(part)}
        case object(__dict__=dict() as attributes):
            return {f".{name}": value for name, value in attributes.items()}
    return {}
