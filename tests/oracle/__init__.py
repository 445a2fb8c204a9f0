"""What a program's values and gradient are, by mathematics: an oracle that shares nothing with the compiler.

It runs the Python source of the kernel itself, in Python, with fields replaced by arrays of taped float64 scalars
and ``qd`` by a small namespace; the tape is then swept backwards. Every float is float64, integers are Python's;
f32 rounding, wrapping of integers and the casts of later assignments to a local are not modelled.

The gradient is the product of the seeds with the Jacobian of all final buffers by all initial buffers. That is what
``kernel.grad()`` leaves in ``.grad`` when the seeds were there before: adjoints add up, and a store consumes its
target's.
"""

import ast
import inspect
import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from oracle.numbers import (
    Tape,
    Var,
    absolute,
    atan2,
    begin,
    ceil,
    floor,
    maximum,
    minimum,
    power,
    primal,
    rounded,
    to_float,
    to_int,
    unary,
)  # fmt: skip
from oracle.structs import Records, copied, matrix_type, record_class, struct, struct_type, vector_type
from oracle.vectors import Vec, Window, lifted, of_size, vector


class Cells:
    """A field or ndarray: row-major values, taped where they are floats; ``element`` is the shape of its elements,
    which are the last axes of ``array``."""

    __qd_oracle__ = True

    def __init__(self, name: str, array: np.ndarray, grad: bool, element: tuple[int, ...] = ()) -> None:
        self.name = name
        self.element = element
        self.whole = array.shape
        self.shape = array.shape[: array.ndim - len(element)]
        self.kind = array.dtype.kind
        self.grad_kept = grad
        flat = array.reshape(-1).tolist()
        self.cells = [Var(float(v)) for v in flat] if self.kind == "f" else flat
        self.initial = list(self.cells)

    def _at(self, index) -> int:
        index = () if index is None else tuple(index) if isinstance(index, (tuple, Vec)) else (index,)
        flat = 0
        assert len(index) == len(self.shape), f"{self.name} has {len(self.shape)} axes"
        for i, n in zip(index, self.shape, strict=True):
            if not 0 <= i < n:
                raise IndexError(f"{self.name}{list(index)} of shape {self.shape}")
            flat = flat * n + i
        return flat

    def __getitem__(self, index):
        at = self._at(index)
        if not self.element:
            return self.cells[at]
        size = math.prod(self.element)
        return Vec(self.element, Window(_Writer(self), range(at * size, at * size + size)))

    def __setitem__(self, index, value) -> None:
        if self.element:
            self[index].fill(value)
        else:
            self.put(self._at(index), value)

    def put(self, at: int, value) -> None:
        if self.kind != "f":
            value = bool(value) if self.kind == "b" else to_int(64)(value)
        elif type(value) is not Var or not self.grad_kept:
            value = Var(float(primal(value)))
        self.cells[at] = value

    def __iter__(self):
        if len(self.shape) == 1:
            return iter(range(self.shape[0]))
        return itertools.product(*map(range, self.shape))

    def values(self) -> np.ndarray:
        flat = [primal(v) for v in self.cells]
        return np.array(flat, {"f": np.float64, "b": np.bool_}.get(self.kind, np.int64)).reshape(self.whole)


class _Writer:
    """Writes each cell of a field as the field itself does."""

    def __init__(self, cells: Cells) -> None:
        self.of = cells

    def __getitem__(self, k):
        return self.of.cells[k]

    def __setitem__(self, k, value) -> None:
        self.of.put(k, value)


def _atomic(combine: Callable):
    combine = lifted(combine)

    def apply(target, value):
        cells, index = target
        if isinstance(index, str):
            old = copied(getattr(cells, index))
            setattr(cells, index, combine(old, value))
        else:
            old = copied(cells[index])
            cells[index] = combine(old, value)
        return old

    return apply


def grouped(space):
    return (vector(i if isinstance(i, tuple) else (i,)) for i in space)


def ndrange(*axes):
    ranges = [range(*a) if isinstance(a, (tuple, list)) else range(a) for a in axes]
    return iter(ranges[0]) if len(ranges) == 1 else itertools.product(*ranges)


def frexp(x):
    exponent = math.frexp(primal(x))[1]
    return x * 2.0**-exponent, exponent


_INTS = {f"{'i' if s else 'u'}{b}": to_int(b, s) for b in (8, 16, 32, 64) for s in (True, False)}

