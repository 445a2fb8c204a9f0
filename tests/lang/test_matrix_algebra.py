"""Matrix algebra and the library of vector functions in kernels, against numpy, in values and gradients.

Each row of `CASES` is an expression of a kernel over its parameters and what numpy computes for it in float64. The
gradient of a random weighting of the results is compared with central differences of the numpy function.
"""

import numpy as np
import pytest
from running import FakeField, define, way
from sessions import NIGHT

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import function_source
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f64
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.interpret.interpreter import interpret

RNG = np.random.default_rng(7)


def flat(x) -> np.ndarray:
    parts = x if isinstance(x, tuple) else (x,)
    return np.concatenate([np.asarray(p, np.float64).reshape(-1) for p in parts])


def element(shape, fp, count, grad=False):
    if shape == ():
        return qd.field(fp, shape=count, needs_grad=grad)
    if len(shape) == 1:
        return qd.Vector.field(shape[0], fp, shape=count, needs_grad=grad)
    return qd.Matrix.field(*shape, fp, shape=count, needs_grad=grad)


def text_of(fn, count, inputs, outs):
    """The module of a func and a kernel that puts its results for each x0[i], x1[i], ... into y0[i], y1[i], ..."""
    parameters, _, expression = fn.partition(": ")
    names = ", ".join(f"r{k}" for k in range(outs))
    body = expression.strip().replace("\n", "\n    ") if "\n" in expression else f"{names} = {expression}"
    text = f"def f({parameters}):\n    {body}\n    return {names}\n\n\ndef kernel():\n    for i in range({count}):\n"
    text += f"        {names} = f({', '.join(f'x{k}[i]' for k in range(inputs))})\n"
    return text + "".join(f"        y{k}[i] = r{k}\n" for k in range(outs))


def interpreted(fn, inputs, outs, weights):
    """What `launch` gives, by the interpreter, in float64; every pass is verified."""
    count = len(inputs[0])
    arrays = {f"x{k}": a.astype(np.float64) for k, a in enumerate(inputs)}
    arrays |= {f"y{k}": np.zeros((count, *s)) for k, s in enumerate(outs)}
    made = define(text_of(fn, count, len(inputs), len(outs)))
    space = made["kernel"].__globals__
    for name, a in arrays.items():
        shape, element = a.shape[:1], a.shape[1:]
        space[name] = FakeField(f64, shape, FakeField(f64, shape, element_shape=element), "", element)
    space.update(qd=qd, f=qd.func(made["f"]))
    options = CompileOptions(default_fp=f64, verify=True)
    lowered = lower(function_source(made["kernel"]), [], options).kernel
    interpret(make_ir(lowered, "forward", options), {}, arrays)
    grads = {f"x{k}.grad": np.zeros_like(a) for k, a in enumerate(inputs)}
    seeds = {f"y{k}.grad": np.array(np.broadcast_to(w, (count, *w.shape))) for k, w in enumerate(weights)}
    reverse = make_ir(lowered, "reverse", options)
    assert not any(isinstance(s, N.AdStackAlloca) for s in walk(reverse.body)), "iterations need no stacks"
    interpret(reverse, {}, {**{n: a.copy() for n, a in arrays.items()}, **grads, **seeds})
    return [arrays[f"y{k}"] for k in range(len(outs))], list(grads.values())


def launch(fn, inputs, outs, weights=None, fp=qd.f64, arch="cpu"):
    """Results of ``fn`` ("parameters: expression", or statements that make r0, r1, ...) on every row of ``inputs``
    and, with ``weights``, the gradients of their weighted sum."""
    qd.init(arch=arch, simulate=True, enable_fallback=False, default_fp=fp, offline_cache=False)
    count = len(inputs[0])
    xs = [element(a.shape[1:], fp, count, True) for a in inputs]
    ys = [element(s, fp, count, True) for s in outs]
    for x, a in zip(xs, inputs, strict=True):
        x.from_numpy(a.astype(fp.numpy))
    made = define(text_of(fn, count, len(xs), len(ys)))
    space = made["kernel"].__globals__
    space.update({f"x{k}": x for k, x in enumerate(xs)}, **{f"y{k}": y for k, y in enumerate(ys)}, qd=qd)
    space["f"] = qd.func(made["f"])
    kernel = qd.kernel(made["kernel"])
    kernel()
    values = [y.to_numpy() for y in ys]
    if weights is None:
        return values, None
    for y, w in zip(ys, weights, strict=True):
        y.grad.from_numpy(np.broadcast_to(w, (count, *w.shape)).astype(fp.numpy))
    kernel.grad()
    return values, [x.grad.to_numpy() for x in xs]


