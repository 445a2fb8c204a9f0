"""What a kernel was made of beside its text: what Python was asked for while it was lowered, and what it answered.

`Seen` tells that as text, so that another process can ask the same and compare. Numbers, strings and containers are
told by value. What has an identity that a program can see (a module, a class, an object, a field, a func) gets a
number, the same for the same thing; of modules, classes and objects only what is read by name is told, and whoever
looks at one in another way makes the text ``unsure``. So does all that has no rule here, and all that runs Python at
compile time: such a kernel is lowered in every process.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import chain
from typing import Any
from weakref import ref

import numpy as np

from quadrants_lab.frontend.source import FunctionSource, function_source, meaning
from quadrants_lab.frontend.specs import MatrixSpec, NdarraySpec, ScalarSpec, Spec, StructSpec
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType

_MOST_BYTES = 1 << 20  # of an array that is told by value
_VALUES = (type(None), bool, int, str, bytes, range, type(...))
_ABSENT = object()


class UnsureError(Exception):
    """There is no text for what was met."""


@dataclass(slots=True)
class Answers:
    """Of a `Seen` that was sure; ``objects``: each finds one, or None where it is gone, which it does not keep."""

    texts: list[str]
    asked: tuple[tuple[int, str], ...]
    objects: list[Callable[[], Any]]


class Seen:
    """``texts``: what was told so far; ``asked``: the names, each with the number of the object that was asked;
    ``objects`` by number; ``sure``: whether the texts are the whole truth."""

    def __init__(self, source: FunctionSource, specs: Iterable[Spec]) -> None:
        self.texts: list[str] = []
        self.asked: dict[tuple[int, str], None] = {}
        self.objects: list[Any] = []
        # no part of a kernel; and no cell of a notebook, whose name is another one in each process
        self.sure = source is function_source(source.fn) and os.path.exists(source.file)
        self._numbers: dict[int, int] = {}
        try:
            self._function(source.fn, ("return",))  # the specs tell of the others
            for spec in specs:
                self._spec(spec)
        except Exception:  # objects of the program's may raise anything
            self.sure = False

    def number(self, value: Any) -> int | None:
        return self._numbers.get(id(value))

    def read(self, owner: Any, name: str) -> None:
        """To be called when the front end reads the name: of a function what it stands for there, of anything else the
        attribute."""
        number = self.number(owner)
        if number is not None and (number, name) not in self.asked:
            try:
                self._answer(owner, name)
            except Exception:
                self.sure = False
        elif number is None and not _by_value(owner, name):
            self.sure = False

    def again(self, asked: Iterable[tuple[int, str]]) -> bool:
        """Asks the same as another process did; whether it could."""
        try:
            for number, name in asked:
                self._answer(self.objects[number], name)
        except Exception:
            self.sure = False
        return self.sure

    def answers(self) -> Answers | None:
        """What was told so far; None where that is not the whole truth."""
        return Answers(self.texts[:], tuple(self.asked), [*map(_weakly, self.objects)]) if self.sure else None

    def repeats(self, answers: Answers) -> bool:
        """Asks the same as this process did before; whether it heard the same of the same objects."""
        if not self.again(answers.asked) or self.texts != answers.texts:
            return False
        return all(was() is now for was, now in zip(answers.objects, self.objects, strict=True))

    def look(self, value: Any) -> None:
        """To be called when the front end uses a Python object otherwise than by reading a name of it."""
        if _is_opaque(value):
            self.sure = False

    # --- what is told -------------------------------------------------------------------------------------------

    def _answer(self, owner: Any, name: str) -> None:
        value = _asked(owner, name)
        self.asked[self._numbers[id(owner)], name] = None
        shared = isinstance(owner, (type, types.ModuleType, types.FunctionType))
        self.texts.append(f"{name} {not shared and name in getattr(owner, '__dict__', ())}")
        if value is _ABSENT:
            self.texts.append("absent")
        elif value is _OURS:
            self.texts.append("ours")
        else:
            self._tell(value)

    def _spec(self, spec: Spec) -> None:
        if isinstance(spec, (ScalarSpec, MatrixSpec, NdarraySpec)):
            self.texts.append(repr(spec))
        elif isinstance(spec, StructSpec):
            if not _is_ours(type(spec.type).__module__):
                raise UnsureError
            self._tell(spec.type)
            for name, member in spec.members:
                self.texts.append(name)
                self._spec(member)
        else:
            self._tell(spec.value)

    def _tell(self, value: Any) -> None:
        kind = type(value)
        if kind in _VALUES:
            self.texts.append(f"{kind.__name__} {value!r}")
        elif (known := self.number(value)) is not None:
            self.texts.append(f"#{known}")
        elif kind is float:
            self.texts.append(f"float {np.float64(value).tobytes().hex()}")
        elif isinstance(value, Enum):
            self._parts(f"{_path(kind)}.{value._name_}", (value._value_,))
        elif kind in (list, dict, tuple) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            if kind in (list, dict):
                self._new(value, "mutable")
            self._parts(f"{_path(kind)} {len(value)}", value.items() if kind is dict else value)
        elif isinstance(value, DType):
            self.texts.append(f"dtype {value.name}")
        elif _is_ours(kind.__module__):
            self._ours(value, kind)
        else:
            self._other(value, kind)

    def _ours(self, value: Any, kind: type) -> None:
        tell = next((tell for mark, tell in _MARKED.items() if getattr(value, mark, False)), None)
        if tell is not None:
            tell(self, value)
        elif is_dataclass(value):
            self._parts(_path(kind), [getattr(value, f.name) for f in fields(value)])
        else:
            raise UnsureError

    def _other(self, value: Any, kind: type) -> None:
        module = str(getattr(value, "__module__", None) or "")
        if isinstance(value, types.ModuleType):
            self._new(value, f"module {value.__name__}")
        elif isinstance(value, type):
            self._new(value, f"class {_path(value)} {getattr(value, '__qd_data_oriented__', '')}")
        elif isinstance(value, np.generic) or kind is np.ndarray:
            if value.dtype.hasobject or value.nbytes > _MOST_BYTES:
                raise UnsureError
            self.texts.append(f"{value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
        elif kind is types.FunctionType and not _is_ours(module):
            self._function(value, value.__annotations__)
        elif (kind is types.FunctionType and not value.__closure__) or _is_builtin(value):
            self.texts.append(f"function {module}.{value.__qualname__}")
        elif kind is types.MethodType:
            self.texts.append("method")
            self._tell(value.__func__)
            self._tell(value.__self__)
        elif kind is types.GenericAlias:
            self._parts("alias", (value.__origin__, *value.__args__))
        elif (
            isinstance(value, (*_VALUES, float, tuple, list, dict, np.ndarray))  # the front end takes them for values
            or kind.__module__ in _UNTOLD
            or inspect.getattr_static(kind, "__getattribute__") is not object.__getattribute__
            or any(hasattr(value, mark) for mark in _MARKED)
        ):
            raise UnsureError
        else:
            self._new(value, f"object {callable(value)} {getattr(kind, '__qd_data_oriented__', '')}")
            self._tell(kind)

    def _new(self, value: Any, text: str) -> None:
        """Gives the value a number, and tells of it."""
        self._numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        self.texts.append(text)

    def _parts(self, text: str, values: Iterable[Any]) -> None:
        """Tells of something that consists of others, which can be taken out of it unseen."""
        self.texts.append(text)
        for value in values:
            self._tell(value)
            if _is_opaque(value):
                raise UnsureError

    def _function(self, fn: types.FunctionType, annotated: Iterable[str]) -> None:
        """By its text and where that stands; the names in it are told when they are read."""
        if any(mark in vars(fn) for mark in _MARKED):
            raise UnsureError
        source = function_source(fn)
        node = source.node
        lines = source.lines[node.lineno + source.offset - 1 : (node.end_lineno or node.lineno) + source.offset]
        place = source.span(node)
        self._new(fn, f"{place.file}:{place.line} {place}\n{''.join(lines)}")
        self._parts("defaults", (fn.__defaults__, fn.__kwdefaults__))
        for name in annotated:
            given = fn.__annotations__.get(name)
            self._parts(name, () if isinstance(given, type) else (given,))
            if isinstance(given, type):
                self._tell(given)

    # --- what has a mark of ours --------------------------------------------------------------------------------

    def _func(self, value: Any) -> None:
        self._new(value, "func")
        self._tell(value.source.fn)

    def _bound(self, value: Any) -> None:
        self.texts.append("bound")
        for part in value.__qd_bound__:
            self._tell(part)

    def _field(self, value: Any) -> None:
        """What an ndarray has not stays at None. Of nodes a program sees only what it asks a field for."""
        if getattr(getattr(value, "snode", None), "sparse", None) is not None:
            raise UnsureError
        told = [getattr(value, name, None) for name in ("dtype", "shape", "element_shape", "offset", "placed")]
        self._new(value, f"{type(value).__name__} {told}")
        for derivative in (value.grad, getattr(value, "dual", None)):
            self._tell(derivative)

    def _struct_type(self, value: Any) -> None:
        if value.__qd_type__ == "matrix":
            self._new(value, f"{type(value).__name__} {value.n} {value.m}")
            self._tell(value.given)
        elif type(value).__name__ == "StructType":
            self._new(value, f"struct {value.name}")
            self._members(value._given)
            self._members(value.methods)
        else:
            raise UnsureError

    def _members(self, given: dict[str, Any]) -> None:
        self.texts.append(f"{list(given)}")
        for member in given.values():
            self._tell(member)

    def _values(self, value: Any) -> None:
        rows = value.to_list() if len(value.shape) > 1 else [value.to_list()]
        self._parts(f"values {value.shape}", chain(*rows))

    def _of_struct(self, value: Any) -> None:
        self._tell(value.struct_type)
        self._members(dict(value.members))

    def _entry(self, value: Any) -> None:
        self.texts.append(f"entry {value.at}")
        self._tell(value.field)


_MARKED: dict[str, Callable[[Seen, Any], None]] = {
    "__qd_func__": Seen._func,
    "__qd_bound__": Seen._bound,
    "__qd_field__": Seen._field,
    "__qd_ndarray__": Seen._field,
    "__qd_entry__": Seen._entry,
    "__qd_struct_field__": Seen._of_struct,
    "__qd_matrix__": Seen._values,
    "__qd_struct__": Seen._of_struct,
    "__qd_ndrange__": lambda seen, value: seen.texts.append(f"ndrange {value.axes} {value.order}"),
    "__qd_type__": Seen._struct_type,
    "__qd_template__": lambda seen, value: seen.texts.append("template"),
    "__qd_op__": lambda seen, value: seen.texts.append(f"operation {value.__qd_op__}"),
}


_OURS = object()  # a function or operation of ours that goes by its own name
_UNTOLD = ("typing", "functools")  # modules whose objects stand for others
_BUILTINS = frozenset(
    f"builtins.{name}" for name in (
        "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "max", "min", "pow", "range",
        "reversed", "round", "sorted", "str", "sum", "tuple", "zip",
    )
)  # fmt: skip


def _path(of: Any) -> str:
    return f"{of.__module__}.{of.__qualname__}"


def _is_ours(module: str) -> bool:
    """Whether our sources tell of what is in the module; the programs that come with the package are as any user's."""
    ours = module == "quadrants_lab" or module.startswith("quadrants_lab.")
    return ours and not module.startswith("quadrants_lab.kernels.")


