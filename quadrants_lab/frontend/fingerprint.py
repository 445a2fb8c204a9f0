"""Records what the IR of a kernel depends on besides its source text (its fingerprint).

While the front end lowers a kernel, it reads names from Python: globals, closure cells, attributes. A `Fingerprint`
records each read together with a text that describes the value. Another process, or the compilation of the kernel's
gradient, repeats the reads. If it gets equal texts, the front end would make the same IR, and the disk cache may hold
the result already.

Numbers, strings and containers are described by value. An object whose identity a program can see (a module, a class,
an instance, a field, a func) is described by a number, always the same for the same object. Of modules, classes and
instances only the attributes that are read by name are described. A fingerprint becomes incomplete where an object is
used in any other way, has no rule here, or runs Python code at compile time: such a kernel is compiled in each process.
"""

import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum, EnumMeta
from itertools import chain
from typing import Any

import numpy as np

from quadrants_lab.frontend.names import MOST_BYTES, recall
from quadrants_lab.frontend.source import FunctionSource, function_source, meaning
from quadrants_lab.frontend.specs import Spec, StructSpec, TemplateSpec
from quadrants_lab.ir.importing import blake2b
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType

_VALUES = (type(None), bool, int, str, bytes, range, type(...))
_ABSENT = object()
_OF_PACKAGE = object()  # in place of a function or operation of this package that is read by its own name


class IndescribableError(Exception):
    """An object of the program cannot be described by a text, so that the fingerprint becomes incomplete."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete fingerprint that keeps no objects alive: ``ids`` has their ids."""

    texts: tuple[str, ...]
    reads: tuple[tuple[int, str], ...]
    ids: tuple[int, ...]