def differences(meaning, row, weights):
    """Central differences of the weighted sum, in float64."""

    def total(args):
        return flat(meaning(*args)) @ flat(tuple(weights))

    out = []
    for k, a in enumerate(row):
        g = np.zeros_like(a)
        for at in np.ndindex(a.shape):
            step = np.zeros_like(a)
            step[at] = 1e-5
            up, down = ([x + step if n == k else x for n, x in enumerate(row)] for step in (step, -step))
            g[at] = (total(up) - total(down)) / 2e-5
        out.append(g)
    return out


def check(fn, meaning, inputs, tol32=3e-5, tol=1e-12, gtol=1e-6):
    want = [meaning(*row) for row in zip(*inputs, strict=True)]
    outs = [np.shape(p) for p in (want[0] if isinstance(want[0], tuple) else (want[0],))]
    weights = [RNG.uniform(0.5, 1.5, s) * RNG.choice([-1, 1], s) for s in outs]
    values, grads = launch(fn, inputs, outs, weights)
    for k, w in enumerate(want):
        got = np.concatenate([v[k].reshape(-1) for v in values])
        np.testing.assert_allclose(got, flat(w), rtol=tol, atol=tol, err_msg=f"row {k}")
        row = [a[k] for a in inputs]
        for g, d in zip(grads, differences(meaning, row, weights), strict=True):
            got, room = g[k].reshape(d.shape), gtol * max(1.0, np.abs(d).max())
            np.testing.assert_allclose(got, d, rtol=0, atol=room, err_msg=f"gradient of row {k}")
    slow, slow_grads = interpreted(fn, [a[:2] for a in inputs], outs, weights)
    for got, want_ in zip([*slow, *slow_grads], [*values, *grads], strict=True):
        np.testing.assert_allclose(got, want_[:2].reshape(got.shape), rtol=1e-9, atol=1e-9, err_msg="interpreted")
    single, _ = launch(fn, inputs, outs, fp=qd.f32)
    for k, w in enumerate(want):
        got = np.concatenate([v[k].reshape(-1) for v in single])
        np.testing.assert_allclose(got, flat(w), rtol=tol32, atol=tol32, err_msg=f"f32, row {k}")


def draw(*shape, count=4, low=-2.0, high=2.0):
    return RNG.uniform(low, high, (count, *shape))


def wide(n, count=4):
    """Matrices far from singular, of both signs of the determinant."""
    m = draw(n, n, count=count)
    u, _, v = np.linalg.svd(m)
    return u @ (np.linspace(1.0, n, n)[::-1, None] * (0.7 + 0.1 * RNG.uniform(size=(count, n, 1))) * v)


def rodrigues(axis, ang):
    x, y, z = axis / np.linalg.norm(axis)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    out = np.eye(4)
    out[:3, :3] = (np.eye(3) + np.sin(ang) * k + (1 - np.cos(ang)) * k @ k).T
    return out


def about(axis, ang):
    return rodrigues(np.eye(3)[axis], ang).T


def complex_of(fn):
    def meaning(*args):
        r = fn(*(a[0] + 1j * a[1] if np.shape(a) else a for a in args))
        return np.array([r.real, r.imag])

    return meaning


def refracted(x, n, eta):
    k = 1 - eta**2 * (1 - (x @ n) ** 2)
    return np.zeros(3) if k < 0 else eta * x - (eta * (x @ n) + np.sqrt(k)) * n


V2, V3, V4 = draw(2), draw(3), draw(4)
W2, W3, W4 = draw(2), draw(3), draw(4)
S = draw()
POS = draw(low=0.3, high=1.0)