def _weakly(value: Any) -> Callable[[], Any]:
    """Finds the object, which it keeps where Python has no weak references to its kind."""
    try:
        return ref(value)
    except TypeError:
        return lambda: value


def _is_builtin(value: Any) -> bool:
    return type(value) is types.BuiltinFunctionType and isinstance(value.__self__, types.ModuleType)


def is_pure(fn: Any) -> bool:
    """Whether the Python function makes the same of the same values, and does nothing else."""
    if isinstance(fn, type) or _is_builtin(fn):
        return fn.__module__ == "math" or _path(fn) in _BUILTINS
    return False


def _is_opaque(value: Any) -> bool:
    """Whether the texts leave out what it is made of: they hold what was read of it by name."""
    kind = type(value)
    if kind in _VALUES or kind in (float, list, dict, tuple, np.ndarray) or isinstance(value, (Enum, np.generic)):
        return False
    if isinstance(value, type) or kind is types.FunctionType:
        return not (value.__module__ in ("builtins", "numpy", "typing") or _is_ours(value.__module__))
    if _is_ours(kind.__module__):
        return bool(getattr(value, "__qd_func__", False) or getattr(value, "__qd_bound__", False))
    return not (_is_builtin(value) or kind is types.GenericAlias or hasattr(kind, "_fields"))


