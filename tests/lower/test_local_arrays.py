"""Random programs over local vectors and matrices at indices of the run time, which may be out of them: in memory they
give what they give in SSA, by the interpreter and on the CPU, gradients included."""

import linecache
import os
import random

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.backends.lower import local_arrays
from quadrants_lab.backends.lower.local_arrays import arrays as arrays_, lower_local_arrays
from quadrants_lab.ir.nodes import Loop
from quadrants_lab.ir.verify import verify
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.interpret.interpreter import interpret
from quadrants_lab.runtime.record.inspect import compiled_plan

N = 13
SEEDS = range(400) if os.environ.get("QL_NIGHTLY") else (*range(16), 31, 75)  # the last have operations of two accesses


class Text:
    """A kernel over x (integers) and f (reals), which writes y and z. To an index that may be out of bounds an
    element of o is added, which is 0: the compiler refuses what it can prove to be out of them."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.whole = ["u", "i"]
        lanes = ["    qd.loop_config(lanes=8)"] * (seed % 2)  # of which each has its arrays
        self.lines = ["@qd.kernel", "def k():", *lanes, "    for i in x:", "        u, v = x[i], f[i]"]
        self.arrays: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name in ("a", "b", "m")[: self.r.choice((1, 2, 2, 3))]:
            t = self.r.choice("if")
            shape = self.r.choice(((3, 3), (2, 5), (4, 2)) if name == "m" else ((8,), (9,), (16,)))
            self.arrays[name] = t, shape
            rows = [[self.literal(t) for _ in range(shape[-1])] for _ in range(shape[0])]
            made = f"qd.Matrix({rows})" if name == "m" else f"qd.Vector({rows[0]})"
            self.lines.append(f"        {name} = {made}")
        self.block(2, 8, 2)
        ends = " + ".join(f"{self.element(name)} * 1.0" for name in self.arrays for _ in range(2))
        self.lines += [f"        y[i] = v + {ends}", "        z[i] = u"]

    def literal(self, t: str) -> float:
        return self.r.randint(-3, 9) if t == "i" else self.r.randint(-6, 6) / 4

    def element(self, name: str) -> str:
        def at(n: int) -> str:
            u = self.r.choice(self.whole)
            known = str(self.r.randrange(n)), f"{u} % {n}", f"qd.min(qd.max({u}, 0), {n - 1})"
            return self.r.choice((*known, f"{u} + o[i]"))

        return f"{name}[{', '.join(at(n) for n in self.arrays[name][1])}]"

    def value(self, t: str) -> str:
        known = [name for name, (dtype, _) in self.arrays.items() if dtype == t]
        u = self.r.choice(self.whole)
        others = [f"({u} * 3 + 1) % 17", f"{u} - 2"] if t == "i" else ["v * 0.5 + 0.25"]
        if known and self.r.random() < 0.6:
            return self.element(self.r.choice(known))
        return str(self.r.choice([*others, self.literal(t)]))

    def block(self, depth: int, most: int, indent: int) -> None:
        r, pad = self.r, "    " * indent
        self.lines.append(f"{pad}v = v * 1.0")
        for _ in range(r.randint(2, most)):
            name = r.choice(list(self.arrays))
            t, _ = self.arrays[name]
            same = [b for b in self.arrays if b != name and self.arrays[b] == self.arrays[name]]
            match r.choice(("write", "write", "write", "u", "v", "swap", "copy", "if", "for", "for", "while")):
                case "write":
                    self.lines.append(f"{pad}{self.element(name)} {r.choice(('=', '+='))} {self.value(t)}")
                case "u":
                    self.lines.append(f"{pad}u = ({self.value('i')}) % 23")
                case "v":
                    self.lines.append(f"{pad}v = {self.value('f')}")
                case "swap":
                    parts = [self.element(name) for _ in range(4)]
                    self.lines.append(f"{pad}{parts[0]}, {parts[1]} = {parts[2]}, {parts[3]}")
                case "copy" if same:
                    self.lines.append(f"{pad}{name} = {r.choice(same)}")
                case "if" if depth:
                    self.lines.append(f"{pad}if {self.value('i')} > {r.randint(-1, 6)}:")
                    self.block(depth - 1, 4, indent + 1)
                    self.lines.append(f"{pad}else:")
                    self.block(depth - 1, 4, indent + 1)
                case "for" | "while" as kind if depth:
                    j = f"j{len(self.lines)}"
                    if kind == "for":
                        ends = "u % 5", "3", "i % 4", f"{self.element(name)} % 4" if t == "i" else "2"
                        self.lines.append(f"{pad}for {j} in range({r.choice(ends)}):")
                    else:
                        self.lines += [f"{pad}{j} = 0", f"{pad}while {j} < 3 and u < 19:", f"{pad}    {j} += 1"]
                    self.whole.append(j)
                    self.block(depth - 1, 5, indent + 1)
                    self.whole.remove(j)
                    if r.random() < 0.3:
                        self.lines.append(f"{pad}    if {self.value('i')} > 5: {r.choice(('break', 'continue'))}")


def kernel_of(seed: int, **names):
    lines = [f"{line}\n" for line in Text(seed).lines]
    file = f"local_arrays_{seed}.py"
    linecache.cache[file] = len(lines), None, lines, file
    space = {"qd": qd, **names}
    exec(compile("".join(lines), file, "exec"), space)
    return space["k"]


@pytest.fixture(autouse=True)
def session():
    qd.init(arch=qd.cpu, offline_cache=False, fast_math=False)
    yield
    qd.reset()


def fields():
    x, z, o = (qd.field(qd.i32, shape=N) for _ in range(3))
    f, y = (qd.field(qd.f32, shape=N, needs_grad=True) for _ in range(2))
    rng = np.random.default_rng(1)
    x.from_numpy(rng.integers(-3, 20, N).astype(np.int32))
    f.from_numpy((rng.integers(-8, 8, N) / 4).astype(np.float32))
    return {"x": x, "f": f, "y": y, "z": z, "o": o}


@pytest.mark.filterwarnings("ignore::quadrants_lab.QuadrantsWarning")
@pytest.mark.parametrize("part", range(4))
def test_memory_gives_what_selects_give(part, monkeypatch) -> None:
    monkeypatch.setattr(arrays_, "LEAST_TABLE", local_arrays.FEWEST)
    used = fields()
    given = {name: field.to_numpy() for name, field in used.items()}
    put_in_memory = 0
    for seed in SEEDS[part::4]:
        found = []
        for fewest in (local_arrays.FEWEST, 1 << 30):
            with monkeypatch.context() as patched:
                patched.setattr(local_arrays, "FEWEST", fewest)
                for name, field in used.items():
                    field.from_numpy(given[name])
                k = kernel_of(seed, **used)
                k()
                values = [used[name].to_numpy() for name in ("y", "z")]
                used["f"].grad.fill(0)
                used["y"].grad.fill(1)
                k.grad()
            found.append([*values, used["f"].grad.to_numpy()])
        kernel = compiled_plan(k.dispatcher).kernel
        lowered = lower_local_arrays(kernel)
        verify(lowered)
        put_in_memory += lowered is not kernel
        arrays = {name: array.copy() for name, array in given.items()}
        interpret(lowered, None, arrays)
        for as_memory, as_values in zip((*found[0], arrays["y"], arrays["z"]), (*found[1], *found[1][:2]), strict=True):
            np.testing.assert_array_equal(as_memory, as_values, f"seed {seed}")
    assert put_in_memory >= len(SEEDS) // 16


@pytest.mark.parametrize("size", [1, 3, 9])
def test_equal_elements_add_up_in_a_gradient(size) -> None:
    """Of an element that occurs several times in a vector, each read and write has its share, in both modes."""
    x = qd.field(qd.i32, shape=N)
    f, y = (qd.field(qd.f64, shape=N, needs_grad=True, needs_dual=True) for _ in range(2))
    x.from_numpy(np.arange(N, dtype=np.int32))
    f.from_numpy(np.linspace(0.5, 2.0, N))

    @qd.kernel
    def k():
        for i in x:
            a, total = f[i] * f[i], f[i] * 0.0
            v = qd.Vector([a if k % 3 else 2.0 * a for k in range(size)])
            for j in range(x[i] % 4 + 2):
                total += v[(j + x[i]) % size] * (j + 1)
                v[(j * x[i]) % size] = v[j % size] + a
            y[i] = total

    def plain(i: int, a: float) -> float:
        v, total = [a if k % 3 else 2.0 * a for k in range(size)], 0.0
        for j in range(i % 4 + 2):
            total += v[(j + i) % size] * (j + 1)
            v[(j * i) % size] = v[j % size] + a
        return total

    k()
    y.grad.fill(1.0)
    k.grad()
    given = f.to_numpy()
    np.testing.assert_allclose(y.to_numpy(), [plain(i, a * a) for i, a in enumerate(given)])
    slopes = [2.0 * a * plain(i, 1.0) for i, a in enumerate(given)]  # it is linear in the square
    np.testing.assert_allclose(f.grad.to_numpy(), slopes)
    with qd.ad.FwdMode(loss=y, param=f, seed=[1.0] * N):
        k()
    np.testing.assert_allclose(y.dual.to_numpy(), slopes)


def test_elements_bound_loops_that_carry_their_array() -> None:
    x = qd.field(qd.i32, shape=N)
    x.from_numpy(np.arange(N, dtype=np.int32))

    @qd.kernel
    def k():
        for i in x:
            a = qd.Vector([0 for _ in range(9)])
            for j in range(x[i] % 5 + 1):
                a[j] = j + i % 4
                for m in range(a[0], a[2]):
                    a[(m + j) % 9] += a[0] + m
            x[i] = a[0] + 3 * a[1] - a[2]

    def plain(i: int) -> int:
        a = [0] * 9
        for j in range(i % 5 + 1):
            a[j] = j + i % 4
            for m in range(a[0], a[2]):
                a[(m + j) % 9] += a[0] + m
        return a[0] + 3 * a[1] - a[2]

    assert any(b.kind == "private" for b in lowered_by_rule(k).buffers.values())
    assert x.to_numpy().tolist() == [plain(i) for i in range(N)]


def lowered_by_rule(k):
    k()
    return lower_local_arrays(compiled_plan(k.dispatcher).kernel)


def test_a_stack_and_an_elimination_carry_no_elements() -> None:
    x = qd.field(qd.i32, shape=N)

    @qd.kernel
    def stack():
        for i in x:
            kept = qd.Vector([0 for _ in range(64)])
            top = 1
            while top > 0:
                top -= 1
                x[i] += kept[top]
                if x[i] < 5:
                    kept[top] = x[i] + 1
                    top += 1

    @qd.kernel
    def elimination():
        for i in x:
            a = qd.Matrix([[1.0 / (r + c + 1) for c in range(size)] for r in range(size)])
            for p in range(size):
                for r in range(p + 1, size):
                    by = a[r, p] / a[p, p]
                    for c in range(p, size):
                        a[r, c] -= by * a[p, c]
            x[i] = qd.cast(a[size - 1, size - 1], qd.i32)

    size = 6
    elimination()  # short enough for `unroll_local_arrays`
    assert not any(isinstance(s, Loop) for s in walk(compiled_plan(elimination.dispatcher).kernel.body))
    size = 12
    qd.init(arch=qd.cpu)
    x = qd.field(qd.i32, shape=N)
    for k in (stack, elimination):
        kernel = lowered_by_rule(k)
        assert max(len(s.carried) for s in walk(kernel.body) if hasattr(s, "carried")) <= 1


@pytest.mark.parametrize(
    ("size", "trips", "at", "loops", "dtype"),
    [
        (20, 20, "k", 0, "i32"),  # each index is known once the loops are unrolled
        (20, 2, "(k * x[i]) % size", 2, "i32"),  # the vector lies in memory: both loops stay
        (12, 2, "(k * x[i]) % size", 0, "i32"),  # a short vector
        (20, "x[i]", "k % 20", 2, "i32"),
        (20, "x[i]", "k % 20", 1, "i16"),  # such a vector never lies in memory
        (20, 20, "(k + short[k % 3]) % size", 1, "i32"),  # the loop over the short vector does not stay
        (20, 3, "(k + short[k] * x[i]) % size", 1, "i32"),
    ],
)  # fmt: skip
def test_loops_over_long_vectors_in_memory_are_not_unrolled(size, trips, at, loops, dtype) -> None:
    x, y = (qd.field(qd.i32, shape=N) for _ in range(2))
    x.from_numpy(np.arange(N, dtype=np.int32))
    lines = f"""@qd.kernel