CASES = {
    "matmul": ("a, b: a @ b", lambda a, b: a @ b, [draw(2, 3), draw(3, 4)]),
    "matvec": ("a, b: a @ b", lambda a, b: a @ b, [draw(2, 3), V3]),
    "vecmat": ("a, b: a @ b", lambda a, b: a @ b, [V3, draw(3, 2)]),
    "vecvec": ("a, b: a @ b", lambda a, b: a @ b, [V3, W3]),
    "dot": ("a, b: a.dot(b)", lambda a, b: a @ b, [V4, W4]),
    "frobenius": ("a, b: a.frobenius_inner(b)", lambda a, b: (a * b).sum(), [draw(2, 3), draw(2, 3)]),
    "cross3": ("a, b: a.cross(b)", np.cross, [V3, W3]),
    "cross2": ("a, b: a.cross(b)", lambda a, b: a[0] * b[1] - a[1] * b[0], [V2, W2]),
    "outer": ("a, b: a.outer_product(b)", np.outer, [V3, W2]),
    "norm": ("a: a.norm()", np.linalg.norm, [V3]),
    "norm_of_a_matrix": ("a: a.norm()", np.linalg.norm, [draw(2, 3)]),
    "norm_eps": ("a: a.norm(0.5)", lambda a: np.sqrt(a @ a + 0.5), [np.vstack([V3, np.zeros(3)])]),
    "norm_sqr": ("a: a.norm_sqr()", lambda a: a @ a, [V3]),
    "norm_inv": ("a: a.norm_inv()", lambda a: 1 / np.linalg.norm(a), [V3]),
    "normalized": ("a: a.normalized()", lambda a: a / np.linalg.norm(a), [V3]),
    "normalized_eps": ("a: a.normalized(eps=0.5)", lambda a: a / (np.linalg.norm(a) + 0.5), [V3]),
    "transpose": ("a: a.transpose()", lambda a: a.T, [draw(2, 3)]),
    "trace": ("a: a.trace()", np.trace, [draw(3, 3)]),
    "sum": ("a: a.sum()", np.sum, [draw(3, 2)]),
    "max": ("a: a.max()", np.max, [draw(3, 2)]),
    "min": ("a: a.min()", np.min, [V4]),
    "rows": ("a, b: qd.Matrix.rows([a, b])", lambda a, b: np.array([a, b]), [V3, W3]),
    "cols": ("a, b: qd.Matrix.cols([a, b])", lambda a, b: np.array([a, b]).T, [V3, W3]),
    "diag": ("a: qd.Matrix.diag(3, a)", lambda a: a * np.eye(3), [S]),
    "identity": ("a: qd.Matrix.identity(float, 2) * a", lambda a: a * np.eye(2), [S]),
    "eye": ("a: qd.math.eye(3) * a", lambda a: a * np.eye(3), [S]),
    "zero_one_unit": (
        "a: qd.Vector.zero(float, 3) + qd.Vector.one(float, 3) * a + qd.Vector.unit(3, 1)",
        lambda a: a + np.array([0, 1, 0]), [S],
    ),
    "inverse1": ("a: a.inverse()", np.linalg.inv, [wide(1)]),
    "inverse2": ("a: a.inverse()", np.linalg.inv, [wide(2)]),
    "inverse3": ("a: qd.math.inverse(a)", np.linalg.inv, [wide(3)]),
    "inverse4": ("a: a.inverse()", np.linalg.inv, [wide(4)]),
    "determinant1": ("a: a.determinant()", np.linalg.det, [draw(1, 1)]),
    "determinant2": ("a: a.determinant()", np.linalg.det, [draw(2, 2)]),
    "determinant3": ("a: qd.math.determinant(a)", np.linalg.det, [draw(3, 3)]),
    "determinant4": ("a: a.determinant()", np.linalg.det, [draw(4, 4)]),
    "solve2": ("a, b: qd.solve(a, b)", np.linalg.solve, [wide(2), V2]),
    "solve3": ("a, b: qd.solve(a, b)", np.linalg.solve, [wide(3), V3]),
    "solve5": ("a, b: qd.solve(a, b)", np.linalg.solve, [wide(5), draw(5)]),
    "length": ("a: qd.math.length(a)", np.linalg.norm, [V3]),
    "distance": ("a, b: qd.math.distance(a, b)", lambda a, b: np.linalg.norm(a - b), [V3, W3]),
    "normalize": ("a: qd.math.normalize(a)", lambda a: a / np.linalg.norm(a), [V2]),
    "math_dot": ("a, b: qd.math.dot(a, b)", np.dot, [V3, W3]),
    "math_cross": ("a, b: qd.math.cross(a, b)", np.cross, [V3, W3]),
    "reflect": ("a, b: qd.math.reflect(a, b)", lambda a, b: a - 2 * (a @ b) * b, [V3, W3]),
    "refract": ("a, b, e: qd.math.refract(a, b, e)", refracted, [
        np.array([[0.6, -0.8, 0.0], [0.6, -0.8, 0.0], [0.0, -1.0, 0.0]]), np.tile([0.0, 1.0, 0.0], (3, 1)),
        np.array([0.7, 2.0, 1.3])]),
    "clamp": ("a: qd.math.clamp(a, -1.0, 0.7)", lambda a: np.clip(a, -1, 0.7), [V4]),
    "mix": ("a, b, t: qd.math.mix(a, b, t)", lambda a, b, t: a * (1 - t) + b * t, [V3, W3, S]),
    "mod": ("a: qd.math.mod(a, 0.75)", lambda a: np.mod(a, 0.75), [V3]),
    "fract": ("a: qd.math.fract(a)", lambda a: a - np.floor(a), [V3]),
    "step": ("a: qd.math.step(0.1, a) * a", lambda a: (a >= 0.1) * a, [V3]),
    "smoothstep": (
        "a: qd.math.smoothstep(-1.0, 1.5, a)", lambda a: (t := np.clip((a + 1) / 2.5, 0, 1)) ** 2 * (3 - 2 * t), [V4]
    ),
    "sign": ("a: qd.math.sign(a) * a", np.abs, [V3]),
    "log2": ("a: qd.math.log2(a)", np.log2, [draw(3, low=0.5)]),
    "degrees": ("a: qd.math.radians(qd.math.degrees(a))", lambda a: a, [V3]),
    "sin": ("a: qd.sin(a)", np.sin, [draw(2, 2)]),
    "atan2": ("a, b: qd.math.atan2(a, b)", np.arctan2, [V3, W3]),
    "pow": ("a: qd.pow(a, 3)", lambda a: a**3, [V3]),
    "vdir": ("a: qd.math.vdir(a)", lambda a: np.array([np.cos(a), np.sin(a)]), [S]),
    "rotation2d": (
        "a: qd.math.rotation2d(a)", lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]), [S],
    ),
    "rot_by_axis": ("a, t: qd.math.rot_by_axis(a, t)", rodrigues, [V3, S]),
    "rotation3d": (
        "x, y, z: qd.math.rotation3d(x, y, z)", lambda x, y, z: (about(1, z) @ about(0, x) @ about(2, y)).T,
        [S, S[::-1].copy(), POS],
    ),
    "rot_yaw_pitch_roll": (
        "y, p, r: qd.math.rot_yaw_pitch_roll(y, p, r)",
        lambda y, p, r: (about(1, y) @ about(0, p) @ about(2, r)).T, [S, S[::-1].copy(), POS],
    ),
    "translate": (
        "x, y, z: qd.math.translate(x, y, z)", lambda x, y, z: np.eye(4) + np.outer([x, y, z, 0], np.eye(4)[3]),
        [S, S + 1, POS],
    ),
    "scale": ("x, y, z: qd.math.scale(x, y, z)", lambda x, y, z: np.diag([x, y, z, 1.0]), [S, S + 1, POS]),
    "cconj": ("z: qd.math.cconj(z)", complex_of(np.conj), [V2]),
    "cmul": ("z, w: qd.math.cmul(z, w)", complex_of(np.multiply), [V2, W2]),
    "cdiv": ("z, w: qd.math.cdiv(z, w)", complex_of(np.divide), [V2, W2]),
    "cinv": ("z: qd.math.cinv(z)", complex_of(lambda z: 1 / z), [V2]),
    "cexp": ("z: qd.math.cexp(z)", complex_of(np.exp), [V2]),
    "clog": ("z: qd.math.clog(z)", complex_of(np.log), [V2]),
    "cpow": ("z, n: qd.math.cpow(z, n)", complex_of(lambda z, n: z**n), [V2, S]),
    "csqrt": ("z: qd.math.csqrt(z)", complex_of(np.sqrt), [V2]),
    "swizzles": ("v: v.zx + v.yy * v.x", lambda v: v[[2, 0]] + v[1] * v[0], [V3]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    fn, meaning, inputs = CASES[name]
    check(fn, meaning, inputs)


@qd.kernel
def constants(x: float) -> qd.types.vector(3, qd.f64):
    y = qd.f64(x)
    return qd.Vector([qd.math.log2(y), qd.math.degrees(y), qd.math.radians(y)])


def test_constants_of_formulas_have_the_dtype_of_the_argument():
    qd.init(arch=qd.cpu, default_fp=qd.f32)
    want = [np.log2(3.0), np.degrees(3.0), np.radians(3.0)]
    np.testing.assert_allclose(constants(3.0).to_numpy(), want, rtol=1e-15)


@pytest.mark.parametrize("name", list(CASES) if NIGHT else list(CASES)[::3])
@pytest.mark.parametrize(("arch", "fp"), [way("vulkan", f64), way("metal", qd.f32)])
def test_backend(name, arch, fp):
    fn, meaning, inputs = CASES[name]
    one = meaning(*(a[0] for a in inputs))
    outs = [np.shape(p) for p in (one if isinstance(one, tuple) else (one,))]
    weights = [np.ones(s) for s in outs]
    want, slopes = launch(fn, inputs, outs, weights, fp)
    got, gradients = launch(fn, inputs, outs, weights, fp, arch)
    tol = 1e-12 if fp is qd.f64 else 1e-4
    for a, b in zip([*got, *gradients], [*want, *slopes], strict=True):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(1.0, np.abs(b).max()))
