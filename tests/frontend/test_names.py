"""Calls are resolved by value: an operation under any name is lowered to the same IR as under its own."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
from frontend.rig import FakeField, sparse_nodes
from programs.deep import define

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.op_table import OPS, PYTHON
from quadrants_lab.frontend.source import function_source
from quadrants_lab.frontend.specs import ScalarSpec, TemplateSpec
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import f32, i32
from quadrants_lab.ir.verify import verify

# Calls of the operations, by what it takes to write one: r is a number, k an integer, v a vector, z a vector of two, m
# a matrix. OP stands for what is called.
VALUES: dict[str, str] = {
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "rsqrt", "abs"), "OP(r)"),
    "log1p": "OP(r)", "clock_counter": "OP()", "global_thread_idx": "OP()",
    **dict.fromkeys(("floor", "ceil", "round"), "OP(r, qd.i32)"),
    **dict.fromkeys(("atan2", "min", "max", "pow", "mod", "step"), "OP(r, 2.5)"),
    **dict.fromkeys(("raw_div", "raw_mod", "bit_shr"), "OP(k, 3)"),
    **dict.fromkeys(("popcnt", "clz", "ffs"), "OP(k)"),
    **dict.fromkeys(("isnan", "isinf", "sign", "fract", "log2", "degrees", "radians"), "OP(r)"),
    **dict.fromkeys(("clamp", "mix", "smoothstep"), "OP(r, 0.5, 0.75)"),
    "fns": "OP(qd.cast(k, qd.u32), 0, 1)",
    "select": "OP(k, r, 2.0)", "cast": "OP(r, qd.i32)", "bit_cast": "OP(r, qd.i32)",
    "int": "OP(r)", "float": "OP(k)", "bool": "OP(k)", "random": "OP(qd.f32)",
    "len": "OP(v)", "any": "OP(v > 0.0)", "all": "OP(v > 0.0)", "sum": "OP(v)",
    "zero": "OP(r)", "one": "OP(r)", "frexp": "OP(r)[0]", "assume_in_range": "OP(k, 0, 0, 9)", "stop_grad": "OP(r)",
    "Vector": "OP([r, 2.0])[0]", "Matrix": "OP([[r, 2.0], [3.0, 4.0]])[1, 0]", "Struct": "OP(a=r).a",
    **dict.fromkeys(
        ("Matrix.norm_sqr", "Matrix.norm", "Matrix.norm_inv", "Matrix.sum", "Matrix.max", "Matrix.min", "Matrix.any",
         "Matrix.all", "length"), "OP(v)",
    ),
    **dict.fromkeys(("Matrix.dot", "Matrix.frobenius_inner", "dot", "distance"), "OP(v, v + 1.0)"),
    **dict.fromkeys(("Matrix.cross", "cross", "reflect"), "OP(v, v + 1.0)[0]"),
    **dict.fromkeys(("Matrix.normalized", "normalize"), "OP(v)[0]"),
    "refract": "OP(v, v + 1.0, r)[0]",
    "Matrix.get_shape": "OP(m)[0]", "Matrix.outer_product": "OP(v, v)[0, 1]", "Matrix.transpose": "OP(m)[0, 1]",
    "Matrix.trace": "OP(m)", "Matrix.cast": "OP(v, qd.i32)[0]",
    **dict.fromkeys(("Matrix.determinant", "determinant"), "OP(m)"),
    **dict.fromkeys(("Matrix.inverse", "inverse"), "OP(m)[0, 0]"),
    **dict.fromkeys(("Matrix.zero", "Matrix.one"), "OP(qd.f32, 2)[0]"),
    "Matrix.unit": "OP(3, 1)[0]", "Matrix.identity": "OP(qd.f32, 2)[0, 0]", "Matrix.diag": "OP(2, 1.5)[0, 0]",
    **dict.fromkeys(("Matrix.rows", "Matrix.cols"), "OP([v, v])[0, 1]"),
    "eye": "OP(2)[0, 0]", **dict.fromkeys(("cconj", "cinv", "cexp", "clog", "csqrt"), "OP(z)[0]"),
    **dict.fromkeys(("cmul", "cdiv"), "OP(z, z)[0]"), "cpow": "OP(z, 3)[0]",
    "sym_eig": "OP(m)[0][0]", "make_spd": "OP(m)[0, 0]", "eig": "OP(m)[0][0, 0]", "solve": "OP(m, z)[0]",
    "svd": "OP(m)[0][0, 0]", "polar_decompose": "OP(m)[0][0, 0]", "randn": "OP()", "vdir": "OP(r)[0]",
    "rotation2d": "OP(r)[0, 0]",
    **dict.fromkeys(("rot_yaw_pitch_roll", "rotation3d", "translate", "scale"), "OP(r, r, r)[0, 0]"),
    "rot_by_axis": "OP(v, r)[0, 0]",
    "is_active": "OP(cells, [k, 1])", "SNode.length": "OP(rows, k)", "append": "OP(rows, k, 2.0)",
    "rescale_index": "OP(cells, cells, [k, 1])[0]", "volatile_load": "OP(a[i])",
}  # fmt: skip
_ATOMICS = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "exchange")
STATEMENTS: dict[str, tuple[str, ...]] = {
    **{f"atomic_{n}": ("OP(total, k)", "OP(own, k)", "OP(a[i], k)", "own = OP(a[i], k)") for n in _ATOMICS},
    "atomic_cas": ("OP(own, 3, k)", "OP(a[i], 3, k)"),
    "static": (
        "for j in OP(range(3)):\n    own += j\n    if OP(j == 1):\n        break",
        "if OP(k_known > 2):\n    own += 1\nelse:\n    own += 2",
        "known = OP(k_known)\nfor j in OP(range(known)):\n    own += j",
        "own += OP(k_known + 1)",
    ),
    "outer": ("t = qd.simt.Tile16x16.zeros()\nt -= OP(r, 2)",),
    "static_assert": ("OP(k_known == 3)",), "static_print": ("OP(k_known)",), "print": ("OP(k, 'of', r, sep='|')",),
    "range": ("for j in OP(3):\n    own += j", "for j in OP(k, 9, 2):\n    own += j"),
    "ndrange": ("for j, l in OP(3, (k, 9), axes=(1, 0)):\n    own += j * l",),
    "grouped": ("for J in OP(a):\n    own += J[0]", "for J in OP(qd.ndrange(2, 3)):\n    own += J[1]"),
    "loop_config": ("OP(serialize=True)\nfor j in range(3):\n    own += j",), "stop_grad": ("OP(x)\nx[i] = x[i] * r",),
    **dict.fromkeys(("block_local", "cache_read_only", "no_activate"), ("OP(x)",)),
    **dict.fromkeys(("activate", "deactivate"), ("OP(cells, [k, 1])",)),
    "Matrix.fill": ("OP(v, r)", "for j in range(2):\n    OP(v, r)\nx[i] = v[1]"),
}  # fmt: skip
# methods, and operations of the library
_HIDDEN = (
    "Field.fill", "Field.append", "Field.length", "Field.deactivate", "Field.get_scalar_field", "Field.parent",
    "custom_jvp", "detached", "only", "constant_like", "epsilon", "Matrix.zero_like", "simt.half", "simt.shared",
    "simt.threads", "simt.first", "Tile.eye_", "Tile.cholesky_", "Tile.solve_triangular_",
)  # fmt: skip
_OPERATORS = ("Matrix.__matmul__",)
_OF_MEMORY = ("get_addr",)  # which fields of these tests do not have: tests/lang/test_tools.py

HEAD = """
def k(k: qd.i32, r: qd.f32{parameter}):
    total = 1
    for i in a:
        own = 2
        v = qd.Vector([r, 2.0, 3.0])
        z = qd.Vector([r, 2.0])
        m = qd.Matrix([[r, 1.0], [2.0, 3.0]])
        for n in range(2):
