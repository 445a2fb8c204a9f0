"""Reads the parameters of a kernel. A parameter's annotation makes a slot, an object that checks and converts
arguments."""

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import numpy as np

from quadrants_lab.errors import Label, QuadrantsSyntaxError
from quadrants_lab.frontend.diagnostics import nodes_of
from quadrants_lab.frontend.source import FunctionSource, value_of
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, from_numpy
from quadrants_lab.lang import annotations as A
from quadrants_lab.lang.buffer_view import BufferView, BufferViewType
from quadrants_lab.lang.classes import is_method
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.tensor import Tensor
from quadrants_lab.runtime.arguments.slots import AnySlot, ScalarSlot, StructSlot, typed_slot
from quadrants_lab.runtime.launch.dispatch import arity_error


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel. ``annotation`` is the evaluated annotation; ``default`` is `inspect.Parameter.empty`
    if there is no default."""

    name: str
    annotation: Any
    default: Any

    def slot(self) -> AnySlot:
        """The slot that checks and converts the argument. It needs a session, because int and float mean the session's
        default dtypes."""
        a = self.annotation
        if _is_record(a):
            members = member_annotations(a)
            slots = tuple((n, Parameter(f"{self.name}.{n}", member, None).slot()) for n, member in members)
            return StructSlot(self.name, a, slots, True)
        if (slot := getattr(a, "slot", None)) is not None:
            return slot(self.name)  # type: ignore[no-any-return]  # of an annotation
        if getattr(a, "__qd_type__", ""):
            return typed_slot(self.name, a)
        return ScalarSlot(self.name, as_dtype(a))


def _is_record(annotation: Any) -> bool:
    """Whether the annotation is a Python dataclass."""
    return isinstance(annotation, type) and is_dataclass(annotation)


def is_compound(annotation: Any) -> bool:
    """Whether arguments with this annotation are flattened: vectors, matrices, structs and instances of Python
    dataclasses."""
    return _is_record(annotation) or bool(getattr(annotation, "__qd_type__", ""))


def has_tensors(annotation: Any) -> bool:
    """Whether the annotation is `qd.Tensor`, ``array | None``, or a Python dataclass with such a member."""
    if _is_record(annotation):
        with suppress(QuadrantsSyntaxError):  # a call of the kernel raises the error again
            return any(has_tensors(member) for _, member in member_annotations(annotation))
        return False
    return isinstance(annotation, A.TensorType)


def member_annotations(cls: type) -> list[tuple[str, Any]]:
    """The names and annotations of the members of a Python dataclass; raises an error if kernels cannot take some
    member."""
    found = []
    for field in fields(cls):
        given, what = field.type, f"annotation of {cls.__name__}.{field.name}"
        if isinstance(given, str):
            try:
                given = value_of(given, vars(sys.modules[cls.__module__]))
            except Exception as e:
                text = f"the {what} cannot be evaluated: {e}"
                raise QuadrantsSyntaxError(text, code="QL2062", help=_UNKNOWN_NAME) from None
        annotation = language_annotation(given)
        if annotation is None:
            raise QuadrantsSyntaxError(
                f"{given!r}, the {what}, is not one of the language",
                code="QL2062",
                help="every member of a dataclass that a kernel takes needs an annotation that a parameter can have",
            )
        found.append((field.name, annotation))
    return found


def language_annotation(given: Any) -> Any:
    """The annotation ``given`` in its canonical form; None if it is no annotation of the kernel language. ``| None`` is
    removed from templates and tensors, which accept None anyway. An annotation with Final means a template."""
    if given is Final or get_origin(given) is Final:
        return A.Template()
    if get_origin(given) in (UnionType, Union):
        match [language_annotation(part) for part in get_args(given) if part is not NoneType]:
            case [A.NdarrayType() as array]:
                return A.TensorType(array)
            case [A.Template() | A.TensorType() as only]:
                return only
        return None
    with suppress(TypeError):  # an unhashable object is no shorthand
        given = _SHORTHANDS.get(given, given)
    match given:
        case type() if issubclass(given, Tensor):
            return A.TensorType()
        case A.Annotation() | DType():
            return given
    return given if given in (int, float, bool) or is_compound(given) else None


_SHORTHANDS: dict[Any, Any] = {
    A.Template: A.Template(),
    A.template: A.Template(),
    A.NDArray: A.NdarrayType(),
    A.ndarray: A.NdarrayType(),
    BufferView: BufferViewType(),
}


_COUNTED = "name every parameter: the number of arguments is part of a kernel"
_OTHER_KINDS = {  # kinds of parameters that kernels lack -> what it is, what to do
    inspect.Parameter.VAR_POSITIONAL: ("a parameter for any number of arguments", _COUNTED),
    inspect.Parameter.VAR_KEYWORD: ("a parameter for any number of arguments", _COUNTED),
    inspect.Parameter.POSITIONAL_ONLY: ("positional only", "leave out the '/'"),
    inspect.Parameter.KEYWORD_ONLY: ("keyword only", "leave out the '*'; arguments can be passed by name in any case"),
}


def read_parameters(fn: Callable[..., Any], source: FunctionSource) -> tuple[Parameter, ...]:
    """The parameters of a kernel in order; raises an error if an annotation is missing or is none of the language's."""
    nodes = {node.arg: node for node in nodes_of(ast.arg, source.node.args)}
    made: list[Parameter] = []
    for p in inspect.signature(fn).parameters.values():
        label = (Label(source.span(nodes[p.name]), "this parameter"),)
        if p.kind is not p.POSITIONAL_OR_KEYWORD:
            what, cure = _OTHER_KINDS[p.kind]
            raise QuadrantsSyntaxError(
                f"kernel {source.name}: {p} is {what}, which a kernel cannot have",
                code="QL2060",
                labels=label,
                help=cure,
            )
        if p.annotation is p.empty and not made and is_method(fn):
            made.append(Parameter(p.name, A.Template(), p.empty))  # self
            continue
        if p.annotation is p.empty:
            raise QuadrantsSyntaxError(
                f"kernel {source.name}: parameter '{p.name}' has no annotation",
                code="QL2061",
                labels=label,
                help="annotate it, for example x: qd.f32, x: qd.types.ndarray(), x: qd.template()",
            )
        made.append(Parameter(p.name, _annotation(p, source, label), p.default))
    return tuple(made)