class Fingerprint:
    """What the lowering of one kernel has read. ``texts``: the descriptions so far; ``reads``: the names that were
    read, each with the number of the object that it was read from; ``objects``: these objects, by number; ``complete``:
    whether equal texts mean equal IR."""

    def __init__(self, source: FunctionSource, specs: Iterable[Spec]) -> None:
        self.texts: list[str] = []
        self.reads: dict[tuple[int, str], None] = {}
        self.objects: list[Any] = []
        # the name of a notebook's cell differs from process to process
        self.complete = source is function_source(source.fn) and os.path.exists(source.file)
        self._numbers: dict[int, int] = {}
        try:
            self._function(source.fn, ("return",))  # the specs describe the parameters
            for spec in specs:
                self._spec(spec)
        except Exception:  # methods of the program may raise anything
            self.complete = False

    def number(self, value: Any) -> int | None:
        return self._numbers.get(id(value))

    def read(self, owner: Any, name: str) -> None:
        """Records that the front end has looked up ``name``: a free name, if ``owner`` is a function, else an attribute
        of ``owner``."""
        number = self.number(owner)
        if number is not None and (number, name) not in self.reads:
            self._record(owner, name)
        elif number is None and not _follows_from_owner(owner, name):
            self.complete = False

    def replay(self, reads: Iterable[tuple[int, str]]) -> bool:
        """Repeats the reads of another fingerprint. Returns whether this one is complete afterwards."""
        for number, name in reads:
            if self.complete and number < len(self.objects):
                self._record(self.objects[number], name)
            else:
                self.complete = False
        return self.complete

    def snapshot(self) -> Snapshot | None:
        """The fingerprint without its objects; None if it is incomplete."""
        if not self.complete:
            return None
        return Snapshot(tuple(self.texts), tuple(self.reads), tuple(map(id, self.objects)))

    def matches(self, earlier: Snapshot) -> bool:
        """Repeats the reads of an earlier fingerprint of this process. Returns whether the same objects gave the same
        texts. Objects are compared by id. The id of a field, or of another object that the IR refers to, cannot belong
        to a new object, because the front end's result keeps the old one alive. For all other objects only the
        description counts, and the texts contain it."""
        return self.replay(earlier.reads) and self.snapshot() == earlier

    def use(self, value: Any) -> None:
        """Records that the front end has used a Python object in another way than by reading an attribute. If the
        object's description leaves its content out, the fingerprint becomes incomplete."""
        if _is_opaque(value):
            self.complete = False

    # --- descriptions -------------------------------------------------------------------------------------------

    def _record(self, owner: Any, name: str) -> None:
        try:
            value = _lookup(owner, name)
            self.reads[self._numbers[id(owner)], name] = None
            shared = isinstance(owner, (type, types.ModuleType, types.FunctionType))
            self.texts.append(f"{name} {not shared and name in getattr(owner, '__dict__', ())}")
            if value is _ABSENT or value is _OF_PACKAGE:
                self.texts.append("absent" if value is _ABSENT else "of the package")
            else:
                self._describe(value)
        except Exception:  # methods of the program may raise anything
            self.complete = False

    def _spec(self, spec: Spec) -> None:
        match spec:
            case TemplateSpec():
                self._describe(spec.value)
            case StructSpec():
                if not in_package(type(spec.type).__module__):
                    raise IndescribableError
                self._describe(spec.type)
                for name, member in spec.members:
                    self.texts.append(name)
                    self._spec(member)
            case _:
                self.texts.append(repr(spec))

    def _describe(self, value: Any) -> None:
        kind = type(value)
        match value:
            case _ if kind in _VALUES:
                self.texts.append(f"{kind.__name__} {value!r}")
            case _ if (known := self.number(value)) is not None:
                self.texts.append(f"#{known}")
            case float() if kind is float:
                self.texts.append(f"float {np.float64(value).tobytes().hex()}")
            case Enum():
                self._transparent(f"{_path(kind)}.{value._name_}", (value._value_,))
            case dict() if kind is dict:
                self._add(value, "mutable")
                self._transparent(f"{_path(kind)} {len(value)}", value.items())
            case list() if kind is list:
                self._add(value, "mutable")
                self._transparent(f"{_path(kind)} {len(value)}", value)
            case tuple() if kind is tuple or hasattr(kind, "_fields"):
                self._transparent(f"{_path(kind)} {len(value)}", value)
            case DType():
                self.texts.append(f"dtype {value.name}")
            case _ if in_package(kind.__module__):
                self._of_package(value, kind)
            case _:
                self._other(value, kind)

    def _of_package(self, value: Any, kind: type) -> None:
        describe = next((rule for mark, rule in _RULES.items() if getattr(value, mark, False)), None)
        if describe is not None:
            has_identity, text, parts = describe(value)
            if has_identity:
                self._add(value, text)
            else:
                self.texts.append(text)
            for part in parts:
                self._describe(part)
        elif is_dataclass(value):
            self._transparent(_path(kind), [getattr(value, f.name) for f in fields(value)])
        else:
            raise IndescribableError

    def _other(self, value: Any, kind: type) -> None:
        module = str(getattr(value, "__module__", None) or "")
        match value:
            case types.ModuleType():
                self._add(value, f"module {value.__name__}")
            case type():
                self._add(value, f"class {_path(value)} {getattr(value, '__qd_data_oriented__', '')}")
            case types.FunctionType() if not in_package(module):
                self._function(value, value.__annotations__)
            case types.FunctionType(__closure__=None) | types.BuiltinFunctionType(__self__=types.ModuleType()):
                self.texts.append(f"function {module}.{value.__qualname__}")
            case types.MethodType():
                self.texts.append("method")
                self._describe(value.__func__)
                self._describe(value.__self__)
            case types.GenericAlias() if kind is types.GenericAlias:
                self._transparent("alias", (value.__origin__, *value.__args__))
            case _ if isinstance(value, np.generic) or kind is np.ndarray:
                if value.dtype.hasobject or value.nbytes > MOST_BYTES:
                    raise IndescribableError
                self.texts.append(f"{value.dtype!r} {value.shape} {blake2b(value.tobytes()).hexdigest()}")
            case _ if _stands_for_more(value, kind):
                raise IndescribableError
            case _:
                self._add(value, f"object {callable(value)} {getattr(kind, '__qd_data_oriented__', '')}")
                self._describe(kind)

    def _add(self, value: Any, text: str) -> None:
        """Describes an object that has an identity, and gives it the next number."""
        self._numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        self.texts.append(text)

    def _transparent(self, text: str, parts: Iterable[Any]) -> None:
        """Describes an object of which the front end can get the parts without reading an attribute: the text, and then
        each part."""
        self.texts.append(text)
        for part in parts:
            self._describe(part)
            if _is_opaque(part):
                raise IndescribableError

    def _function(self, fn: types.FunctionType, annotated: Iterable[str]) -> None:
        """Describes a function by its source text, its position in the file, its defaults and the annotations of the
        parameters ``annotated``. Its free names are described when they are read."""
        if any(mark in vars(fn) for mark in _RULES):
            raise IndescribableError
        source = function_source(fn)
        node = source.node
        lines = source.lines[node.lineno + source.offset - 1 : (node.end_lineno or node.lineno) + source.offset]
        place = source.span(node)
        self._add(fn, f"{place.file}:{place.line} {place}\n{''.join(lines)}")
        self._transparent("defaults", (fn.__defaults__, fn.__kwdefaults__))
        for name in annotated:
            given = fn.__annotations__.get(name)
            described = isinstance(given, type)
            self._transparent(name, () if described else (given,))
            if described:
                self._describe(given)


