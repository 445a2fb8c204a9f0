"""Writes Python source text that defines objects again: kernels, functions, fields, arrays, and everything that
they refer to.

    made = Definitions(values)
    made.expression(kernel, "kernel")      the name of the kernel in the text
    "\\n".join(made.lines)                  the text, each definition before its first use

The text refers to `quadrants_lab` as ``qd``, to numpy as ``np``, and to the dict ``made.arrays``, which has the arrays
that are not small, as ``data``.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from textwrap import dedent, indent
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.frontend.diagnostics import id_of, nodes_of
from quadrants_lab.frontend.fingerprint import in_package
from quadrants_lab.frontend.source import FunctionSource, function_source
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.matrix import Matrix
from quadrants_lab.lang.matrix_types import MatrixType
from quadrants_lab.lang.struct import Struct, StructType
from quadrants_lab.lang.struct_field import StructField
from quadrants_lab.runtime.interop.tensors import torch_tensor

MOST_INLINE = 32  # the most elements of an array that is written in the text
_VALUES = (type(None), bool, int, str, bytes, range, type(...))
_PLACES = ("", "math", "types", "ad", "simt", "algorithms")  # public modules, in which a name is looked for
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

Uses = dict[str, Any]  # attribute that is read -> uses of its value; the key "" means that the value is used as a whole


class Definitions:
    """The text, while it is made. ``values(x)`` returns the data of a field or ndarray. ``fields``: the fields defined
    so far, by name; ``functions``: the kernels and functions defined so far; ``reads_gradients``: whether the source of
    one of them contains ``.grad``."""

    def __init__(self, values: Callable[[Dense], npt.NDArray[Any]]) -> None:
        self.values = values
        self.reads_gradients = False
        self.lines: list[str] = []
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.fields: dict[str, Dense] = {}
        self.functions: list[Any] = []
        self._known: dict[int, tuple[Any, str]] = {}  # by id: the object, and the name that it has in the text
        self._means: dict[str, str] = {"qd": "qd", "np": "np", "data": "data", "sys": "sys"}  # name -> expression

    def unique(self, hint: str) -> str:
        """A name similar to ``hint`` that the text does not use yet; from now on it is taken."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint).strip("_") or "x"
        base = f"x_{base}" if base[0].isdigit() else base
        name = next(n for n in (base, *(f"{base}_{k}" for k in range(2, 10**6))) if n not in self._means)
        self._means[name] = name
        return name

    def expression(self, value: Any, hint: str, uses: Uses | None = None) -> str:
        """An expression of the text for the value. Definitions that it needs are added to the text first, with names
        similar to ``hint``. ``uses``: which attributes of an object or module are read; None for all. Raises QL0716 for
        an object that no text can make."""
        plain = _literal(value)
        if plain:
            return plain
        base = _function_of(value)
        if id(value if base is None else base) in self._known:
            return self._known[id(value if base is None else base)][1]
        if (write := _CONTAINERS.get(type(value))) is not None:
            return write(self, value, hint)
        if base is not None and not _defined_in_package(base):
            made = self._function(value, base, hint)
        elif isinstance(value, ModuleType):
            made = self._module(value, hint, uses)
        elif (write := next((_KINDS[kind] for kind in type(value).__mro__ if kind in _KINDS), None)) is not None:
            made = write(self, value, hint)
        else:
            made = self._public_name(value) or self._tensor(value, hint) or self._object(value, hint, uses or {"": {}})
        self._known[id(value if base is None else base)] = value, made
        return made

    def define(self, name: str, value: Any, uses: Uses | None = None) -> bool:
        """Defines ``name`` in the text as the value. Returns False if the name has another meaning there."""
        free = name not in self._means
        made = self.expression(value, name, uses)
        if free and name not in self._means:
            self._means[name] = made
            self.lines.append(f"{name} = {made}")
        return made in (name, self._means[name])

    # --- functions -----------------------------------------------------------------------------------------------

    def _function(self, value: Any, fn: FunctionType, hint: str) -> str:
        """Defines a function, kernel or func by its source, after the objects to which its free names refer."""
        source = function_source(fn)
        if source.name == "<lambda>":
            raise _unwritable(hint, value, "a lambda; make it a function with a name")
        name = source.name if source.name not in self._means else self.unique(source.name)
        self._means[name] = name
        self._known[id(fn)] = value, name  # known before its names are, since it may call itself
        self.reads_gradients |= any(n.attr == "grad" for n in nodes_of(ast.Attribute, source.node))
        other = self._names(source, value, skip=source.name)
        text = _text(source, _decorators(source, value))
        if other or name != source.name:  # names with another meaning in the rest of the text
            maker = self.unique(f"make_{source.name}")
            inner = indent(f"{text}return {source.name}", "    ")
            text = f"def {maker}({', '.join(other)}):\n{inner}\n\n\n{name} = {maker}({', '.join(other.values())})\n"
        self.lines += ["", "", *text.rstrip().splitlines(), "", ""]
        self.functions.append(value)
        grad = getattr(value, "grad", None)
        if isinstance(grad, FunctionType) and not _defined_in_package(grad):  # given by qd.ad.grad_for
            self.expression(grad, grad.__name__)
        return name

    def _names(self, source: FunctionSource, of: Any, skip: str = "") -> dict[str, str]:
        """Defines the free names of a kernel or function. Returns those that already have another meaning in the text,
        each with an expression for its value."""
        other: dict[str, str] = {}
        node = source.node
        returned = [] if node.returns is None else [node.returns]
        for name, uses in _uses([*_decorators(source, of), node.args, *returned, *node.body]).items():
            value = _meaning(source.fn, name, source)
            if value is _MISSING or name == skip:
                continue
            if not self.define(name, value, uses):
                other[name] = self.expression(value, name, uses)
        return other

    # --- objects of the language ---------------------------------------------------------------------------------

    def _field(self, x: Dense, hint: str) -> str:
        primal = getattr(x, "primal", None) and x.primal()  # type: ignore[attr-defined]  # of the gradient of a field
        if primal:
            which = "grad" if primal.grad is x else "dual"
            return f"{self.expression(primal, hint.removesuffix(f'_{which}'))}.{which}"
        if getattr(x, "_is_sparse", bool)():
            raise _unwritable(hint, x, "a field in a sparse layout")
        name = self.unique(x.name or hint)
        self._known[id(x)] = x, name
        self.fields[name] = x
        given = [self._dtype(x.dtype, x.element_shape), f"shape={x.shape}"]
        given += ["needs_grad=True"] * x.has_grad() + ["needs_dual=True"] * x.has_dual()
        given += [f"offset={x.offset}"] * any(x.offset)
        self.lines.append(f"{name} = qd.{x.kind}({', '.join(given)})")
        self._fill(name, x)
        return name

    def _fill(self, name: str, x: Dense) -> None:
        """Adds a statement that sets the data of a field, unless they are zeros."""
        values = self.values(x)
        if not (values.any() or np.isnan(values).any()):
            return
        if values.size > 1 and not x.element_shape and (values == values.flat[0]).all():
            self.lines.append(f"{name}.fill({_literal(values.flat[0].item())})")
        else:
            self.lines.append(f"{name}.from_numpy({self._data(values, name)})")

    def fill_gradients(self) -> None:
        """Adds statements that set the gradients of all fields, if a function of the text reads gradients."""
        for name, x in self.fields.items() if self.reads_gradients else ():
            if x.has_grad():
                self._fill(f"{name}.grad", x.grad)

    def _struct_field(self, x: StructField, hint: str) -> str:
        name, first = self.unique(hint), next(x.leaf_fields())
        struct = self.expression(x.struct_type, f"{name}_type")
        grad = ", needs_grad=True" if x.has_grad() else ""
        self.lines.append(f"{name} = {struct}.field(shape={first.shape}{grad})")
        self._members(name, x)
        return name

    def _members(self, name: str, x: StructField) -> None:
        for key in x.keys:
            member = x.get_member_field(key)
            place = f"{name}.get_member_field({key!r})"
            self._known[id(member)] = member, place
            if isinstance(member, StructField):
                self._members(place, member)
            else:
                self.fields[place] = member
                self._fill(place, member)

    def _dtype(self, dtype: DType, element: tuple[int, ...] = ()) -> str:
        if not element:
            return f"qd.{dtype.name}"
        kind = "vector" if len(element) == 1 else "matrix"
        return f"qd.types.{kind}({', '.join(map(str, element))}, qd.{dtype.name})"

    def _matrix_type(self, value: MatrixType, hint: str) -> str:
        given = getattr(value.given, "__name__", f"qd.{value.given}")
        shape = ", ".join(map(str, value.shape))
        kind = "vector" if value.ndim == 1 else "matrix"
        return f"qd.types.{kind}({shape}, {None if value.given is None else given})"

    def _struct_type(self, value: StructType, hint: str) -> str:
        members = [f"{key}={self.expression(type_, key)}" for key, type_ in value._given.items()]
        methods = [f"{key!r}: {self.expression(fn, key)}" for key, fn in value.methods.items()]
        members += [f"__struct_methods={{{', '.join(methods)}}}"] * bool(methods)
        name = self.unique(value.name or hint)
        self.lines.append(f"{name} = qd.types.struct({', '.join(members)})")
        return name

    def _matrix(self, value: Matrix, hint: str) -> str:
        dtype = "" if value.dtype is None else f", qd.{value.dtype}"
        return f"qd.{'Vector' if value.ndim == 1 else 'Matrix'}({_numbers(value.entries)}{dtype})"

    def _struct(self, value: Struct, hint: str) -> str:
        inner = [f"{key}={self.expression(v, key)}" for key, v in value.items]
        return f"qd.Struct({', '.join(inner)})"

    def _public_name(self, value: Any) -> str:
        """The public name of an object of this package, such as ``qd.math.pi``; "" for any other object."""
        if not _defined_in_package(value) and not hasattr(value, "__qd_op__") and not _defined_in_package(type(value)):
            return ""
        package, marks = sys.modules["quadrants_lab"], ("__name__", "__qd_op__", "name")
        for place in _PLACES:
            module = getattr(package, place) if place else package
            for name in (str(getattr(value, mark, "")) for mark in marks):
                if name and getattr(module, name, None) is value:
                    return ".".join(filter(None, ("qd", place, name)))
        return repr(value) if repr(value).startswith("qd.") else ""

    # --- other objects -------------------------------------------------------------------------------------------

    def _dict(self, value: dict[Any, Any], hint: str) -> str:
        pairs = (f"{self.expression(k, hint)}: {self.expression(v, f'{hint}_{k}')}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"

    def _list(self, value: list[Any], hint: str) -> str:
        return f"[{', '.join(self._parts(value, hint))}]"

    def _tuple(self, value: tuple[Any, ...], hint: str) -> str:
        return f"({', '.join(self._parts(value, hint))}{',' * (len(value) == 1)})"

    def _parts(self, values: Iterable[Any], hint: str) -> list[str]:
        return [self.expression(v, f"{hint}_{n}") for n, v in enumerate(values)]

    def _module(self, module: ModuleType, hint: str, uses: Uses | None) -> str:
        """The module's name in the text. A module that any process can import is imported there; for any other module
        the text defines a namespace with the names that are read."""
        if _defined_in_package(module):
            return "qd" + module.__name__.removeprefix("quadrants_lab")
        if _installed(module):
            name = self.unique(hint)
            self.lines.append(f"import {module.__name__} as {name}" if name != module.__name__ else f"import {name}")
            return name
        return self._namespace(module, hint, uses or {})

    def _namespace(self, owner: Any, hint: str, uses: Uses) -> str:
        names = [n for n in uses if n] if "" not in uses or any(uses) else list(vars(owner))
        inner = [f"{n}={self.expression(getattr(owner, n), n, uses.get(n))}" for n in names if hasattr(owner, n)]
        name = self.unique(hint)
        self.lines.append(f"{name} = __import__('types').SimpleNamespace({', '.join(inner)})")
        return name

    def _tensor(self, value: Any, hint: str) -> str:
        """The name in the text of a torch tensor; "" for any other value."""
        if not isinstance(value, torch_tensor()):
            return ""
        name = self.unique(hint)
        self.lines += [f"{name} = __import__('torch').from_numpy({self._data(value.detach().cpu().numpy(), hint)})"]
        self.lines += [f"{name}.requires_grad_()"] * bool(value.requires_grad)
        return name

    def _data(self, values: npt.NDArray[Any], hint: str) -> str:
        if values.size <= MOST_INLINE:
            return f"np.array({_numbers(values)}, np.{values.dtype.name})"
        hint = "_".join(part for part in re.split(r"\W+", hint) if part)
        name = next(n for n in (hint, *(f"{hint}_{k}" for k in range(2, 10**6))) if n not in self.arrays)
        self.arrays[name] = values.copy()
        return f'data["{name}"]'

    def _object(self, value: Any, hint: str, uses: Uses) -> str:
        """The expression for an object of any other kind; only the attributes in ``uses`` are defined."""
        cls = type(value)
        match value:
            case type():
                return self._class(value, hint)
            case Enum():
                return f"{self.expression(cls, cls.__name__)}.{value.name}"
            case tuple() if hasattr(cls, "_fields"):
                parts = [self.expression(v, n) for n, v in zip(cls._fields, value, strict=True)]
                return f"{self.expression(cls, cls.__name__)}({', '.join(parts)})"
        if is_dataclass(value):
            inner = [f"{f.name}={self.expression(getattr(value, f.name), f.name)}" for f in fields(value)]
            return f"{self.expression(cls, cls.__name__)}({', '.join(inner)})"
        if not hasattr(value, "__dict__") or _installed(sys.modules.get(cls.__module__)):
            raise _unwritable(hint, value, f"an object of type {cls.__name__}")
        return self._instance(value, hint, uses)

    def _instance(self, value: Any, hint: str, uses: Uses) -> str:
        """The expression for an object of a new class that has the methods and attributes in ``uses``."""
        cls, methods, attributes = type(value), dict[str, FunctionSource](), dict[str, Uses]()
        of: dict[str, Any] = {}  # by name: the kernel, func or function behind the method
        wanted = dict(uses)
        if "" in wanted:
            wanted |= {n: {"": {}} for n in vars(value)}
        while wanted:
            name, inner = wanted.popitem()
            found = inspect.getattr_static(cls, name, None) if name else None
            base = _function_of(getattr(found, "fget", None) or getattr(found, "__func__", None) or found)
            if base is not None and name not in methods:
                methods[name] = source = function_source(base)
                of[name] = base if isinstance(found, (property, staticmethod, classmethod)) else found
                this = next(iter(source.parameters), "")
                own = _uses([source.node]).get(this, {})
                wanted |= {n: u for n, u in own.items() if n and n not in methods and n not in attributes}
            elif name and base is None:
                attributes[name] = inner
        name = self.unique(hint)
        self._known[id(value)] = value, name
        made = {n: self.expression(getattr(value, n), n, u) for n, u in sorted(attributes.items()) if hasattr(value, n)}
        for key, source in methods.items():
            if self._names(source, of[key]):
                raise _unwritable(hint, value, "an object whose methods use a name that means two things")
        made_of = self.unique(cls.__name__)
        texts = [_text(source, _decorators(source, of[key])) for key, source in methods.items()]
        body = "\n".join(texts) or "pass\n"
        head = ["@qd.data_oriented"] if hasattr(cls, "__qd_data_oriented__") else []
        self.lines += ["", "", *head, f"class {made_of}:", *indent(body, "    ").rstrip().splitlines(), "", ""]
        self.lines += [f"{name} = {made_of}()", *(f"{name}.{n} = {text}" for n, text in made.items())]
        return name

    def _class(self, cls: type, hint: str) -> str:
        """A class by its source; a built-in or installed one by its name."""
        if cls.__module__ == "builtins":
            return cls.__qualname__
        if _installed(sys.modules.get(cls.__module__)):
            name = self.unique(hint)
            self.lines.append(f"from {cls.__module__} import {cls.__qualname__} as {name}")
            return name
        try:
            text = dedent(inspect.getsource(cls))
        except (OSError, TypeError):
            raise _unwritable(hint, cls, "a class whose source is unknown") from None
        space = vars(sys.modules[cls.__module__])
        node: Any = syntax_tree(text).body[0]  # the class
        bodies = [s for s in node.body if not isinstance(s, ast.FunctionDef)]
        for name, uses in _uses([*node.decorator_list, *node.bases, *bodies]).items():
            if name in space and not self.define(name, space[name], uses):
                raise _unwritable(hint, cls, f"a class whose name {name} means something else elsewhere")
        self._means.setdefault(node.name, node.name)
        self.lines += ["", "", *text.rstrip().splitlines(), "", ""]
        return str(node.name)


# by class: the method that writes an object. For an object of a subclass, its first base class in the table counts
_KINDS: dict[type, Callable[[Definitions, Any, str], str]] = {
    Dense: Definitions._field,
    StructField: Definitions._struct_field,
    DType: lambda made, value, hint: f"qd.{value.name}",
    MatrixType: Definitions._matrix_type,
    StructType: Definitions._struct_type,
    Matrix: Definitions._matrix,
    Struct: Definitions._struct,
    np.ndarray: lambda made, value, hint: made._data(value, hint),
    np.generic: lambda made, value, hint: f"np.{value.dtype.name}({_literal(value.item())})",
}
_CONTAINERS: dict[type, Callable[[Definitions, Any, str], str]] = {
    dict: Definitions._dict, list: Definitions._list, tuple: Definitions._tuple,
}  # fmt: skip


_MISSING = object()


def _unwritable(name: str, value: Any, what: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"{name} cannot be written to a script: it is {what}",
        code="QL0716",
        help="a script can hold numbers, strings, lists, arrays, fields, functions, and objects with such attributes",
    )


def _literal(value: Any) -> str:
    """The literal for a number, a string or None; "" for any other value."""
    if type(value) is float:
        return repr(value) if np.isfinite(value) else f"float({str(value)!r})"
    return repr(value) if type(value) in _VALUES else ""


def _numbers(values: npt.NDArray[Any]) -> str:
    """The numbers as nested lists."""
    text = repr(values.tolist())
    return text.replace("nan", "np.nan").replace("inf", "np.inf")


def _function_of(value: Any) -> FunctionType | None:
    """The Python function from which a kernel, func or decorated function was made; None for any other object."""
    while not isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
        inner = getattr(value, "__dict__", {}).get("__wrapped__") if not isinstance(value, type) else None
        if inner is None:
            source = getattr(getattr(value, "_variants", None), "source", None)  # the gradient of a kernel
            inner = getattr(source, "fn", None)
        if inner is None:
            return None
        value = inner
    return value


def _decorators(source: FunctionSource, value: Any) -> list[ast.expr]:
    """The decorators with which a function is written to the text. A kernel or func keeps only decorators of this
    package, since others may have effects such as registration; if it was made without a decorator, it gets one."""
    given = source.node.decorator_list
    if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
        return given
    known = getattr(value, "__qd_kernel__", False) or getattr(value, "__qd_func__", False)
    kept = [d for d in given if not known or _defined_in_package(_meaning(source.fn, _root(d), source))]
    if kept or not known:
        return kept
    kind = "kernel" if getattr(value, "__qd_kernel__", False) else "func"
    return [syntax_tree(f"qd.{kind}", "eval").body]


def _root(node: ast.expr) -> str:
    """The first name of a dotted name, or of a call of one: ``a`` for ``a.b(c)``."""
    match node:
        case ast.Call(func=inner) | ast.Attribute(value=inner):
            return _root(inner)
    return id_of(node)


def _text(source: FunctionSource, decorators: Iterable[ast.expr]) -> str:
    """The source of a function with these decorators, not indented."""
    node = source.node
    text = dedent("".join(source.lines[node.lineno + source.offset - 1 : (node.end_lineno or 0) + source.offset]))
    return "".join(f"@{ast.unparse(d)}\n" for d in decorators) + text.rstrip() + "\n"


def _meaning(fn: FunctionType, name: str, source: FunctionSource) -> Any:
    """The object to which a free name of the function refers; `_MISSING` for a local or built-in name."""
    free = fn.__code__.co_freevars
    if name in free and fn.__closure__:
        return fn.__closure__[free.index(name)].cell_contents
    if name in source.parameters or name in fn.__code__.co_varnames:
        return _MISSING
    if name in fn.__globals__:
        return fn.__globals__[name]
    if hasattr(builtins, name):
        return _MISSING
    for arg in nodes_of(ast.arg, source.node.args):  # an annotation may name a local of a surrounding function
        if id_of(arg.annotation) == name:
            known = fn.__annotations__.get(arg.arg, _MISSING)
            return _MISSING if isinstance(known, str) else known
    return _MISSING


def _uses(nodes: Iterable[ast.AST]) -> dict[str, Uses]:
    """The names that occur in these AST nodes, each with the attributes that are read of its object."""
    found: dict[str, Uses] = {}
    within: set[int] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        chain, base = list[str](), node
        while isinstance(base, ast.Attribute) and id(base) not in within:
            within.add(id(base))
            chain.append(base.attr)
            base = base.value
        if isinstance(base, ast.Name) and id(base) not in within:
            within.add(id(base))
            uses = found.setdefault(base.id, {})
            for attribute in reversed(chain):
                uses = uses.setdefault(attribute, {})
            uses[""] = {}
    return found


def _defined_in_package(value: Any) -> bool:
    """Whether this package defines the module, class or function; its kernels/ are user code."""
    match value:
        case ModuleType():
            return in_package(value.__name__)
        case FunctionType() if not value.__code__.co_filename.startswith(_ROOT):
            return False
    return in_package(str(getattr(value, "__module__", "")))


def _installed(module: ModuleType | None) -> bool:
    """Whether any process can import the module: it is a part of Python, or an installed package."""
    if module is None or module.__name__ == "__main__":
        return False
    top = module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None) or ""
    return top in sys.stdlib_module_names or "site-packages" in file or "dist-packages" in file