_UNKNOWN_NAME = (
    "after 'from __future__ import annotations' an annotation is a text; names of the module have their values in it, "
    "names of a function around it only if the body uses them: define the type in the module, or leave that line out"
)


def _brief(given: Any) -> str:
    """The annotation as it is shown in messages: one that is long only by its type."""
    text = repr(given)
    return text if len(text) <= 80 else f"an object of type {type(given).__name__}"


def _annotation(p: inspect.Parameter, source: FunctionSource, label: tuple[Label, ...]) -> Any:
    given = p.annotation
    if isinstance(given, str):
        cells = {}
        for name in source.fn.__code__.co_freevars:
            with suppress(KeyError):  # the name has no value yet
                cells[name] = source.lookup(name)
        try:
            given = value_of(given, source.fn.__globals__, cells)
        except Exception as e:
            what = f"kernel {source.name}: the annotation of '{p.name}' cannot be evaluated: {e}"
            raise QuadrantsSyntaxError(what, code="QL2062", labels=label, help=_UNKNOWN_NAME) from None
    annotation = language_annotation(given)
    if annotation is not None:
        return annotation
    raise QuadrantsSyntaxError(
        f"kernel {source.name}: {_brief(given)} is not an annotation of the language",
        code="QL2062",
        labels=label,
        help=_instead(given),
    )


def _instead(given: object) -> str:
    """What to write instead of an annotation that the language lacks."""
    kind = given if isinstance(given, type) else type(None)
    if issubclass(kind, np.generic) and (dtype := from_numpy(np.dtype(kind))) is not None:
        return f"write qd.{dtype}"
    if hasattr(kind, "__array_interface__") or hasattr(kind, "__dlpack__"):
        return "write qd.types.ndarray(), which takes arrays of numpy, tensors and qd.ndarray"
    return (
        "use a dtype such as qd.f32, int, float, qd.types.ndarray(...), qd.types.vector(...), a struct type, a "
        "dataclass or qd.template()"
    )


def positional(
    kernel: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """All arguments in the order of the parameters, collected from positional ones, keywords and defaults."""
    names = [p.name for p in parameters]
    for name in kwargs:
        if name not in names and name != "qd_stream":  # the argument has no effect: a session has one queue
            help = f"it takes ({', '.join(names)})"
            raise QuadrantsSyntaxError(f"kernel {kernel} has no argument '{name}'", code="QL2049", help=help)
        if name in names[: len(args)]:
            raise QuadrantsSyntaxError(f"kernel {kernel}: argument '{name}' was given twice", code="QL2049")
    out = list(args)
    for p in parameters[len(args) :]:
        if p.name in kwargs:
            out.append(kwargs[p.name])
        elif p.default is not inspect.Parameter.empty:
            out.append(p.default)
        else:
            break
    if len(out) != len(names):
        raise arity_error(kernel, names, max(len(out), len(args)))
    return tuple(out)
