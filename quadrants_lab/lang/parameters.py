"""Parameters of a kernel: from annotations to the slots that check arguments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quadrants_lab.errors import Label, QuadrantsSyntaxError
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir.types import DType
from quadrants_lab.lang import annotations as A
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.runtime.dispatch import arity_error
from quadrants_lab.runtime.signature import ArraySlot, ScalarSlot, Slot, TemplateSlot


@dataclass(frozen=True, slots=True)
class Parameter:
    """``annotation`` is evaluated; ``default`` is `inspect.Parameter.empty` where there is none."""

    name: str
    annotation: Any
    default: Any

    def slot(self) -> Slot:
        """Checks and converts the argument; in a session, because int and float mean its default dtypes."""
        a = self.annotation
        if isinstance(a, A.Template):
            return TemplateSlot(self.name)
        if isinstance(a, A.NdarrayType):
            return ArraySlot(self.name, None if a.dtype is None else as_dtype(a.dtype), a.ndim, a.needs_grad)
        return ScalarSlot(self.name, as_dtype(a))


_SHORTHANDS: dict[Any, Any] = {
    A.Template: A.Template(),
    A.template: A.Template(),
    A.NDArray: A.NdarrayType(),
    A.ndarray: A.NdarrayType(),
}


def read_parameters(fn: Callable[..., Any], source: FunctionSource) -> tuple[Parameter, ...]:
    """The parameters in order; an error at the one that has no annotation, or one that is not of the language."""
    nodes = {node.arg: node for node in ast.walk(source.node.args) if isinstance(node, ast.arg)}
    made = []
    for p in inspect.signature(fn).parameters.values():
        label = (Label(source.span(nodes[p.name]), "this parameter"),)
        if p.kind is not p.POSITIONAL_OR_KEYWORD:
            raise QuadrantsSyntaxError(
                f"kernel {source.name}: {p} is not a parameter that a kernel can have",
                code="QL2060",
                labels=label,
                help="name every parameter: the number of arguments is part of a kernel",
            )
        if p.annotation is p.empty:
            hint = "annotate it, for example x: qd.f32, x: qd.types.ndarray(), x: qd.template()"
            if p.name == "self":
                hint = "methods cannot be kernels yet: pass fields as qd.template() arguments"
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
    with suppress(TypeError):  # not hashable: none of ours
        given = _SHORTHANDS.get(given, given)
    if isinstance(given, (A.Template, A.NdarrayType, DType)) or given in (int, float, bool):
        return given
    raise QuadrantsSyntaxError(
        f"kernel {source.name}: {given!r} is not an annotation of the language",
        code="QL2062",
        labels=label,
        help="use a dtype such as qd.f32, int, float, qd.types.ndarray(...) or qd.template()",
    )


def _cells(source: FunctionSource) -> dict[str, Any]:
    found = {}
    for name in source.cells:
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
        if name not in names:
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
