"""Random kernels that overwrite what they read, also at places from data: right gradients or an error of a race."""

import random

import numpy as np
import pytest
from oracle.numbers import Budget
from running import Bench, Job, define, differences, f32, f64
from sessions import NIGHT, in_turn, skips

import quadrants_lab as qd

SIZE = 5
FLOATS = {"x": (SIZE,), "z": (SIZE,), "A": (SIZE, SIZE), "y": ()}
OTHERS = ("vulkan", "metal", "cuda", "wasm")
BATCH = 50 if NIGHT else 10  # kernels of one test


class Writer:
    """The text of a kernel over the fields above, the indices ``at`` (0..SIZE-1) and the small counts ``n``."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names = 0

    def kernel(self) -> str:
        lines = ["def k():"]
        for _ in range(self.rng.randint(1, 3)):
            lines += self.serial() if self.rng.random() < 0.5 else self.parallel()
        return "\n".join(lines) + "\n"

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def serial(self) -> list[str]:
        head = ["    for _ in range(1):"]
        return head + self.block([], 2, places=True)

    def parallel(self) -> list[str]:
        """An iteration keeps to its own row, or goes wherever data sends it."""
        i = self.fresh("i")
        anywhere = self.rng.random() < 0.4
        return [f"    for {i} in range({SIZE}):", *self.block([i], 2, places=anywhere)]

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def block(self, indices: list[str], depth: int, places: bool, own: tuple[str, ...] = ()) -> list[str]:
        rng, pad = self.rng, "    " * depth
        out: list[str] = []
        for _ in range(rng.randint(1, 3)):
            way = rng.random()
            inner = (indices, depth + 1, places)
            if way < 0.2 and depth < 4:
                j = self.fresh("j")
                bound = self.pick(str(SIZE), "n[1]", f"n[{indices[0]}]" if indices else "3")
                out.append(f"{pad}for {j} in range({bound}):")
                out += self.block([*indices, j], depth + 1, places, own)
            elif way < 0.35 and depth < 4:
                out.append(f"{pad}if {self.value(indices, places, own)} > {self.pick('0.0113', '-0.2117', '0.1931')}:")
                out += self.block(*inner, own)
                if rng.random() < 0.5:
                    out += [f"{pad}else:", *self.block(*inner, own)]
            elif way < 0.45:
                v = self.fresh("v")
                out.append(f"{pad}{v} = {self.value(indices, places, own)}")
                own = (*own, v)
            elif way < 0.55:
                out.append(f"{pad}y[None] += {self.value(indices, places, own)} * 0.517")
            elif way < 0.65:
                out.append(f"{pad}{self.target(indices, places)} {self.pick('*=', '-=', '+=')} "
                           f"{self.value(indices, places, own)}")  # fmt: skip
            else:
                out.append(f"{pad}{self.target(indices, places)} = {self.value(indices, places, own)}")
        return out

    def place(self, indices: list[str], places: bool) -> str:
        if not places:
            return indices[0]
        choices = [str(self.rng.randrange(SIZE)), *indices, *indices]
        if indices:
            choices += [f"at[{self.pick(*indices)}]", f"({self.pick(*indices)} + 1) % {SIZE}",
                        f"{SIZE - 1} - {self.pick(*indices)}"]  # fmt: skip
        return self.pick(*choices)

    def target(self, indices: list[str], places: bool) -> str:
        second = self.pick(*(indices or ["2"]), "1")
        return self.pick(
            f"x[{self.place(indices, places)}]", f"z[{self.place(indices, places)}]",
            f"A[{self.place(indices, places)}, {second}]",
        )  # fmt: skip

    def value(self, indices: list[str], places: bool, own: tuple[str, ...]) -> str:
        leaves = [self.target(indices, places) for _ in range(2)] + list(own)
        a, b = self.pick(*leaves), self.pick(*leaves)
        return self.pick(
            f"(0.713 * qd.sin({a}) + 0.331 * {b})", f"(qd.cos({a}) * {b})", f"(0.829 * {a} * {b} + 0.113)",
            f"qd.max({a}, 0.257 * {b})",
        )  # fmt: skip


def job(seed: int) -> tuple[Job, str]:
    rng = np.random.default_rng(seed)
    text = Writer(seed).kernel()
    at = rng.permutation(SIZE) if seed % 3 else rng.integers(0, SIZE, SIZE)
    ints = {"at": at.astype(np.int32), "n": rng.integers(0, 4, SIZE).astype(np.int32)}
    floats = {name: np.asarray(rng.uniform(-1, 1, shape)) for name, shape in FLOATS.items()}
    seeds = {name: np.asarray(rng.uniform(0.5, 1.5, shape)) for name, shape in FLOATS.items()}
    return Job(define(text)["k"], (), floats, ints, tuple(FLOATS), seeds), text


def verdict(seed: int, bench: Bench) -> str:
    """right, told, undecided, or what is wrong."""
    made, text = job(seed)
    try:
        outcome = made.oracle(limit=20_000)
    except Budget:
        return "undecided"
    if not (outcome.finite and outcome.margin > 1e-7 and outcome.largest < 1e4):
        return "undecided"
    bench.kernels.clear()
    try:
        got, _ = bench.run(made)
    except (qd.QuadrantsCompilationError, qd.QuadrantsAssertionError) as e:
        told = any(code in str(e) for code in ("QL1706", "QL2075", "QL0401", "QL0408"))
        return "told" if told else f"{text}{e}"
    wrong = differences(made, outcome, got, 1e-9 if bench.fp is f64 else 5e-4, gradient=True)
    return text + "\n".join(wrong) if wrong else "right"


def check(seeds: range, arch: str) -> None:
    """In a checked session, and those that race nowhere in a release build."""
    fp = f32 if arch == "metal" else f64
    bench = Bench(fp, arch, debug=True)
    found = {seed: verdict(seed, bench) for seed in seeds}
    bench = Bench(fp, arch)
    found |= {seed: verdict(seed, bench) for seed, v in found.items() if v == "right"}
    silent = {seed: v for seed, v in found.items() if v not in ("right", "told", "undecided")}
    assert not silent, "\n\n".join(f"# seed {seed}\n{v}" for seed, v in list(silent.items())[:3])
    count = [list(found.values()).count(v) for v in ("right", "told", "undecided")]
    assert count[0] > len(seeds) / 3, f"{count} were right, told, undecided"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(40 if NIGHT else 2))
def test_on_the_cpu(batch: int) -> None:
    check(range(BATCH * batch, BATCH * batch + BATCH), "cpu")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arch", in_turn([pytest.param(a, id=a, marks=skips(a)) for a in OTHERS], OTHERS))
@pytest.mark.parametrize("batch", range(4 if NIGHT else 1))
def test_elsewhere(batch: int, arch: str) -> None:
    start = 10_000 + 1000 * batch
    check(range(start, start + (BATCH if NIGHT else 5)), arch)
