"""The entry point of the front end, which lowers a kernel's source to IR."""

import ast
import math
from collections.abc import Callable, Sequence

from quadrants_lab.frontend.diagnostics import count, error
from quadrants_lab.frontend.op_table import OPS
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, MatrixSpec, NdarraySpec, ScalarSpec, Spec, StructSpec
from quadrants_lab.frontend.syntax import assign, calls, expr, loops, stmt, unroll
from quadrants_lab.frontend.syntax.funcs import parameters, return_parts, returned_types
from quadrants_lab.frontend.syntax.loops import without_derivatives
from quadrants_lab.frontend.values import ArgRef, Matrix, Mem, Struct, Value
from quadrants_lab.frontend.values.context import Context, FieldAccessHook, Frame
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import with_adjoint
from quadrants_lab.ir.deep_recursion import check_depth
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType

EXPRS: dict[type, Callable[..., Value]] = {
    **expr.EXPRS, ast.NamedExpr: assign.named_expression, ast.Call: calls.call,
    ast.ListComp: unroll.list_comprehension, ast.DictComp: unroll.dict_comprehension,
}  # fmt: skip
STATEMENTS = {**stmt.STATEMENTS, **assign.STATEMENTS, **loops.STATEMENTS}


def lower(
    source: FunctionSource, specs: Sequence[Spec], options: CompileOptions, field_access: FieldAccessHook | None = None
) -> Lowered:
    """The IR of the kernel for arguments that ``specs`` describe, one for each parameter.

    The kernel's body holds plain statements and Offloads, which still use each other's values; loops may end in Break
    and Continue. Every statement has a span, its place in the source. Raises QuadrantsCompilationError for what the
    language lacks, and RecursionError where the stack of this thread is too small for the program; issues
    QuadrantsWarning where values are lost. ``with field_access(fn):`` makes Python call ``fn`` with each field that it
    reads or writes.
    """
    check_depth(source.depth)
    frame = Frame(source)
    cx = Context(frame, options, EXPRS, STATEMENTS, OPS)
    cx.field_access_hook = field_access
    args = _arguments(cx, source, specs)
    frame.returns = returned_types(cx)
    cx.inlining.append((source, ()))
    try:
        cx.stmts(source.node.body)
    except RecursionError:  # passed on: the caller lowers the kernel again, on a larger stack
        cx.messages.clear()
        raise
    finally:
        cx.issue_messages()
    body = without_derivatives(cx.b, tuple(cx.b.stmts), cx.stop_grads)
    node = source.node
    if frame.returns is not None and not cx.returned:
        raise cx.fail("QL1803", node.returns, name=source.name)
    kernel = N.Kernel(source.name, tuple(args), cx.buffers, body, cx.b.next_id, span=source.span(node))
    several = return_parts(node.returns) is not None
    types = frame.returns or ()
    compound = not all(isinstance(t, DType) for t in types)
    returns_as = (types if several else types[0]) if compound else None
    return Lowered(kernel, cx.bindings, cx.returned, several, returns_as, tuple(cx.reads.values()))


def _arguments(cx: Context, source: FunctionSource, specs: Sequence[Spec]) -> list[N.Arg]:
    """Puts the kernel's parameters into the environment. Returns the scalar arguments of the kernel: the numbers among
    its parameters, and those in its vectors and structs."""
    params = parameters(source)
    if len(params) != len(specs):
        want = count(len(params), "argument")
        raise error("QL1104", source.span(source.node), name=source.name, want=want, got=len(specs))
    args: list[N.Arg] = []
    cx.frame.env = {p.arg: _argument(cx, p.arg, spec, args) for p, spec in zip(params, specs, strict=True)}
    return args


def _argument(cx: Context, name: str, spec: Spec, args: list[N.Arg]) -> Value:
    """The value of a parameter, or of a member of a struct parameter. The numbers in it are appended to ``args``."""
    match spec:
        case ScalarSpec():
            args.append(N.Arg(name, spec.dtype))
            return ArgRef(name, spec.dtype)
        case MatrixSpec():
            elements = [ArgRef(f"{name}[{k}]", spec.dtype) for k in range(math.prod(spec.shape))]
            args += [N.Arg(e.name, e.type) for e in elements]
            return Matrix(spec.shape, tuple(elements), ArgRef.fixed)
        case StructSpec():
            members = {member: _argument(cx, f"{name}.{member}", inner, args) for member, inner in spec.members}
            return Struct(spec.type, members, ArgRef.fixed)
        case NdarraySpec():
            ndim = spec.ndim + len(spec.element_shape)
            buffer = N.Buffer(name, "ndarray", spec.dtype, ndim, None, wide=spec.wide, element=spec.element_shape)
            cx.buffers[name] = buffer
            buffer = with_adjoint(cx.buffers, buffer) if spec.grad else buffer
            return Mem(buffer, name, spec.element_shape, clamp=spec.clamp)
    value = cx.wrap(spec.value, name)
    return value if value.constant is None else value.pinned("a template argument")
