"""A kernel's source to IR."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quadrants_lab.frontend.diagnostics import count, error
from quadrants_lab.frontend.ops.builtins import OPS
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, MatrixSpec, NdarraySpec, ScalarSpec, Spec, StructSpec
from quadrants_lab.frontend.syntax import assign, calls, expr, loops, stmt, unroll
from quadrants_lab.frontend.syntax.funcs import parameters, return_parts, returned_types
from quadrants_lab.frontend.syntax.stop_grad import without_derivatives
from quadrants_lab.frontend.values.context import Context, FieldAccessHook, Frame
from quadrants_lab.frontend.values.values import ArgRef, Lit, Matrix, Mem, Struct, Value
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import with_adjoint
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.room import need
from quadrants_lab.ir.types import DType

EXPRS = {**expr.EXPRS, **assign.EXPRS, **calls.CALLS, **unroll.UNROLLED}
STATEMENTS = {**stmt.STATEMENTS, **assign.STATEMENTS, **loops.STATEMENTS}


def lower(
    source: FunctionSource, specs: Sequence[Spec], options: CompileOptions, telling: FieldAccessHook | None = None
) -> Lowered:
    """The kernel that the function means for arguments as described, one spec a parameter in order.

    Its body holds plain statements and Offloads, which still read each other's values; loops may end in Break and
    Continue. Every statement has its span. QuadrantsCompilationError for what the language does not have,
    QuadrantsWarning for what loses values, RecursionError where this thread's stack is too small for the program.
    ``telling``: within its with, it calls what it is given with each field that Python reads or writes.
    """
    need(source.depth)
    frame = Frame(source)
    cx = Context(frame, options, EXPRS, STATEMENTS, OPS)
    cx.field_access_hook = telling
    args = _arguments(cx, source, specs)
    frame.returns = returned_types(cx)
    cx.inlining.append((source, ()))
    try:
        cx.stmts(source.node.body)
    except RecursionError:  # it will be lowered again
        cx.messages.clear()
        raise
    finally:
        cx.issue_messages()
    body = without_derivatives(cx.b, tuple(cx.b.stmts), cx.stop_grads)
    node = source.node
    if frame.returns is not None and not cx.returned:
        raise cx.fail("QL1803", node.returns, name=source.name)
    kernel = N.Kernel(
        source.name, tuple(args), cx.buffers, body, cx.b.next_id, span=source.span(node)
    )  # fmt: skip
    several = return_parts(node.returns) is not None
    types = frame.returns or ()
    compound = not all(isinstance(t, DType) for t in types)
    returns_as = (types if several else types[0]) if compound else None
    return Lowered(kernel, cx.bindings, cx.returned, several, returns_as, tuple(cx.reads.values()))


def _arguments(cx: Context, source: FunctionSource, specs: Sequence[Spec]) -> list[N.Arg]:
    """Puts the parameters into the environment; the scalar ones are the kernel's arguments."""
    params = parameters(source)
    if len(params) != len(specs):
        want = count(len(params), "argument")
        raise error("QL1104", source.span(source.node), name=source.name, want=want, got=len(specs))
    args: list[N.Arg] = []
    env = cx.frame.env
    for p, spec in zip(params, specs, strict=True):
        env[p.arg] = _argument(cx, p.arg, spec, args)
    return args


def _argument(cx: Context, name: str, spec: Spec, args: list[N.Arg]) -> Value:
    """What the parameter, or member of one, stands for; its numbers are appended to ``args``."""
    if isinstance(spec, ScalarSpec):
        args.append(N.Arg(name, spec.dtype))
        return ArgRef(name, spec.dtype)
    if isinstance(spec, MatrixSpec):
        elements = [_argument(cx, f"{name}[{k}]", ScalarSpec(spec.dtype), args) for k in range(math.prod(spec.shape))]
        return Matrix(spec.shape, tuple(e for e in elements if isinstance(e, ArgRef)), ArgRef.fixed)
    if isinstance(spec, StructSpec):
        members = {member: _argument(cx, f"{name}.{member}", inner, args) for member, inner in spec.members}
        return Struct(spec.type, members, ArgRef.fixed)
    if isinstance(spec, NdarraySpec):
        return Mem(_ndarray(cx, name, spec), name, spec.element_shape)
    value = cx.wrap(spec.value, name)
    return Lit(value.value, None, "a template argument") if isinstance(value, Lit) else value


def _ndarray(cx: Context, name: str, spec: NdarraySpec) -> N.Buffer:
    ndim = spec.ndim + len(spec.element_shape)
    buffer = N.Buffer(name, "ndarray", spec.dtype, ndim, None, wide=spec.wide)
    if spec.grad:
        return with_adjoint(cx.buffers, buffer)
    cx.buffers[name] = buffer
    return buffer