# --- objects of this package: whether a program can see their identity, the text, and the parts to describe
# ----------------

Description = tuple[bool, str, Iterable[Any]]


def _field(x: Any) -> Description:
    """Describes a field or ndarray. Attributes that only one of the two kinds has count as None for the other. Its
    layout node is described when the kernel reads it."""
    if getattr(getattr(x, "snode", None), "sparse", None) is not None:
        raise IndescribableError
    facts = [getattr(x, name, None) for name in ("dtype", "shape", "element_shape", "offset", "placed")]
    return True, f"{type(x).__name__} {facts}", (x.grad or None, getattr(x, "dual", None) or None)


def _type(x: Any) -> Description:
    if x.__qd_type__ == "matrix":
        return True, f"{type(x).__name__} {x.n} {x.m}", (x.given,)
    if x.__qd_type__ == "view":
        return True, "view", (x.dtype,)
    if type(x).__name__ != "StructType":
        raise IndescribableError
    return True, f"struct {x.name} {len(x._given)}", chain(*x._given.items(), *x.methods.items())


def _matrix(x: Any) -> Description:
    rows = x.to_list()
    return False, f"values {x.shape}", chain(*rows) if len(x.shape) > 1 else rows


def _struct(x: Any) -> Description:
    return False, f"members {len(x.members)}", (x.struct_type, *chain(*dict(x.members).items()))


_RULES: dict[str, Callable[[Any], Description]] = {
    "__qd_func__": lambda x: (True, "func", (x.source.fn,)),
    "__qd_bound__": lambda x: (False, "bound", x.__qd_bound__),
    "__qd_field__": _field,
    "__qd_ndarray__": _field,
    "__qd_entry__": lambda x: (False, f"entry {x.at}", (x.field,)),
    "__qd_struct_field__": _struct,
    "__qd_matrix__": _matrix,
    "__qd_struct__": _struct,
    "__qd_ndrange__": lambda x: (False, f"ndrange {x.axes} {x.order}", ()),
    "__qd_type__": _type,
    "__qd_template__": lambda _: (False, "template", ()),
    "__qd_op__": lambda x: (False, f"operation {x.__qd_op__}", ()),
}


# --- properties of Python objects -------------------------------------------------------------------------------------

_BUILTINS = frozenset(
    f"builtins.{name}" for name in (
        "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "max", "min", "pow", "range",
        "reversed", "round", "sorted", "str", "sum", "tuple", "zip",
    )
)  # fmt: skip


def _path(of: Any) -> str:
    return f"{of.__module__}.{of.__qualname__}"


def in_package(module: str) -> bool:
    """Whether the module belongs to this package, whose source hash is a part of every cache key. Modules in kernels/
    do not count: they are programs of users."""
    return f"{module}.".startswith("quadrants_lab.") and not f"{module}.".startswith("quadrants_lab.kernels.")


def _is_builtin(value: Any) -> bool:
    return type(value) is types.BuiltinFunctionType and isinstance(value.__self__, types.ModuleType)


def is_pure(fn: Any) -> bool:
    """Whether the result of the Python function depends on its arguments alone, and it has no side effects."""
    if isinstance(fn, type) or _is_builtin(fn):
        return fn.__module__ == "math" or _path(fn) in _BUILTINS
    return False