OPERATIONS = {
    "sin": unary(np.sin, lambda a, r: np.cos(a)),
    "cos": unary(np.cos, lambda a, r: -np.sin(a)),
    "tan": unary(np.tan, lambda a, r: 1 / np.cos(a) ** 2),
    "asin": unary(np.arcsin, lambda a, r: 1 / np.sqrt(1 - a * a)),
    "acos": unary(np.arccos, lambda a, r: -1 / np.sqrt(1 - a * a)),
    "tanh": unary(np.tanh, lambda a, r: 1 / np.cosh(a) ** 2),
    "exp": unary(np.exp, lambda a, r: r),
    "log": unary(np.log, lambda a, r: 1 / a),
    "log1p": unary(np.log1p, lambda a, r: 1 / (1 + a)),
    "sqrt": unary(np.sqrt, lambda a, r: 0.5 / r),
    "rsqrt": unary(lambda a: 1 / np.sqrt(a), lambda a, r: -0.5 * r / a),
    "atan2": atan2,
    "pow": power,
    "floor": floor,
    "ceil": ceil,
    "round": rounded,
    "abs": absolute,
    "min": minimum,
    "max": maximum,
    "select": lambda c, a, b: a if c else b,
    "cast": lambda x, dtype: dtype(x),
    "static": lambda *x: x[0] if len(x) == 1 else x,
    "ndrange": ndrange,
    "grouped": grouped,
    "Vector": vector,
    "Matrix": vector,
    "zero": lambda x: 0.0 if isinstance(x, (Var, float)) else 0,
    "one": lambda x: 1.0 if isinstance(x, (Var, float)) else 1,
    "frexp": frexp,
    "assume_in_range": lambda x, base, low, high: x,
    "atomic_add": _atomic(lambda a, b: a + b),
    "atomic_sub": _atomic(lambda a, b: a - b),
    "atomic_mul": _atomic(lambda a, b: a * b),
    "atomic_min": _atomic(minimum),
    "atomic_max": _atomic(maximum),
    "atomic_and": _atomic(lambda a, b: a & b),
    "atomic_or": _atomic(lambda a, b: a | b),
    "atomic_xor": _atomic(lambda a, b: a ^ b),
    "loop_config": lambda **options: None,
    "f16": to_float,
    "f32": to_float,
    "f64": to_float,
    "u1": bool,
    **_INTS,
}

_ALONE = ("static", "ndrange", "grouped", "Vector", "Matrix", "zero", "one", "frexp", "loop_config")
OPERATIONS = {k: v if k in _ALONE or k.startswith("atomic_") else lifted(v) for k, v in OPERATIONS.items()}
OPERATIONS["math"] = SimpleNamespace(
    **{f"vec{n}": of_size(n, to_float) for n in (2, 3, 4)}, **{f"ivec{n}": of_size(n, to_int(32)) for n in (2, 3, 4)}
)

OPERATIONS["types"] = SimpleNamespace(struct=struct_type, vector=vector_type, matrix=matrix_type)
OPERATIONS |= {"dataclass": record_class, "Struct": struct, "func": lambda fn: fn}

_BUILTINS = {
    "abs": lifted(absolute),
    "min": lifted(minimum),
    "max": lifted(maximum),
    "pow": lifted(power),
    "round": lifted(rounded),
    "int": lifted(to_int(32)),
    "float": lifted(to_float),
    "print": lambda *parts: None,
}


