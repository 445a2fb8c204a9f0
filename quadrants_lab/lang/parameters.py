"""Parameters of a kernel: from annotations to the slots that check arguments."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from quadrants_lab.errors import Label, QuadrantsSyntaxError
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.lang import annotations as A
from quadrants_lab.lang.buffer_view import BufferView, BufferViewType
from quadrants_lab.lang.classes import is_method
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.tensor import Tensor
from quadrants_lab.runtime.arguments.compound import AnySlot, StructSlot, TensorSlot, typed_slot
from quadrants_lab.runtime.arguments.signature import ArraySlot, ScalarSlot, TemplateSlot
from quadrants_lab.runtime.launch.dispatch import arity_error


@dataclass(frozen=True, slots=True)
class Parameter:
    """``annotation`` is evaluated; ``default`` is `inspect.Parameter.empty` where there is none."""

    name: str
    annotation: Any
    default: Any

    def slot(self) -> AnySlot:
        """Checks and converts the argument; in a session, because int and float mean its default dtypes."""
        a = self.annotation
        if isinstance(a, A.Template):
            return TemplateSlot(self.name)
        if isinstance(a, A.NdarrayType):
            element = a.dtype if getattr(a.dtype, "__qd_type__", "") else None
            dtype = a.dtype if element is None else element.dtype
            shape = (a.element_shape or ()) if element is None else tuple(element.shape)
            dtype = None if dtype is None else as_dtype(dtype)
            return ArraySlot(self.name, dtype, a.ndim, a.needs_grad, shape)
        if isinstance(a, A.TensorType):
            return TensorSlot(self.name)
        if isinstance(a, type) and is_dataclass(a):
            of = member_annotations(a)
            members = tuple((n, Parameter(f"{self.name}.{n}", each, self.default).slot()) for n, each in of)
            return StructSlot(self.name, a, members, True)
        if isinstance(a, BufferViewType):
            return a.slot(self.name)
        if getattr(a, "__qd_type__", ""):
            return typed_slot(self.name, a)
        return ScalarSlot(self.name, as_dtype(a))


def is_compound(annotation: Any) -> bool:
    """Whether it is a vector, matrix or struct type, or a Python dataclass: more than one argument below the call."""
    if isinstance(annotation, type):
        return is_dataclass(annotation)
    return bool(getattr(annotation, "__qd_type__", ""))


def has_tensors(annotation: Any) -> bool:
    """Whether it is `qd.Tensor`, or a Python dataclass with such a member."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        with suppress(QuadrantsSyntaxError):  # a call will say so
            return any(has_tensors(member) for _, member in member_annotations(annotation))
        return False
    return isinstance(annotation, A.TensorType)


def member_annotations(cls: type) -> list[tuple[str, Any]]:
    """The members of a Python dataclass; an error at the one whose annotation is not of the language."""
    found = []
    for field in fields(cls):
        given = field.type
        if isinstance(given, str):
            try:
                given = eval(given, {**vars(sys.modules[cls.__module__])})
            except Exception as e:
                raise QuadrantsSyntaxError(
                    f"the annotation of {cls.__name__}.{field.name} cannot be evaluated: {e}", code="QL2062"
                ) from None
        annotation = language_annotation(given)
        if annotation is None:
            raise QuadrantsSyntaxError(
                f"{given!r}, the annotation of {cls.__name__}.{field.name}, is not one of the language",
                code="QL2062",
                help="every member of a dataclass that a kernel takes is annotated as a parameter would be",
            )
        found.append((field.name, annotation))
    return found


def language_annotation(given: Any) -> Any:
    """What a parameter is annotated with, shorthands written out; None where it is nothing of the language."""
    with suppress(TypeError):  # not hashable: none of ours
        given = _SHORTHANDS.get(given, given)
    if isinstance(given, type) and issubclass(given, Tensor):
        return A.TensorType()
    known = isinstance(given, (A.Template, A.NdarrayType, A.TensorType, DType)) or given in (int, float, bool)
    return given if known or is_compound(given) else None


_SHORTHANDS: dict[Any, Any] = {
    A.Template: A.Template(),
    A.template: A.Template(),
    A.NDArray: A.NdarrayType(),
    A.ndarray: A.NdarrayType(),
    BufferView: BufferViewType(),
}


def read_parameters(fn: Callable[..., Any], source: FunctionSource) -> tuple[Parameter, ...]:
    """The parameters in order; an error at the one that has no annotation, or one that is not of the language."""
    nodes = {node.arg: node for node in ast.walk(source.node.args) if isinstance(node, ast.arg)}
    made: list[Parameter] = []
    for p in inspect.signature(fn).parameters.values():
        label = (Label(source.span(nodes[p.name]), "this parameter"),)
        if p.kind is not p.POSITIONAL_OR_KEYWORD:
            raise QuadrantsSyntaxError(
                f"kernel {source.name}: {p} is not a parameter that a kernel can have",
                code="QL2060",
                labels=label,
                help="name every parameter: the number of arguments is part of a kernel",
            )
        if p.annotation is p.empty and not made and is_method(fn):
            made.append(Parameter(p.name, A.Template(), p.empty))  # the object that it is a method of
            continue
        if p.annotation is p.empty:
            hint = "annotate it, for example x: qd.f32, x: qd.types.ndarray(), x: qd.template()"
            raise QuadrantsSyntaxError(
                f"kernel {source.name}: parameter '{p.name}' has no annotation",
                code="QL2061",
                labels=label,
                help=hint,
            )
        made.append(Parameter(p.name, _annotation(p, source, label), p.default))
    return tuple(made)


def _annotation(p: inspect.Parameter, source: FunctionSource, label: tuple[Label, ...]) -> Any:
    given = p.annotation
    if isinstance(given, str):
        try:
            given = eval(given, {**source.fn.__globals__}, dict(_cells(source)))
        except Exception as e:
            raise QuadrantsSyntaxError(
                f"kernel {source.name}: the annotation of '{p.name}' cannot be evaluated: {e}",
                code="QL2062",
                labels=label,
            ) from None
    annotation = language_annotation(given)
    if annotation is not None:
        return annotation
    raise QuadrantsSyntaxError(
        f"kernel {source.name}: {given!r} is not an annotation of the language",
        code="QL2062",
        labels=label,
        help="use a dtype such as qd.f32, int, float, qd.types.ndarray(...), qd.types.vector(...), a struct type, a "
        "dataclass or qd.template()",
    )


def _cells(source: FunctionSource) -> dict[str, Any]:
    found = {}
    for name in source.fn.__code__.co_freevars:
        try:
            found[name] = source.lookup(name)
        except KeyError:
            continue
    return found


def positional(
    kernel: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """All arguments in order, from positional ones, keywords and defaults."""
    names = [p.name for p in parameters]
    for name in kwargs:
        if name not in names and name != "qd_stream":  # there is one queue
            raise QuadrantsSyntaxError(
                f"kernel {kernel} has no argument '{name}'",
                code="QL2049",
                help=f"it takes ({', '.join(names)})",
            )
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