def _stands_for_more(value: Any, kind: type) -> bool:
    """Whether the front end uses not only those attributes of an object that it reads by name."""
    return (
        isinstance(value, (*_VALUES, float, tuple, list, dict, np.ndarray))  # the front end uses the value itself
        or kind.__module__ in ("typing", "functools")  # these stand for another object
        or inspect.getattr_static(kind, "__getattribute__") is not object.__getattribute__
        or any(hasattr(value, mark) for mark in _RULES)
    )


def _is_opaque(value: Any) -> bool:
    """Whether the object's description leaves its content out: only attributes that are read by name are described."""
    kind = type(value)
    if kind in _VALUES or kind in (float, list, dict, tuple, np.ndarray) or isinstance(value, (Enum, np.generic)):
        return False
    if isinstance(value, type) or kind is types.FunctionType:
        return not (value.__module__ in ("builtins", "numpy", "typing") or in_package(value.__module__))
    if in_package(kind.__module__):
        return bool(getattr(value, "__qd_func__", False) or getattr(value, "__qd_bound__", False))
    return not (_is_builtin(value) or kind is types.GenericAlias or hasattr(kind, "_fields"))


def _follows_from_owner(owner: Any, name: str) -> bool:
    """Whether the owner's description determines the attribute."""
    kind = type(owner)
    match owner:
        case Enum():
            static = inspect.getattr_static
            return name in ("name", "value") and static(kind, name) is static(Enum, name)
        case types.FunctionType():
            return in_package(owner.__module__)
        case type() if in_package(owner.__module__):  # a class of this package, not one made at run time
            return vars(sys.modules[owner.__module__]).get(owner.__name__) is owner
        case np.generic():
            return True
    known = (*_VALUES, float, list, dict, tuple, np.ndarray, DType)
    return kind in known or name in getattr(kind, "_fields", ())


def _lookup(owner: Any, name: str) -> Any:
    """The value of a name or attribute, for the kernel that is being compiled; IndescribableError where looking it up
    would run the program's Python code."""
    match owner:
        case types.FunctionType():
            try:
                return meaning(owner, name)
            except KeyError:
                return _ABSENT
        case types.ModuleType() if in_package(owner.__name__):
            return _lookup_in_package(owner, name)
    value = _means_now(owner, name)  # today's value must be describable even if the kernel still uses an earlier one
    return value if value is _ABSENT else recall(owner, name, lambda: value)


def _means_now(owner: Any, name: str) -> Any:
    match owner:
        case types.ModuleType():
            value = vars(owner).get(name, _ABSENT)
            if type(owner) is not types.ModuleType or (value is _ABSENT and "__getattr__" in vars(owner)):
                raise IndescribableError
            return value
        case EnumMeta() if name in owner.__members__:
            return owner.__members__[name]
    value = inspect.getattr_static(owner, name, _ABSENT)
    if value is _ABSENT and not hasattr(type(owner), "__getattr__"):
        return _ABSENT
    methods = (types.MemberDescriptorType, types.FunctionType, staticmethod, classmethod)
    if isinstance(value, methods) or getattr(value, "__qd_func__", False) is True:
        return getattr(owner, name, _ABSENT)
    if value is _ABSENT or hasattr(type(value), "__get__"):
        raise IndescribableError
    return value


def _lookup_in_package(owner: types.ModuleType, name: str) -> Any:
    """The value of a name in a module of this package. For an operation it is `_OF_PACKAGE`, because the module may
    make the operation's object only when somebody asks for it."""
    if type(owner) is not types.ModuleType:
        raise IndescribableError
    space = vars(owner)
    value = space.get(name, _ABSENT)
    if value is _ABSENT:
        return getattr(owner, name) if name in space.get("_MODULES", ()) else _OF_PACKAGE
    module = type(value).__module__ if hasattr(value, "__qd_op__") else getattr(value, "__module__", None)
    own = getattr(value, "__qd_op__", None) or getattr(value, "__name__", None)
    is_own = own == name and not isinstance(value, type) and in_package(module or "")
    return _OF_PACKAGE if is_own else value
