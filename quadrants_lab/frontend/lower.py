"""A kernel's source to IR."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.frontend import assign, calls, expr, loops, stmt
from quadrants_lab.frontend.builtins import OPS
from quadrants_lab.frontend.context import Context, Frame
from quadrants_lab.frontend.diagnostics import count, error
from quadrants_lab.frontend.funcs import parameters, returned_dtypes
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.specs import Lowered, NdarraySpec, ScalarSpec, Spec, TemplateSpec
from quadrants_lab.frontend.values import ArgRef, Lit, Mem
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

EXPRS = {**expr.EXPRS, **calls.CALLS}
STATEMENTS = {**stmt.STATEMENTS, **assign.STATEMENTS, **loops.STATEMENTS}


def lower(source: FunctionSource, specs: Sequence[Spec], options: CompileOptions) -> Lowered:
    """The kernel that the function means for arguments as described, one spec a parameter in order.

    Its body holds plain statements and Offloads, which still read each other's values; loops may end in Break and
    Continue. Every statement has its span. QuadrantsCompilationError for what the language has not, QuadrantsWarning
    for what loses values.
    """
    frame = Frame(source)
    cx = Context(frame, options, EXPRS, STATEMENTS, OPS)
    args = _arguments(cx, source, specs)
    frame.returns = returned_dtypes(cx)
    cx.inlining.append(source)
    cx.stmts(source.node.body)
    node = source.node
    if frame.returns is not None and not cx.returned:
        raise cx.fail("QL1803", node.returns, name=source.name)
    kernel = N.Kernel(
        source.name, tuple(args), cx.buffers, tuple(cx.b.stmts), cx.b.next_id, span=source.span(node)
    )  # fmt: skip
    several = node.returns is not None and type(node.returns).__name__ == "Tuple"
    return Lowered(kernel, cx.bindings, cx.returned, several)


def _arguments(cx: Context, source: FunctionSource, specs: Sequence[Spec]) -> list[N.Arg]:
    """Puts the parameters into the environment; the scalar ones are the kernel's arguments."""
    params = parameters(source)
    if len(params) != len(specs):
        want = count(len(params), "argument")
        raise error("QL1104", source.span(source.node), name=source.name, want=want, got=len(specs))
    args: list[N.Arg] = []
    env = cx.frame.env
    for p, spec in zip(params, specs, strict=True):
        if isinstance(spec, ScalarSpec):
            args.append(N.Arg(p.arg, spec.dtype))
            env[p.arg] = ArgRef(p.arg, spec.dtype)
        elif isinstance(spec, NdarraySpec):
            env[p.arg] = Mem(_ndarray(cx, p.arg, spec), p.arg)
        else:
            assert isinstance(spec, TemplateSpec)
            value = cx.wrap(spec.value, p.arg)
            env[p.arg] = Lit(value.value, None, "a template argument") if isinstance(value, Lit) else value
    return args


def _ndarray(cx: Context, name: str, spec: NdarraySpec) -> N.Buffer:
    buffer = N.Buffer(name, "ndarray", spec.dtype, spec.ndim, None)
    cx.buffers[name] = buffer
    if spec.grad:
        buffer.grad = f"{name}.grad"
        cx.buffers[buffer.grad] = N.Buffer(buffer.grad, "ndarray", spec.dtype, spec.ndim, None)
    return buffer