def k():
    for i in x:
        v, short = qd.Vector([0 for _ in range(size)], qd.{dtype}), qd.Vector([i, 1, 2])
        for j in range(size):
            v[j] = qd.cast(j * j + i, qd.{dtype})
        for k in range({trips}):
            y[i] += v[{at}]
""".splitlines(keepends=True)
    file = f"long_vector_{size}_{trips}_{at}_{dtype}.py"
    linecache.cache[file] = len(lines), None, lines, file
    space = {"qd": qd, "x": x, "y": y, "size": size}
    exec(compile("".join(lines), file, "exec"), space)
    space["k"]()
    assert sum(isinstance(s, Loop) for s in walk(compiled_plan(space["k"].dispatcher).kernel.body)) == loops
    expected = []
    for i in range(N):
        v, own = [j * j + i for j in range(size)], {"i": i, "x": range(N), "size": size, "short": [i, 1, 2]}
        expected.append(sum(v[eval(at, own, {"k": k})] for k in range(eval(str(trips), own))))
    assert y.to_numpy().tolist() == expected


@pytest.mark.parametrize(
    "body",
    [
        "if u > 3: v[u] += 1\nelse: v[u] += 2\nv[u] *= 3",
        "v[w] = 0 if u > 3 else v[u]\nv[u] += v[w]",
        "if u > 2 and v[u] > 3 or v[w] > 5: v[w] += 7\nv[u] += v[w]",
        "while v[u] < 9 and v[w] < 7:\n    v[u] += 2\n    v[w] += 1\nv[w] *= 2",
        "for k in range(u):\n    v[u] += v[w]\n    v[k] += 1\nv[w] += v[u]",
        "for k in range(u):\n    if v[w] > 9: break\n    v[w] += v[u]\nv[u] += v[w]",
        "n = 1\nfor k in range(u):\n    n = v[k] * n + v[u]\n    if n > 50: n = v[w]\nv[u] = n + v[w]",
    ],
)
def test_accesses_at_one_index_in_several_blocks(body) -> None:
    x, y = (qd.field(qd.i32, shape=N) for _ in range(2))
    x.from_numpy(np.arange(N, dtype=np.int32))
    inside = "".join(f"        {line}\n" for line in body.splitlines())
    text = f"""def k():
    for i in range({N}):
        u, w = x[i] % 9, (x[i] * 3) % 9
        v = Vector([3, 1, 4, 1, 5, 9, 2, 6, 5])
{inside}        y[i] = v[0] + 2 * v[1] + 3 * v[2] + 5 * v[3] + 7 * v[4] + 11 * v[5] + 13 * v[6] + 17 * v[7] + 19 * v[8]
"""
    expected = {"x": list(range(N)), "y": [0] * N, "Vector": list}
    exec(text, expected)
    expected["k"]()
    file = f"several_blocks_{abs(hash(body))}.py"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {"x": x, "y": y, "Vector": qd.Vector}
    exec(compile(text, file, "exec"), space)
    qd.kernel(space["k"])()
    assert y.to_numpy().tolist() == expected["y"]


def test_a_gradient_that_needs_some_of_the_draws_of_a_loop_has_the_same_numbers() -> None:
    x, y = (qd.field(qd.f32, shape=N, needs_grad=True) for _ in range(2))

    @qd.kernel
    def k():
        for i in x:
            v = qd.Vector([0.0, 0.0, 0.0, 0.0])
            for j in range(4):
                v[j] = qd.random()
            for j in range(4):
                x[i] += v[3 - j]
            y[i] = x[i] * v[2]

    y.grad.fill(1)
    k.value_and_grad()
    np.testing.assert_allclose(x.grad.to_numpy() * x.to_numpy(), y.to_numpy(), rtol=1e-5)


def test_gradients_of_accesses_within_and_out_of_an_array() -> None:
    x, y = (qd.field(qd.f32, shape=N, needs_grad=True) for _ in range(2))
    m = qd.field(qd.i32, shape=N)
    m.from_numpy(np.arange(N, dtype=np.int32) - 3)

    @qd.kernel
    def k():
        for i in x:
            v = qd.Vector([x[i] for _ in range(9)])
            for j in range(m[i] % 3 + 2):
                v[j + m[i]] = 2.0 * v[j * 2 + m[i]] + 0.5 * x[i]
                v[5] += v[m[i]]
            y[i] = v[3] + v[5] + v[8]

    def derivative(at: int) -> float:
        v = [1.0] * 9

        def element(n: int) -> float:
            return v[n] if 0 <= n < 9 else v[8]

        for j in range(at % 3 + 2):
            written = 2.0 * element(j * 2 + at) + 0.5
            if 0 <= j + at < 9:
                v[j + at] = written
            v[5] += element(at)
        return v[3] + v[5] + v[8]

    k()
    y.grad.fill(1)
    k.grad()
    lowered = lower_local_arrays(compiled_plan(k.grad.dispatcher).kernel)
    assert any(b.kind == "private" for b in lowered.buffers.values())
    assert x.grad.to_numpy().tolist() == [derivative(n - 3) for n in range(N)]


def test_few_elements_stay_values() -> None:
    x = qd.field(qd.i32, shape=N)

    @qd.kernel
    def k():
        for i in x:
            v = qd.Vector([i, 1, 2, 3])
            for j in range(x[i]):
                v[j % 4] += v[x[j] % 4]
            x[i] = v[0]

    assert not any(b.kind == "private" for b in lowered_by_rule(k).buffers.values())


def test_constants_that_are_far_apart_are_no_places() -> None:
    x = qd.field(qd.i32, shape=N)

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(3):
                v = 1 if v == 2_000_000_000 else 2 if v == -5 else 3 if v == 1 else 4 if v == 2 else 5 if v == 9 else v
                v = 6 if v == 70_000 else 7 if v == 80_000 else 8 if v == 1_000_000_000 else v
            x[i] = v

    assert not any(b.kind == "private" for b in lowered_by_rule(k).buffers.values())