"""


def test_every_operation_has_an_example() -> None:
    here = {name for name, row in OPS.items() if not row.home.startswith("simt.")}  # those: tests/lang/test_simt.py
    assert here == {*VALUES, *STATEMENTS, *_HIDDEN, *_OPERATORS, *_OF_MEMORY}


def meaning(op: str) -> Any:
    """The object that a program calls."""
    python = {name: fn for fn, name in PYTHON.items()}
    if op in python and not hasattr(qd, op):
        return python[op]
    if op == "SNode.length":
        return qd.length
    home = getattr(qd, op.partition(".")[0]) if "." in op else qd.math if OPS[op].home == "math" else qd
    return getattr(home, op.rpartition(".")[2])


class Held:
    """An object with an attribute."""

    def __init__(self, op: Any) -> None:
        self.op = op


def ir(op: str, statement: str, way: Way) -> str:
    """The IR of a kernel that calls the operation in that way."""
    call, before, given, made = way
    body = statement.replace("OP", call)
    lines = HEAD.format(parameter=", f: qd.template()" if given else "").splitlines()
    lines[2:2] = [f"    {line}" for line in before]
    lines += [f"            {line}" for line in body.splitlines()]
    text = "\n".join(["def outer(op):", *(f"    {line}" for line in lines), "    return k", ""])
    a, x = FakeField(i32, 8), FakeField(f32, 8, grad=True)
    names = {"a": a, "x": x, "k_known": 3, **sparse_nodes(), **made(meaning(op))}
    fn: types.FunctionType = define(text, **names)["outer"](meaning(op))
    specs = [ScalarSpec(i32), ScalarSpec(f32), *([TemplateSpec(meaning(op))] if given else [])]
    kernel = lower(function_source(fn), specs, CompileOptions()).kernel
    verify(kernel)
    return print_kernel(kernel)


# how it is called, what stands before, whether it is a template argument, and the names that the module has
Way = tuple[str, tuple[str, ...], bool, Callable[[Any], dict[str, Any]]]
WAYS: dict[str, Way] = {
    "closure": ("op", (), False, lambda op: {}),
    "list": ("ops[1]", (), False, lambda op: {"ops": [None, op]}),
    "dict": ("ops['it']", (), False, lambda op: {"ops": {"it": op}}),
    "attribute": ("held.op", (), False, lambda op: {"held": Held(op)}),
    "static": ("qd.static(op)", (), False, lambda op: {}),
    "local": ("local", ("local = qd.static(op)",), False, lambda op: {}),
    "template": ("f", (), True, lambda op: {}),
    "chosen": ("(op if qd.static(True) else None)", (), False, lambda op: {}),
    "returned": ("qd.static(held.get('op'))", (), False, lambda op: {"held": {"op": op}}),
}


def own_name(op: str) -> Way:
    """The name of an operation as programs spell it."""
    of_python = meaning(op) in PYTHON and not hasattr(qd, op)
    home = "" if of_python else "qd.math." if OPS[op].home == "math" else "qd."
    return f"{home}{op.removeprefix('SNode.')}", (), False, lambda op: {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [*VALUES, *STATEMENTS])
def test_by_any_name(op: str) -> None:
    examples = [*STATEMENTS.get(op, ())]
    if op in VALUES:
        examples.append(f"x[i] += {VALUES[op]}")
    for statement in examples:
        want = ir(op, statement, own_name(op))
        for name, way in WAYS.items():
            assert ir(op, statement, way) == want, (name, statement)