class _Rewrite(ast.NodeTransformer):
    """Decorators and annotations away; the target of an atomic becomes (array, index); what an augmented assignment
    adds to an element is computed before the element is read, where Python reads first."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.decorator_list = []
        node.returns = None
        for a in node.args.args:
            a.annotation = None
        own = [a.arg for a in node.args.args if a.arg != "self"]  # a method changes the struct that it is called on
        node.body = [ast.parse(f"{a} = _copied({a})").body[0] for a in own] + node.body
        return node

    def visit_Assign(self, node):
        self.generic_visit(node)
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else None
        if parts is None:
            node.value = _call_of("_copied", node.value)
        else:
            node.value.elts = [_call_of("_copied", p) for p in parts]
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        named = isinstance(node.func, ast.Attribute) and node.func.attr.startswith("atomic_")
        if named and isinstance(node.args[0], ast.Subscript):
            target = node.args[0]
            node.args[0] = ast.Tuple([target.value, target.slice], ast.Load())
        elif named and isinstance(node.args[0], ast.Attribute):
            target = node.args[0]
            node.args[0] = ast.Tuple([target.value, ast.Constant(target.attr)], ast.Load())
        return node

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if not isinstance(node.target, ast.Subscript):
            return node
        combine = ast.parse("lambda a, b: a + b", mode="eval").body
        combine.body.op = node.op
        arguments = [node.target.value, node.target.slice, combine, node.value]
        return ast.Expr(ast.Call(ast.Name("_augment", ast.Load()), arguments, []))


def _call_of(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _augment(cells: Cells, index, combine: Callable, value) -> None:
    cells[index] = combine(cells[index], value)


def _load(fn: Callable | str, space: dict) -> Callable:
    """Compiles the function again in the namespace ``space``."""
    source = fn if isinstance(fn, str) else inspect.getsource(fn)
    tree = _Rewrite().visit(ast.parse(textwrap.dedent(source)))
    ast.fix_missing_locations(tree)
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    exec(compile(tree, "<oracle>", "exec"), space)
    return space[names[-1]]


@dataclass
class Outcome:
    """``values``: final buffers. ``grads``: as left in ``.grad``; ``scales``: the same with every contribution
    taken as absolute. ``margin``, ``largest``: see `Tape`. ``finite``: no inf or NaN was met anywhere."""

    values: dict[str, np.ndarray]
    grads: dict[str, np.ndarray] = field(default_factory=dict)
    scales: dict[str, np.ndarray] = field(default_factory=dict)
    returned: object = None
    margin: float = math.inf
    largest: float = 0.0
    finite: bool = True


def run_oracle(
    fn: Callable | str,
    fields: Mapping[str, np.ndarray],
    needs_grad: Sequence[str] | set[str] = (),
    seeds: Mapping[str, np.ndarray] | None = None,
    *,
    funcs: Sequence[Callable | str] = (),
    scalars: Mapping[str, object] | None = None,
    elements: Mapping[str, tuple[int, ...]] | None = None,
    definitions: str = "",
    structs: Mapping[str, str] | None = None,
    limit: int = 2_000_000,
) -> Outcome:
    """Runs ``fn`` (a function, or source text whose last function it is) once over copies of ``fields``.

    Parameters of ``fn`` are taken by name from ``scalars`` and ``fields``; other names from ``fields`` and, if ``fn``
    is a function, its globals that are plain numbers or lists. ``seeds[name]`` is what is in ``name.grad``; absent
    means zeros. ``elements``: the shapes of the elements of fields of vectors and matrices. "b.r" names member r of a
    field b of structs, of the type ``structs["b"]`` if that is given; ``definitions``: statements that define types.
    Raises `Budget` beyond ``limit`` scalar operations.
    """
    tape = begin(limit)
    elements = elements or {}
    cells = {n: Cells(n, np.asarray(a), n in needs_grad, elements.get(n, ())) for n, a in fields.items()}
    for name, c in cells.items():
        c.grad = cells.get(f"{name}.grad")
    space = {**_BUILTINS, "_augment": _augment, "_copied": copied}
    for f in (fn, *funcs):
        if callable(f):
            space.update({k: v for k, v in f.__globals__.items() if isinstance(v, (int, float, list))})
    space.update(qd=SimpleNamespace(**OPERATIONS), real=to_float)
    if definitions:
        tree = ast.fix_missing_locations(_Rewrite().visit(ast.parse(definitions)))
        exec(compile(tree, "<types>", "exec", dont_inherit=True), space)
    views = _grouped(cells, {name: space[kind].methods for name, kind in (structs or {}).items()})
    space.update(views)
    for f in funcs:
        _load(f, space)
    main = _load(fn, space)
    given = {**views, **(scalars or {})}
    with np.errstate(all="ignore"):
        returned = main(*(given[p] for p in inspect.signature(main).parameters))
        outcome = Outcome({name: c.values() for name, c in cells.items()}, returned=primal(returned))
        outcome.margin, outcome.largest, outcome.finite = tape.margin, tape.largest, tape.finite
        _sweep(tape, cells, needs_grad, seeds or {}, outcome)
    return outcome


def _grouped(cells: dict[str, Cells], methods: dict[str, dict]) -> dict[str, Cells | Records]:
    """The fields by name, members of structs together."""
    out: dict = {}
    for name, c in cells.items():
        *path, last = name.removesuffix(".grad").split(".")
        if path and not name.endswith(".grad"):
            out.setdefault(path[0], Records({}, methods.get(path[0]))).members[last] = c
        else:
            out[name] = c
    return out


def _sweep(tape: Tape, cells: Mapping[str, Cells], needs_grad, seeds, outcome: Outcome) -> None:
    adjoint = [0.0] * len(tape.nodes)
    absolute = [0.0] * len(tape.nodes)
    for name in needs_grad:
        if name in seeds:
            for var, seed in zip(cells[name].cells, np.asarray(seeds[name]).reshape(-1).tolist(), strict=True):
                adjoint[var.k] += seed
                absolute[var.k] += abs(seed)
    for k in range(len(tape.nodes) - 1, -1, -1):
        scale = absolute[k]
        if scale == 0.0:
            continue
        g, operands = adjoint[k], tape.nodes[k]
        for i in range(0, len(operands), 2):
            o, d = operands[i], operands[i + 1]
            adjoint[o] += g * d
            absolute[o] += scale * abs(d)
    for name in needs_grad:
        c = cells[name]
        outcome.grads[name] = np.array([adjoint[v.k] for v in c.initial]).reshape(c.whole)
        outcome.scales[name] = np.array([absolute[v.k] for v in c.initial]).reshape(c.whole)
        if not np.isfinite(outcome.scales[name]).all():
            outcome.finite = False
