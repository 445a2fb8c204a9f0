"""Holds the state of the front end while it lowers one kernel: names, source spans, dtypes, errors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from enum import Enum
from functools import reduce
from itertools import chain, count
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from quadrants_lab.errors import Label, QuadrantsCompilationError, QuadrantsRuntimeError
from quadrants_lab.frontend import values as V
from quadrants_lab.frontend.diagnostics import UNSUPPORTED, error, suggestion, warning
from quadrants_lab.frontend.source import FunctionSource, attribute, note_unknown
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, convert, i32, i64, promote, u1, u64

if TYPE_CHECKING:
    from quadrants_lab.frontend.op_table import Builtin

Env = dict[str, V.Value]
FieldAccessHook = Callable[[Callable[[object], None]], AbstractContextManager[None]]
_packed_memory = lazily("frontend.values.packed", "memory_of")  # for quantised fields
_CAPTURED = "a compile-time value"
MOST_OPERATIONS = 1_000_000  # the most operations of a kernel: LLVM takes minutes for as many
MOST_ENTRIES = 1_000_000  # the most entries that one expression of a kernel makes at compile time


@dataclass(slots=True)
class Loop:
    """A loop around the statements that are being lowered. ``names``: the locals that it carries, in order. ``kind``:
    "serial", "task" (parallel), "static" (unrolled), or "once", the loop around early returns (`syntax.returns`)."""

    kind: str
    names: tuple[str, ...]
    depth: int = 0  # for a static loop: the number of run-time conditions around it
    left: str = ""  # for a static loop: the "break" or "continue" that ended the current iteration
    outer: Loop | None = None  # the loop around a static one
    # the environments where a break leaves the loop (True), or where an iteration ends early (False)
    exits: list[tuple[bool, Env]] = field(default_factory=list)

    @property
    def run_time(self) -> Loop | None:
        """This loop, or the innermost loop around it that is not unrolled."""
        loop: Loop | None = self
        while loop is not None and loop.kind == "static":
            loop = loop.outer
        return loop


@dataclass(slots=True)
class Frame:
    """The scope of the function that is being lowered; a call that is inlined has a frame of its own."""

    source: FunctionSource
    env: Env = field(default_factory=dict)
    out_of_scope: dict[str, str] = field(default_factory=dict)  # names that ended: what kind of block defined them
    globals: dict[str, V.Value] = field(default_factory=dict)
    call: Span | None = None
    loop: Loop | None = None
    returns: tuple[Any, ...] | None = None  # dtypes and types of the signature
    returning: list[Any] | None = None  # the early returns found so far, inside code that `syntax.returns` lowers
    references: tuple[str, ...] = ()  # parameters by reference, whose values are written back
    # by pairs of parameters by reference: the run-time condition under which both are the same variable
    aliases: dict[str, dict[str, int]] = field(default_factory=dict)
    # the outer variables that are hidden by variables of static loops, by name
    hiding: Env = field(default_factory=dict)
    hidden: bool = False  # errors and statements are located at the call, because the source is the library's
    spans: dict[ast.AST, Span] = field(default_factory=dict)  # a cache: unrolled code meets a node many times


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """What `qd.loop_config` says about the next loop; 0 and False where it says nothing."""

    serialize: bool = False
    checkpoint: bool = False
    block_dim: int = 0
    lanes: int = 0
    colours: int = 0


class Context:
    """The state of one lowering. ``expr`` and ``stmts`` dispatch on the type of the AST node by the tables ``exprs``
    and ``statements``; ``operations`` are the operations of the language by name."""

    def __init__(
        self, frame: Frame, options: CompileOptions, exprs: Mapping[type, Callable[..., V.Value]],
        statements: Mapping[type, Callable[..., None]], operations: Mapping[str, Builtin],
    ) -> None:  # fmt: skip
        self.frame = frame
        self.options = options
        self.exprs, self.statements, self.operations = exprs, statements, operations
        self.b = Builder(0)
        self.buffers: dict[str, N.Buffer] = {}
        self.bindings: dict[str, Any] = {}
        self.by_field: dict[int, N.Buffer] = {}
        self.reads: dict[tuple[int, str], tuple[Any, str]] = {}  # attributes that launches compare, see `captured`
        self.returned: tuple[DType, ...] = ()
        self.exited = False  # the rest of the block is unreachable
        self.top = True  # at the statement level of the kernel, where loops are parallel
        self.as_statement = False  # the next call is a statement of the kernel: loops of its func are parallel too
        self.static = 0  # nesting depth of qd.static(...)
        self.depth = 0  # nesting depth of run-time conditions and loops
        self.config = LoopConfig()  # for the next loop
        self.block_threads = 0  # threads of a block of the parallel loop around; 0 outside of parallel loops
        self.uses_blocks = False  # the parallel loop around uses qd.simt
        self.speculating: Frame | None = None  # the frame in which `changed.speculate` lowers an expression
        self.random_sites = 0  # number of calls of qd.random so far
        self.stop_grads: set[str] = set()  # buffers after qd.stop_grad in this parallel loop, or outside of any
        self.inlining: list[tuple[FunctionSource, tuple[Any, ...]]] = []  # calls being inlined, with static arguments
        self.list_aliases: dict[object, set[object]] = {}  # token -> tokens of lists that may be the same
        self.chosen: list[V.List | V.Dict] = []  # lists that conditions of the present statement chose
        self.lower_again = False  # the present loop has to be lowered again
        self.found_changes: dict[tuple[int, Span | None], dict[str, None]] = {}  # see `syntax.changed`
        self.messages: list[Callable[[], None]] = []  # warnings and output of qd.static_print, in order
        self.field_access_hook: FieldAccessHook | None = None  # see `lower`
        # properties, as (id of the owner, name), whose getters accessed a field
        self.from_fields: set[tuple[int, str]] = set()
        # for each loop around the present statement: the cells that are known to be active, see `values.active_cells`
        self.active: tuple[frozenset[Any], ...] = (frozenset(),)
        self.changed_activity: set[str] = set()  # activity buffers that the innermost loop has changed
        # by the id of a number: the shared memory that holds this number of each thread, and the open block that made
        # it
        self.rows: dict[int, tuple[list[N.Stmt], V.Mem]] = {}
        self.static_calls: set[ast.expr] = set()  # expressions whose last evaluation was a call of qd.static

    @contextmanager
    def setting(self, **values: Any) -> Iterator[None]:
        """Sets attributes as long as a ``with`` block runs."""
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        yield
        vars(self).update(before)

    # --- dispatch ---------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> V.Value:
        """The value of the expression."""
        lower = self.exprs.get(type(node))
        if lower is None:
            raise self.unsupported(node)
        return lower(self, node)

    def scalar(self, node: ast.expr) -> V.Number:
        """The value of the expression, which must be a number."""
        found: V.Number = self.expr(node).number(self, node)
        return found

    def stmts(self, body: Sequence[ast.stmt]) -> None:
        """Lowers statements up to the first one after which the rest is unreachable."""
        outer = self.chosen
        for s in body:
            if self.exited:
                break
            lower = self.statements.get(type(s))
            if lower is None:
                raise self.unsupported(s)
            if self.b.next_id > MOST_OPERATIONS:
                raise self.fail("QL1213", s, most=f"{MOST_OPERATIONS:,}")
            self.chosen = []
            lower(self, s)
        self.chosen = outer

    # --- diagnostics ------------------------------------------------------------------------------------------

    def span(self, node: Any) -> Span:
        frame = self.frame
        if frame.hidden and frame.call:
            return frame.call
        found = frame.spans.get(node)
        if found is None:
            found = frame.spans[node] = frame.source.span(node, frame.call)
        return found

    def at(self, node: Any) -> None:
        """Sets the source span of statements that are emitted from now on to that of ``node``."""
        self.b.span = self.span(node)

    def fail(
        self, code: str, node: Any, also: tuple[Label, ...] = (), **parts: object
    ) -> QuadrantsCompilationError:
        return error(code, self.span(node), also, **parts)

    def warn(self, code: str, node: Any, **parts: object) -> None:
        """Records a warning. `issue_messages` issues it later, because the code may still be discarded."""
        self.messages.append(warning(code, self.span(node), **parts))

    def issue_messages(self) -> None:
        """Issues the warnings and the output of qd.static_print so far."""
        messages, self.messages = self.messages, []
        for message in messages:
            message()

    def unsupported(self, node: ast.AST) -> QuadrantsCompilationError:
        what, cure = UNSUPPORTED.get(type(node), (f"'{type(node).__name__}'", "compute it in Python and pass it in"))
        return self.fail("QL1201", node, what=what, cure=cure)

    # --- names ------------------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> V.Value:
        """The value of a name, loaded from memory."""
        return self.unread(node).load(self, node)

    def unread(self, node: ast.Name) -> V.Value:
        """The value of a name, not loaded from memory."""
        value = self.frame.env.get(node.id, self.frame.globals.get(node.id))
        return self._outer(node) if value is None else value.renewed()

    def _outer(self, node: ast.Name) -> V.Value:
        """The value of a name that the function does not define: a name of its closure, its module or builtins."""
        frame = self.frame
        if node.id in frame.out_of_scope:
            raise self.fail("QL1302", node, name=node.id, where=frame.out_of_scope[node.id])
        try:
            value = frame.source.lookup(node.id)
        except KeyError:
            known = [*frame.env, *frame.source.names()]
            operation = self.operations.get(node.id)
            home = {"": "qd", "math": "qd.math"}.get(operation.home) if operation else None
            hint = f"; did you mean '{home}.{node.id}'?" if home else suggestion(node.id, known)
            raise self.fail("QL1301", node, name=node.id, hint=hint) from None
        if self.inlining and self.inlining[0][0].pure:
            self._check_purity(value, node)
        frame.globals[node.id] = wrapped = self.wrap(value, node.id, node)
        return wrapped

    def _check_purity(self, value: Any, node: ast.Name) -> None:
        """Raises an error if a kernel with ``fastcache`` uses data that are not arguments: numbers, containers, fields,
        arrays, objects. Modules, types, funcs, functions and members of an `Enum` are not data. A name in capitals
        counts as a constant and only causes a warning."""
        array = getattr(value, "__qd_field__", False) or getattr(value, "__qd_ndarray__", False)
        match value:
            case Enum() | type() | ModuleType():
                return
            case int() | float() | str() | list() | dict() | set() | tuple() | np.generic() | np.ndarray() | None:
                is_data = True
            case _:
                own = hasattr(type(value), "__dict__") and not type(value).__module__.startswith("quadrants_lab.")
                is_data = array or (own and not callable(value))
        if not is_data:
            return
        what, kernel = f"of type {type(value).__name__}", self.inlining[0][0].name
        if array or not node.id.isupper():
            raise self.fail("QL1307", node, text=node.id, what=what, kernel=kernel)
        self.warn("QL1908", node, text=node.id, what=what, kernel=kernel)

    def captured(self, owner: Any, name: str, text: str, node: ast.AST) -> V.Value:
        """The value of an attribute of a Python object; AttributeError if there is none.

        Attributes of data-oriented objects are put into ``reads``, so that launches check that they are unchanged.
        Numbers are left out, since they are constants of the kernel. A property that reads a field and is not put into
        ``reads`` causes a warning, because it is evaluated only once, now."""
        found, used = self._attribute(owner, name)
        kind = getattr(type(owner), "__qd_data_oriented__", "")  # for objects only, not for their classes
        if kind == "values" and type(found) in (int, float) and not self.static:
            number = type(owner).__qd_number__(owner, name)
            if number is not None:
                note_unknown()
                self.reads[id(number), "state"] = (number, "state")
                self.at(node)
                mem: Any = self.wrap(number.field(found), text, node)
                return V.Element(mem, ()).load(self, cast("ast.expr", node))
        if kind == "values" or (kind and not isinstance(found, (bool, int, float))):
            method = getattr(found, "__qd_bound__", None) is not None or callable(found)
            if not method or name in getattr(owner, "__dict__", ()):
                self.reads[id(owner), name] = (owner, name)
                used = False
        if used:
            self.warn("QL1905", node, text=text)
        return self.wrap(found, text, node)

    def _attribute(self, owner: Any, name: str) -> tuple[Any, bool]:
        """The attribute's value, and whether the kernel reads it outside of qd.static from a property that uses a
        field."""
        if self.field_access_hook is None or not isinstance(getattr(type(owner), name, None), property):
            return attribute(owner, name), False
        here, used = get_ident(), set[int]()
        with self.field_access_hook(lambda field: used.add(get_ident())):
            found = attribute(owner, name)
        if here in used:
            self.from_fields.add((id(owner), name))
        return found, (id(owner), name) in self.from_fields and not self.static

    def wrap(self, value: Any, text: str, node: ast.AST | None = None) -> V.Value:
        """The value that stands for a Python object; ``text`` is the expression that names it."""
        match value:
            case np.generic() if type(number := value.item()) is not type(value):  # such as a longdouble
                return self.wrap(number, text, node)
            case bool():
                return V.Lit(value, node)
            case int() | float():  # objects of subclasses become plain numbers
                number = int(value) if hasattr(value, "__index__") else float(value)
                return V.Lit(number, node, member=value if isinstance(value, Enum) else None)
            # these come first: a dict may have an attribute for each key, and a class has the attributes of its objects
            case ModuleType() | dict() | type():
                return V.Obj(value, text)
        if getattr(value, "__qd_field__", False) is True or getattr(value, "__qd_ndarray__", False) is True:
            self._check_placed(value, text, node)
            shape, offset = tuple(getattr(value, "element_shape", ())), tuple(getattr(value, "offset", None) or ())
            return V.Mem(self.field(value, text), text, shape, offset)
        if getattr(value, "__qd_packed__", False) is True:
            self._check_placed(value, text, node)
            packed: V.Value = _packed_memory(self, value, text)
            return packed
        if getattr(value, "__qd_entry__", False) is True:
            self._check_placed(value.field, text, node)
            whole = value.field
            return V.Mem(self.field(whole, text), text, whole.element_shape, whole.offset, value.at)
        if getattr(value, "__qd_ndrange__", False) is True:
            return V.NdRange(tuple((V.Lit(a.start, node), V.Lit(a.stop, node)) for a in value.axes), value.order)
        if getattr(value, "__qd_struct_field__", False) is True:
            members: Any = {n: self.wrap(m, f"{text}.{n}", node) for n, m in value.members.items()}
            return V.StructMem(value.struct_type, members, text)
        if getattr(value, "__qd_matrix__", False) is True:
            rows: Any = value.to_list() if len(value.shape) > 1 else [value.to_list()]
            elements: Any = tuple(self.wrap(v, text, node) for row in rows for v in row)
            return V.Matrix(tuple(value.shape), elements, _CAPTURED)
        if getattr(value, "__qd_struct__", False) is True:
            inner = {n: self.wrap(m, f"{text}.{n}", node) for n, m in value.members.items()}
            return V.Struct(value.struct_type, inner, _CAPTURED)
        if getattr(value, "__qd_absent__", False) is True:
            value.used()
        return V.Obj(value, text)

    def _check_placed(self, field: Any, text: str, node: ast.AST | None) -> None:
        """Raises QL2022 if the field, or a gradient or dual that it declares, has no memory yet."""
        for which, name in ((field, text), (field.grad, f"{text}.grad"), (getattr(field, "dual", 0), f"{text}.dual")):
            if which and not getattr(which, "placed", True):
                raise QuadrantsRuntimeError(
                    f"{name} has no memory: it was made without a shape and is not placed",
                    code="QL2022",
                    labels=(Label(None if node is None else self.span(node), "used here"),),
                    help="qd.root.dense(qd.i, n).place(x), for gradients .place(x, x.grad) or qd.root.lazy_grad()",
                )

    def unused(self, name: str) -> str:
        """The name, or the first of ``name.2``, ``name.3``, ... that no buffer has yet."""
        return unused(chain((name,), (f"{name}.{n}" for n in count(2))), self.buffers)

    def field(self, obj: Any, text: str) -> N.Buffer:
        """The buffer of a field. When it is made, the buffers of the field's gradient and dual are made, too."""
        if (known := self.by_field.get(id(obj))) is not None:
            return known
        name = self.unused(N.buffer_name(text))
        inner = tuple(getattr(obj, "element_shape", ()))
        offset = tuple(getattr(obj, "offset", None) or ())
        shape, begins = (*obj.shape, *inner), (*offset, *(0 for _ in inner)) if any(offset) else ()
        buffer = N.Buffer(name, "field", obj.dtype, len(shape), shape, first=begins, order=getattr(obj, "order", ()))
        self.by_field[id(obj)] = self.buffers[name] = buffer
        self.bindings[name] = obj
        if obj.grad:
            buffer.grad = self.field(obj.grad, f"{name}.grad").name
        if getattr(obj, "dual", None):
            buffer.dual = self.field(obj.dual, f"{name}.dual").name
        return buffer

    # --- scopes -----------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, node: ast.stmt, what: str) -> Iterator[None]:
        """Makes a context for a block of the program: names that the block assigns first end with it, and
        assignments to other names stay."""
        before = self.frame.env
        self.frame.env = dict(before)
        yield
        inner, self.frame.env = self.frame.env, {n: self.frame.env[n] for n in before}
        self.end(inner, before, node, what)

    def end(self, inner: Env, before: Env, node: ast.stmt, what: str) -> None:
        """Ends the names that are in the environment ``inner`` but not in ``before``: using one is an error from now
        on."""
        where = f"the {what} in line {node.lineno + self.frame.source.offset}"
        for n in inner:
            if n not in before:
                self.frame.out_of_scope[n] = where

    # --- numbers ----------------------------------------------------------------------------------------------

    def argument(self, call: ast.Call, k: int, value: V.Value) -> V.Number:
        """The value of argument ``k`` of the call, which must be a number."""
        found: V.Number = value.number(self, argument_node(call, k))
        return found

    def dtype(self, value: V.Value, node: ast.expr) -> DType:
        """The dtype that a compile-time value names; raises an error if it is no dtype."""
        dtype = dtype_of(value, self.options)
        if dtype is None:
            raise self.fail("QL1410", node, what=value.describe())
        return dtype

    def type_of(self, value: V.Number) -> DType:
        """The dtype of the number; a literal without one has default_ip, default_fp or u1."""
        return value.dtype_in(self.options)

    def common_dtype(self, *values: V.Number) -> DType:
        """The dtype of the result of a choice between these numbers: their dtype if all have the same, else the
        promoted dtype."""
        return reduce(lambda a, b: a if a is b else promote(a, b), map(self.type_of, values))

    def to(self, value: V.Number, dtype: DType) -> int:
        """The id of the number cast to ``dtype``."""
        return value.to(self, dtype)

    def fit(self, lit: V.Number, dtype: DType, asked: bool = False) -> Any:
        """The literal's value as a number of ``dtype``. ``asked`` says that the program names this dtype; otherwise it
        is the default dtype. Raises QL1402 if an integer is out of range."""
        value = lit.constant
        if dtype.is_int and not dtype.holds(value):
            wider = next((t for t in (i64, u64) if t.holds(value)), None)
            why = "the dtype that is asked for" if asked else "a literal has the dtype default_ip"
            cure = f"write qd.{wider}({value})" if wider else "no integer dtype holds it: write a real number"
            also = ", or set default_ip=qd.i64 in qd.init()" if wider is i64 and not asked else ""
            node = lit.node or self.frame.source.node
            raise self.fail("QL1402", node, value=value, dtype=dtype, why=why, cure=cure + also)
        return convert(value, dtype) if dtype.is_float else value

    def num(self, value: V.Number, dtype: DType | None = None) -> V.Num:
        """The number as an SSA value, cast to ``dtype`` if ``dtype`` is given."""
        return value.num(self, dtype)

    def new_variable(self, value: V.Value, node: ast.expr) -> V.Num:
        """A new variable that holds the value, which must be a number."""
        number = self.num(value.number(self, node))
        return V.Num(number.id, number.type)

    def const(self, value: Any, dtype: DType) -> int:
        return self.b.add(N.Const(self.b.fresh(), dtype, convert(value, dtype)))

    def known(self, value: V.Value, code: str, node: ast.AST, **parts: Any) -> Any:
        """The Python object that the value stands for. Raises the error ``code`` for a value of the running kernel."""
        try:
            return value.python(self)
        except TypeError:
            raise self.fail(code, node, **parts) from None

    def extent(self, buffer: N.Buffer, axis: int, node: ast.AST | None = None) -> V.Number:
        """The size of the buffer along the axis."""
        if buffer.shape is not None:
            size = buffer.shape[axis]
            return V.Lit(size, node, dtype=None if i32.holds(size) else i64)
        t = buffer.extent_type
        return V.Num(self.b.add(N.ShapeOf(self.b.fresh(), t, buffer.name, axis)), t)

    def index(self, value: V.Number) -> V.Number:
        """The integer, cast to a dtype for indices and loop bounds: dtypes narrower than 32 bits become i32, and u32
        becomes i64."""
        return value.as_index(self)


def check_count(cx: Context, n: int, node: ast.AST) -> None:
    """Raises QL1212 if ``n`` entries, which are about to be made, are too many for memory."""
    if n > MOST_ENTRIES:
        raise cx.fail("QL1212", node, n=f"{n:,}", most=f"{MOST_ENTRIES:,}")


def argument_node(call: ast.Call, k: int) -> ast.expr:
    """The expression of argument ``k``; the call itself if that argument is not given by position."""
    return call.args[k] if k < len(call.args) else call


def dtype_of(value: V.Value, options: CompileOptions) -> DType | None:
    """The dtype that a compile-time value names: a dtype itself, or Python's int, float or bool; None for others."""
    named = value.captured
    if isinstance(named, DType):
        return named
    plain = (int, options.default_ip), (float, options.default_fp), (bool, u1)
    return next((dtype for kind, dtype in plain if named is kind), None)
