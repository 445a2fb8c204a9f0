"""The state of a lowering, and what all of its parts share: names, spans, dtypes, errors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from functools import reduce
from itertools import chain, count, product
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.errors import Label, QuadrantsCompilationError, QuadrantsRuntimeError
from quadrants_lab.frontend.diagnostics import UNSUPPORTED, error, suggestion, warning
from quadrants_lab.frontend.source import FunctionSource, note_read
from quadrants_lab.frontend.values.leaves import describe
from quadrants_lab.frontend.values.values import (
    ArgRef,
    Element,
    Grouped,
    Lit,
    Matrix,
    Mem,
    NdRange,
    Num,
    Obj,
    Range,
    Struct,
    StructMem,
    Temp,
    Value,
)
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, convert, i32, i64, promote, u1, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.frontend.op_table import Builtin

Env = dict[str, Value]
Telling = Callable[[Callable[[object], None]], AbstractContextManager[None]]
_CAPTURED = "a compile-time value"


@dataclass(slots=True)
class Loop:
    """The innermost loop: the names that it carries, in order. ``kind``: "serial", "task", "static", or "once"
    where returns leave it."""

    kind: str
    names: tuple[str, ...]
    depth: int = 0  # of run-time conditions around it, for static loops
    left: str = ""  # a static loop's "break" or "continue"
    outer: Loop | None = None  # the loop around a static one


@dataclass(slots=True)
class Frame:
    """The function that is being lowered; another one while a func is inlined."""

    source: FunctionSource
    env: Env = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)  # name -> the block that it ended with
    globals: dict[str, Value] = field(default_factory=dict)
    call: Span | None = None
    loop: Loop | None = None
    returns: tuple[Any, ...] | None = None  # dtypes and types of the signature
    returning: list[Any] | None = None  # the returns met so far, where they leave from the middle; see `returns`
    references: tuple[str, ...] = ()  # parameters whose values go back to the caller
    twins: dict[str, dict[str, int]] = field(default_factory=dict)  # parameters that are one place where a value holds
    hidden: bool = False  # its statements are shown at the call: the source is the library's, not the user's


class Context:
    """One lowering. ``expr`` and ``stmts`` dispatch on the type of the AST node."""

    def __init__(
        self,
        frame: Frame,
        options: CompileOptions,
        exprs: Mapping[type, Callable[..., Value]],
        statements: Mapping[type, Callable[..., None]],
        operations: Mapping[str, Builtin],
    ) -> None:
        self.frame = frame
        self.options = options
        self.exprs, self.statements, self.operations = exprs, statements, operations
        self.b = Builder(0)
        self.buffers: dict[str, N.Buffer] = {}
        self.bindings: dict[str, Any] = {}
        self.by_field: dict[int, N.Buffer] = {}
        self.reads: dict[tuple[int, str], tuple[Any, str]] = {}  # attributes of objects, see `captured`
        self.returned: tuple[DType, ...] = ()
        self.exited = False  # the rest of the block is never reached
        self.top = True  # at the statement level of the kernel, where loops are parallel
        self.procedure = False  # the next call is a statement of the kernel: the loops of its func are parallel too
        self.static = 0  # inside qd.static(...)
        self.depth = 0  # of run-time conditions and loops
        self.serialize = False  # qd.loop_config(serialize=True) before the next loop
        self.checkpoint = False  # qd.loop_config(checkpoint=True) before the next loop
        self.block_dim = 0  # qd.loop_config(block_dim=...) before the next loop
        self.block = 0  # threads of a block of the parallel loop at hand; 0 outside of any
        self.blocks = False  # the parallel loop at hand says something of its blocks
        self.trying: Frame | None = None  # where something is lowered for its dtype alone, see `changed.tried`
        self.sites = 0  # call sites of qd.random
        self.stopped: set[str] = set()  # buffers after qd.stop_grad in this parallel loop, or outside of any
        self.inlining: list[tuple[FunctionSource, tuple[Any, ...]]] = []  # with what is known at compile time
        self.unforeseen: dict[tuple[int, Span | None], dict[str, None]] = {}  # see `changed`
        self.messages: list[Callable[[], None]] = []  # warnings, and what qd.static_print says, in order
        self.telling: Telling | None = None  # of the fields that Python uses, see `lower`
        self.active: list[set[Any]] = [set()]  # cells known to be active, see `values.sparse`, a loop's in an entry
        self.touched: set[str] = set()  # buffers of what is active that the innermost loop has changed
        self.statics: set[ast.expr] = set()  # expressions whose last evaluation was a call of qd.static

    # --- dispatch ---------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> Value:
        """The expression as whatever it is."""
        lower = self.exprs.get(type(node))
        if lower is None:
            raise self.unsupported(node)
        return lower(self, node)

    def scalar(self, node: ast.expr) -> Num | Lit:
        """The expression as a number."""
        return self.number(self.expr(node), node)

    def stmts(self, body: Sequence[ast.stmt]) -> None:
        """Lowers statements up to the first that never lets the next one run."""
        for s in body:
            if self.exited:
                return
            lower = self.statements.get(type(s))
            if lower is None:
                raise self.unsupported(s)
            lower(self, s)

    # --- diagnostics ------------------------------------------------------------------------------------------

    def span(self, node: Any) -> Span:
        frame = self.frame
        return frame.call if frame.hidden and frame.call else frame.source.span(node, frame.call)

    def at(self, node: Any) -> None:
        """Statements that are emitted from now on have the span of ``node``."""
        self.b.span = self.span(node)

    def fail(
        self, code: str, node: Any, also: tuple[Label, ...] = (), **parts: object
    ) -> QuadrantsCompilationError:
        return error(code, self.span(node), also, **parts)

    def warn(self, code: str, node: Any, **parts: object) -> None:
        """Keeps a warning, which `tell` issues once this code is known to stay."""
        self.messages.append(warning(code, self.span(node), **parts))

    def tell(self) -> None:
        """Issues the messages so far."""
        messages, self.messages = self.messages, []
        for message in messages:
            message()

    def unsupported(self, node: ast.AST) -> QuadrantsCompilationError:
        what, cure = UNSUPPORTED.get(type(node), (f"'{type(node).__name__}'", "compute it in Python and pass it in"))
        return self.fail("QL1201", node, what=what, cure=cure)

    # --- names ------------------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> Value:
        """What a name stands for; arguments are loaded."""
        return self.loaded(self.unread(node), node)

    def unread(self, node: ast.Name) -> Value:
        """What a name stands for, with nothing read from memory."""
        frame = self.frame
        value = frame.env.get(node.id)
        if value is None:
            value = frame.globals.get(node.id)
            if value is None:
                value = self._outer(node)
        return value

    def loaded(self, value: Value, node: ast.expr) -> Value:
        """The value with its arguments and its elements of fields and ndarrays read."""
        if isinstance(value, (Num, Lit)):
            return value
        if isinstance(value, ArgRef):
            self.at(node)
            return Num(self.b.add(N.ArgLoad(self.b.fresh(), value.type, value.name, name=value.name)), value.type)
        if isinstance(value, Element):
            return self._load(value, node)
        if isinstance(value, Matrix):
            if all(isinstance(e, (Num, Lit)) for e in value.elements):
                return value
            return Matrix(value.shape, tuple(self._leaf(e, node) for e in value.elements))
        if isinstance(value, Struct):
            return Struct(value.type, {n: self.loaded(m, node) for n, m in value.members.items()}, value.fixed)
        return value

    def _leaf(self, value: Value, node: ast.expr) -> Num | Lit:
        return self.number(self.loaded(value, node), node)

    def _load(self, place: Element, node: ast.expr) -> Num | Matrix:
        buffer = place.mem.buffer
        self.at(node)
        if not place.shape:
            return Num(self.b.load(buffer, (*place.index, *place.at)), buffer.dtype)
        numbers = []
        for where in product(*map(range, place.shape)):
            at = tuple(self.const(k, i32) for k in where)
            numbers.append(Num(self.b.load(buffer, (*place.index, *at)), buffer.dtype))
        return Matrix(place.shape, tuple(numbers))

    def _outer(self, node: ast.Name) -> Value:
        frame = self.frame
        if node.id in frame.ended:
            raise self.fail("QL1302", node, name=node.id, where=frame.ended[node.id])
        try:
            value = frame.source.lookup(node.id)
        except KeyError:
            known = [*frame.env, *frame.source.names()]
            raise self.fail("QL1301", node, name=node.id, hint=suggestion(node.id, known)) from None
        frame.globals[node.id] = wrapped = self.wrap(value, node.id, node)
        return wrapped

    def captured(self, owner: Any, name: str, text: str, node: ast.AST) -> Value:
        """An attribute of a Python object; AttributeError where it has none. What a launch must look at again is kept
        in ``reads``: of data-oriented objects all but the numbers that are constants of the kernel. A warning where a
        property reads a field, and no launch looks again."""
        note_read(owner, name)
        found, used = self._asked(owner, name)
        kind = getattr(owner, "__qd_data_oriented__", "")
        if kind and not isinstance(owner, type) and (kind == "values" or not isinstance(found, (bool, int, float))):
            method = getattr(found, "__qd_bound__", None) is not None or callable(found)
            if not method or name in getattr(owner, "__dict__", ()):
                self.reads[id(owner), name] = (owner, name)
                used = False
        if used:
            self.warn("QL1905", node, text=text)
        return self.wrap(found, text, node)

    def _asked(self, owner: Any, name: str) -> tuple[Any, bool]:
        """The attribute, and whether it is a property that has just read or written a field; not in qd.static."""
        if self.telling is None or self.static or not isinstance(getattr(type(owner), name, None), property):
            return getattr(owner, name), False
        here, used = get_ident(), set[int]()
        with self.telling(lambda field: used.add(get_ident())):
            return getattr(owner, name), here in used

    def wrap(self, value: Any, text: str, node: ast.AST | None = None) -> Value:
        """A Python object as a value of the front end."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (bool, int, float)):
            plain = bool if isinstance(value, bool) else int if isinstance(value, int) else float
            return Lit(plain(value), node)
        if isinstance(value, ModuleType):
            return Obj(value, text)
        if getattr(value, "__qd_field__", False) is True or getattr(value, "__qd_ndarray__", False) is True:
            self._check_placed(value, text, node)
            shape, offset = tuple(getattr(value, "element_shape", ())), tuple(getattr(value, "offset", None) or ())
            return Mem(self.field(value, text), text, shape, offset)
        if getattr(value, "__qd_entry__", False) is True:
            self._check_placed(value.field, text, node)
            of = value.field
            return Mem(self.field(of, text), text, of.element_shape, of.offset, value.at)
        if getattr(value, "__qd_ndrange__", False) is True:
            return NdRange(tuple((Lit(a.start, node), Lit(a.stop, node)) for a in value.axes), value.order)
        if getattr(value, "__qd_struct_field__", False) is True:
            members: Any = {n: self.wrap(m, f"{text}.{n}", node) for n, m in value.members.items()}
            return StructMem(value.struct_type, members, text)
        if getattr(value, "__qd_matrix__", False) is True:
            flat: Any = value.to_list()
            if len(value.shape) > 1:
                flat = [v for row in flat for v in row]
            elements: Any = tuple(self.wrap(v, text, node) for v in flat)
            return Matrix(tuple(value.shape), elements, _CAPTURED)
        if getattr(value, "__qd_struct__", False) is True:
            inner = {n: self.wrap(m, f"{text}.{n}", node) for n, m in value.members.items()}
            return Struct(value.struct_type, inner, _CAPTURED)
        return Obj(value, text)

    def _check_placed(self, field: Any, text: str, node: ast.AST | None) -> None:
        """Fields, and gradients that were asked for, must have memory by now."""
        dual = getattr(field, "dual", None)
        for which, name in ((field, text), (field.grad, f"{text}.grad"), (dual, f"{text}.dual")):
            if which is not None and not getattr(which, "placed", True):
                raise QuadrantsRuntimeError(
                    f"{name} has no memory: it was made without a shape and is not placed",
                    code="QL2022",
                    labels=(Label(None if node is None else self.span(node), "used here"),),
                    help="qd.root.dense(qd.i, n).place(x), for gradients .place(x, x.grad) or qd.root.lazy_grad()",
                )

    def unused(self, name: str) -> str:
        """The name, with a number behind it where a buffer has it already."""
        return unused(chain((name,), (f"{name}.{n}" for n in count(2))), self.buffers)

    def field(self, obj: Any, text: str) -> N.Buffer:
        """The buffer of a field, and with it that of its gradient."""
        known = self.by_field.get(id(obj))
        if known is not None:
            return known
        name = self.unused(N.buffer_name(text))
        inner = tuple(getattr(obj, "element_shape", ()))
        offset = tuple(getattr(obj, "offset", None) or ())
        shape, begins = (*obj.shape, *inner), (*offset, *(0 for _ in inner)) if any(offset) else ()
        buffer = N.Buffer(name, "field", obj.dtype, len(shape), shape, first=begins)
        self.by_field[id(obj)] = self.buffers[name] = buffer
        self.bindings[name] = obj
        if obj.grad is not None:
            buffer.grad = self.field(obj.grad, f"{name}.grad").name
        if getattr(obj, "dual", None) is not None:
            buffer.dual = self.field(obj.dual, f"{name}.dual").name
        return buffer

    # --- scopes -----------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, node: ast.stmt, what: str) -> Iterator[None]:
        """Names first assigned inside end with the block; changes to older ones stay."""
        before = self.frame.env
        self.frame.env = dict(before)
        yield
        inner, self.frame.env = self.frame.env, {n: self.frame.env[n] for n in before}
        self.end(inner, before, node, what)

    def end(self, inner: Env, before: Env, node: ast.stmt, what: str) -> None:
        where = f"the {what} in line {node.lineno + self.frame.source.offset}"
        for n in inner:
            if n not in before:
                self.frame.ended[n] = where

    # --- numbers ----------------------------------------------------------------------------------------------

    def number(self, value: Value, node: ast.expr) -> Num | Lit:
        """``value`` if it is a number, else the error that says what it is."""
        if isinstance(value, (Num, Lit)):
            return value
        if isinstance(value, Temp):
            raise self.fail("QL1705", node, name=value.name)
        if isinstance(value, (Mem, StructMem)):
            axes = (value if isinstance(value, Mem) else value.first).ndim
            index = ", ".join("ijkl"[:axes]) if axes else "None"
            raise self.fail("QL1401", node, text=value.text, what=describe(value), index=index)
        if isinstance(value, Obj) and value.value is None and value.text:
            raise self.fail("QL1409", node, name=value.text)
        if isinstance(value, (Matrix, Struct)):
            raise self.fail("QL1420", node, what=describe(value))
        raise self.fail("QL1406", node, what=describe(value))

    def argument(self, call: ast.Call, k: int, value: Value) -> Num | Lit:
        """Argument ``k`` of the call as a number."""
        return self.number(value, argument_node(call, k))

    def dtype(self, value: Value, node: ast.expr) -> DType:
        """The dtype that a compile-time object names, or an error."""
        dtype = dtype_of(value, self.options)
        if dtype is None:
            raise self.fail("QL1410", node, what=describe(value))
        return dtype

    def type_of(self, value: Num | Lit) -> DType:
        """Dtype of the number; a literal's is default_ip, default_fp or u1 where it has none."""
        if isinstance(value, Num):
            return value.type
        kind = type(value.value)
        if value.dtype is not None and kind is int:
            return value.dtype
        return u1 if kind is bool else self.options.default_fp if kind is float else self.options.default_ip

    def meet(self, *values: Num | Lit) -> DType:
        """The dtype of alternatives of these: that of all, else the promoted one."""
        return reduce(lambda a, b: a if a is b else promote(a, b), map(self.type_of, values))

    def to(self, value: Num | Lit, dtype: DType) -> int:
        """Id of the number as ``dtype``."""
        if isinstance(value, Num):
            return value.id if value.type is dtype else self.b.op("cast", value.id, type=dtype)
        natural = self.type_of(value)
        number = self.fit(value, natural)
        if natural is not dtype:
            number = convert(number, dtype)
        span = self.b.span
        if value.node is not None:
            self.at(value.node)
        result = self.b.add(N.Const(self.b.fresh(), dtype, number))
        self.b.span = span
        return result

    def fit(self, lit: Lit, dtype: DType, asked: bool = False) -> Any:
        """The literal's value in its dtype, which is default_ip or ``asked`` for; an error if an integer is out of
        range."""
        value = lit.value
        if dtype.is_int and not dtype.holds(value):
            wider = next((t for t in (i64, u64) if t.holds(value)), None)
            why = "the dtype that is asked for" if asked else "a literal has the dtype default_ip"
            cure = f"write qd.{wider}({value})" if wider else "no integer dtype holds it: write a real number"
            also = ", or set default_ip=qd.i64 in qd.init()" if wider is i64 and not asked else ""
            node = lit.node or self.frame.source.node
            raise self.fail("QL1402", node, value=value, dtype=dtype, why=why, cure=cure + also)
        return convert(value, dtype) if dtype.is_float else value

    def num(self, value: Num | Lit, dtype: DType | None = None) -> Num:
        """The number as an SSA value, cast to ``dtype`` where that is given."""
        dtype = dtype or self.type_of(value)
        if isinstance(value, Num) and value.type is dtype:
            return value
        return Num(self.to(value, dtype), dtype)

    def own(self, value: Num | Lit) -> Num:
        """A variable of its own that holds the number."""
        number = self.num(value)
        return Num(number.id, number.type)

    def const(self, value: Any, dtype: DType) -> int:
        return self.b.add(N.Const(self.b.fresh(), dtype, convert(value, dtype)))

    def python(self, value: Value) -> Any:
        """The Python object that a compile-time value stands for; TypeError where there is none."""
        if isinstance(value, (Lit, Obj)):
            return value.value
        if isinstance(value, tuple):
            return tuple(self.python(v) for v in value)
        if isinstance(value, Matrix):
            return tuple(map(self.python, value.elements))
        if isinstance(value, Mem) and value.buffer.name in self.bindings:
            return self.bindings[value.buffer.name]
        if isinstance(value, Range):
            ends = [value.begin, value.end] if value.step is None else [value.begin, value.end, value.step]
            return range(*map(self.python, ends))
        if isinstance(value, Grouped):
            return self.python(value.space)
        if isinstance(value, NdRange):
            axes = [range(self.python(b), self.python(e)) for b, e in value.axes]
            places = [value.order.index(k) for k in range(len(axes))]
            return tuple(tuple(at[k] for k in places) for at in product(*(axes[k] for k in value.order)))
        raise TypeError(describe(value))

    def known(self, value: Value, code: str, node: ast.AST, **parts: Any) -> Any:
        """The Python object that the value stands for, or the error of that code where there is none."""
        try:
            return self.python(value)
        except TypeError:
            raise self.fail(code, node, **parts) from None

    def extent(self, buffer: N.Buffer, axis: int, node: ast.AST | None = None) -> Num | Lit:
        """The size of the buffer along the axis."""
        if buffer.shape is not None:
            size = buffer.shape[axis]
            return Lit(size, node, dtype=None if i32.holds(size) else i64)
        t = buffer.extent_type
        return Num(self.b.add(N.ShapeOf(self.b.fresh(), t, buffer.name, axis)), t)

    def index(self, value: Num | Lit) -> Num | Lit:
        """The integer as one that names an element or an iteration: narrow ones as i32, u32 as i64."""
        if isinstance(value, Lit):
            number = int(value.value)
            return Lit(number, value.node, dtype=next((t for t in (i32, i64, u64) if t.holds(number)), None))
        t = value.type
        return value if t.bits == 64 else self.num(value, i64 if t is u32 else i32)


def argument_node(call: ast.Call, k: int) -> ast.expr:
    """The expression of argument ``k``; the call itself where that was not written."""
    return call.args[k] if k < len(call.args) else call


def dtype_of(value: Value, options: CompileOptions) -> DType | None:
    """The dtype that a compile-time object names: a dtype, or Python's int, float and bool."""
    if not isinstance(value, Obj):
        return None
    if isinstance(value.value, DType):
        return value.value
    if value.value is int:
        return options.default_ip
    if value.value is float:
        return options.default_fp
    return u1 if value.value is bool else None