def _by_value(owner: Any, name: str) -> bool:
    """Whether what the attribute is follows from what was told of its owner."""
    kind = type(owner)
    if isinstance(owner, Enum):
        static = inspect.getattr_static
        return name in ("name", "value") and static(kind, name) is static(Enum, name)
    if isinstance(owner, types.FunctionType):
        return _is_ours(owner.__module__)
    if isinstance(owner, type) and _is_ours(owner.__module__):  # not one that a program has made
        return vars(sys.modules[owner.__module__]).get(owner.__name__) is owner
    named = name in getattr(kind, "_fields", ())
    return named or kind in (*_VALUES, float, list, dict, tuple, np.ndarray, DType) or isinstance(owner, np.generic)


def _asked(owner: Any, name: str) -> Any:
    """What `Seen.read` is about; UnsureError where Python of the program's would run for it."""
    if isinstance(owner, types.FunctionType):
        try:
            return meaning(owner, name)
        except KeyError:
            return _ABSENT
    if isinstance(owner, types.ModuleType):
        return _of_module(owner, name)
    if isinstance(owner, type) and issubclass(owner, Enum) and name in owner.__members__:
        return owner.__members__[name]
    value = inspect.getattr_static(owner, name, _ABSENT)
    if value is _ABSENT and not hasattr(type(owner), "__getattr__"):
        return _ABSENT
    methods = (types.MemberDescriptorType, types.FunctionType, staticmethod, classmethod)
    if isinstance(value, methods) or getattr(value, "__qd_func__", False) is True:
        return getattr(owner, name, _ABSENT)
    if value is _ABSENT or hasattr(type(value), "__get__"):
        raise UnsureError
    return value


def _of_module(owner: types.ModuleType, name: str) -> Any:
    """Of our modules, some of which find operations only when they are asked, these are not told: they follow from the
    sources."""
    if type(owner) is not types.ModuleType:
        raise UnsureError
    space = vars(owner)
    value = space.get(name, _ABSENT)
    if not _is_ours(owner.__name__):
        if value is _ABSENT and "__getattr__" in space:
            raise UnsureError
        return value
    if value is _ABSENT:
        return getattr(owner, name) if name in space.get("_MODULES", ()) else _OURS
    module = type(value).__module__ if hasattr(value, "__qd_op__") else getattr(value, "__module__", None)
    own = getattr(value, "__qd_op__", None) or getattr(value, "__name__", None)
    is_own = own == name and not isinstance(value, type) and _is_ours(module or "")
    return _OURS if is_own else value
