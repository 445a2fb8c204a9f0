"""Sums into neighbouring elements: which tasks run in two colours, and that no sum is lost."""

import numpy as np
import pytest
from rigs.cpu_rig import EXACT, bind, load

from quadrants_lab.backends import cpu
from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.cpu.schedule import CpuSchedule
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.passes.distances import mark_distances

STAR = ["i-1,j", "i+1,j", "i,j-1", "i,j+1", "i,j"]
CUBE = ["i,j,k", "i,j,k+1", "i,j,k-1", "i+1,j,k", "i-1,j+1,k-1"]


def scheduled(kernel: Kernel) -> tuple[int, int, int]:
    """The rows of blocks in two colours, the steps and the lanes of the kernel's only task."""
    (task,) = CpuSchedule(jit.vector_bytes() // 4)(kernel).tasks
    return task.colour_rows, task.fission, task.lanes


class Sums:
    """A kernel that adds ``w[i, j] * (1 + n)`` to the n-th place: index expressions like "i-1,j" or "z:i,8-j",
    behind a "?" those of iterations whose indices have an odd sum, behind a "!" those of the others. "at" is an index
    from memory. The body is ``plain``; or it has a ``sine``, which LLVM makes no vectors of, so much that steps would
    compute ``again``, or a ``stack``."""

    def __init__(self, places, shape=(40, 40), work="plain", index="i32", margin=4, kind="field", dtype="f64") -> None:
        self.places, self.shape, self.margin, self.index = places, shape, margin, index
        self.axes = {p: f"%{3 + n}" for n, p in enumerate("ijk"[: len(shape)])}
        self.lines: list[str] = []
        self.n = 100
        own = ", ".join(self.axes.values())
        weight, zero = self.let(dtype, f"load @w[{own}]"), self.let(dtype, "const 0.0")
        if work == "sine":
            nothing = self.let(dtype, "mul", weight, zero)
            weight = self.let(dtype, "add", weight, self.let(dtype, "sin", nothing))
        for _ in range(20 if work == "again" else 0):
            weight = self.let(dtype, "add", weight, self.let(dtype, "div", zero, self.let(dtype, "const 3.0")))
        if work == "stack":
            self.lines += [
                f"adstack_alloca $800: {dtype} 'v' primal {weight} reason \"test\"",
                f"adstack_push $800, {weight}",
                "adstack_pop $800",
            ]
        total = "%20"
        for p in self.axes.values():
            total = self.let(index, "add", total, p)
        one = self.let(index, "const 1")
        odd = self.let("u1", "eq", self.let(index, "and", total, one), one)
        for n, place in enumerate(places):
            buffer, at = self.parts(place)
            value = self.let(dtype, "mul", weight, self.let(dtype, f"const {1.0 + n}"))
            before, after = {
                "?": ([f"if {odd} {{"], ["yield", "} else {", "yield", "}"]),
                "!": ([f"if {odd} {{", "yield", "} else {"], ["yield", "}"]),
            }.get(place[0], ([], []))
            self.lines += before
            index_of = ", ".join(self.place(text) for text in at)
            self.let(dtype, f"atomic add @{buffer}[{index_of}]", value, comma=True)
            self.lines += after
        self.lines.append(f"store @w[{own}], {zero}")
        fixed, free = "x".join(map(str, shape)), "x".join("?" * len(shape))
        ends = [f"%{10 + n}" for n in range(len(shape))]
        text = [
            f"kernel sums({', '.join(f'n{n}: {index}' for n in range(len(shape)))}, m: {index}) forward next %1000 {{",
            f"buffer @y: {kind} {dtype}[{free if kind == 'ndarray' else fixed}]",
            *(f"buffer @{b}: field {dtype}[{fixed}]" for b in "wz"), f"buffer @at: field {index}[{shape[0]}]",
            f"offload range_for bounds {{ #900\n%0: {index} = const {margin}",
            *(f"{end}: {index} = arg n{n}" for n, end in enumerate(ends)),
            "yield " + ", ".join(["%0"] * len(shape) + ends),
            "} do (" + ", ".join(f"{at}: {index} '{p}'" for p, at in self.axes.items()) + ") {",
            f"%20: {index} = arg m", *self.lines, "yield\n}\n}",
        ]  # fmt: skip
        self.kernel = mark_distances(parse_kernel("\n".join(text)))

    @staticmethod
    def parts(place: str) -> tuple[str, list[str]]:
        """The buffer and the index of a place."""
        buffer, _, at = place.lstrip("?!").rpartition(":")
        return buffer or "y", at.split(",")

    def let(self, type: str, what: str, *args: str, comma: bool = False) -> str:
        self.n += 1
        self.lines.append(f"%{self.n}: {type} = {what}{',' if comma else ''} {', '.join(args)}".rstrip())
        return f"%{self.n}"

    def place(self, text: str) -> str:
        """i, i+1, 30-i, i+m, 7, at."""
        if text == "at":
            return self.let(self.index, "load @at[%3]")
        known = {**self.axes, "m": "%20"}
        for op, word in (("+", "add"), ("-", "sub")):
            a, found, b = text.partition(op)
            if found:
                return self.let(self.index, word, self.place(a), self.place(b))
        return known.get(text) or self.let(self.index, f"const {text}")

    def expected(self, w: np.ndarray, ends: tuple[int, ...], m: int) -> dict[str, np.ndarray]:
        out = {b: np.zeros(self.shape) for b in "yz"}
        grid = np.meshgrid(*(np.arange(self.margin, e) for e in ends), indexing="ij")
        space = dict(zip("ijk", (g.ravel() for g in grid), strict=False))
        own = tuple(space.values())
        odd = (sum(own) + m) % 2 == 1
        for n, place in enumerate(self.places):
            buffer, at = self.parts(place)
            index = tuple(eval(text, {}, {**space, "m": m}) + 0 * own[0] for text in at)
            takes = {"?": odd, "!": ~odd}.get(place[0], np.full(len(odd), True))
            np.add.at(out[buffer], tuple(x[takes] for x in index), (w[own] * (1.0 + n))[takes])
        return out


WAYS = {
    "star": Sums(STAR),
    "short rows": Sums(STAR, (400, 9), margin=1),
    "rows in pieces": Sums(STAR, (12, 3000)),
    "f32": Sums(STAR, dtype="f32"),
    "one axis": Sums(["i-1", "i", "i+1", "i+3"], (30000,)),
    "three axes": Sums(CUBE, (11, 12, 40)),
    "backwards": Sums(["i,39-j", "i,38-j", "i+1,39-j"]),
    "some backwards": Sums(["i,j", "i,39-j", "i,j+1"]),
    "far apart": Sums(["i-4,j", "i+3,j-1"]),
    "margins": Sums(["i+1,j-m", "i+1,j", "i,j+m", "i,j"]),
    "several fields": Sums(["z:i,j", "i,j-1", "z:i-1,j+1", "i,j+1", "z:i,j"]),
    "under ifs": Sums(["?i,j-1", "!i,j+1", "i,j", "?i+1,j", "!i-1,j+2", "?i,j"]),
    "transposed": Sums(["j,i", "j+1,i", "j,i+1"]),
    "a column": Sums(["i,j", "i,0", "i+1,0", "i,j+1"]),
    "indices of 64 bits": Sums(STAR, index="i64"),
    "an array": Sums(STAR, kind="ndarray"),
    "sine": Sums(STAR, work="sine"),
    "sine, short rows": Sums(STAR, (400, 9), work="sine", margin=1),
    "sine, one axis": Sums(["i-1", "i", "i+1", "i+3"], (30000,), work="sine"),
    "sine, three axes": Sums(CUBE, (11, 12, 40), work="sine"),
    "sine, backwards": Sums(["i,39-j", "i,38-j", "i+1,39-j"], work="sine"),
    "sine, under ifs": Sums(["?i,j-1", "!i,j+1", "i,j", "?i+1,j", "!i-1,j+2", "?i,j"], work="sine"),
    "sine, a column": Sums(["i,0", "i+1,0", "i,j", "i,j+1"], work="sine"),
    "sine, margins": Sums(["i+1,j-m", "i+1,j", "i,j+m", "i,j"], work="sine"),
    "sine, indices of 64 bits": Sums(STAR, work="sine", index="i64"),
    "sine, an array": Sums(STAR, work="sine", kind="ndarray"),
    "again": Sums(STAR, work="again"),
    "again, f32": Sums(STAR, work="again", dtype="f32"),
}  # fmt: skip


@pytest.mark.parametrize(("places", "rows"), [
    (STAR, 2), (["i,j+3"], 1), (["i-4,j", "i+3,j"], 7), (["j,i+1", "j,i"], 1), (["i,0"], 1), (["at,j"], 0),
    (["i+1,at", "i,at"], 0), (["0,j"], 0), (["i,j", "j,i"], 0), (["i,j", "0,0"], 0),
])  # fmt: skip
def test_what_runs_in_two_colours(places, rows) -> None:
    assert scheduled(Sums(places).kernel)[0] == rows


@pytest.mark.parametrize("way", WAYS)
def test_sums_in_vectors(way: str) -> None:
    """Every sum is there, whatever the box; and the last bits are the same whatever the number of threads."""
    sums, random = WAYS[way], np.random.default_rng(7)
    exe = load(sums.kernel, EXACT)
    t = np.dtype(np.float32 if "f32" in way else np.float64)
    for short in ((5,) * 3, (6, 20, 9), (20, 6, 22), (31, 33, 10)):
        ends = tuple(min(s, n - 5) for s, n in zip(short, sums.shape, strict=False))
        run_and_compare(sums, exe, ends, random.integers(1, 9, sums.shape).astype(t), exact=True)
    run_and_compare(sums, exe, tuple(n - 4 for n in sums.shape), random.normal(size=sums.shape).astype(t), exact=False)


def run_and_compare(sums: Sums, exe, ends: tuple[int, ...], w: np.ndarray, exact: bool) -> None:
    want, found = sums.expected(w.astype(np.float64), ends, 2), set()
    for threads in (1, 2, 3, 5):
        arrays = {"y": np.zeros_like(w), "w": w.copy(), "z": np.zeros_like(w)}
        args = {f"n{n}": e for n, e in enumerate(ends)} | {"m": 2}
        assert bind(exe, {b: arrays[b] for b in arrays if b in exe.kernel.buffers}, args, threads=threads).launch() == 0
        for b in "yz":
            assert np.abs(arrays[b] - want[b]).max() <= (0.0 if exact else 1e-5 if w.itemsize == 4 else 1e-12)
        found.add(arrays["y"].tobytes() + arrays["z"].tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("way", WAYS)
def test_which_code_each_case_gets(way: str) -> None:
    """Cases run in steps, in lanes if the processor has them, or iteration by iteration; and no sum is atomic."""
    _, steps, lanes = scheduled(WAYS[way].kernel)
    assert "atomicrmw" not in cpu.stages(WAYS[way].kernel, EXACT)["llvm"]().text
    assert steps == STEPS.get(way, 0)
    assert bool(lanes) == (way not in STEPS and bool(jit.vector_bytes()))


STEPS = {
    "star": 3, "short rows": 3, "rows in pieces": 3, "f32": 3, "one axis": 4,
    "three axes": 3, "backwards": 2, "some backwards": 3, "far apart": 2, "margins": 3, "several fields": 3,
    "under ifs": 4, "a column": 2, "indices of 64 bits": 3, "an array": 3,
}  # fmt: skip


def test_stacks_keep_sums_out_of_lanes() -> None:
    """How many lanes there is room for depends on the number of threads; the order of the sums must not."""
    kernel = Sums(STAR, work="stack").kernel
    assert scheduled(kernel) == (2, 0, 0)


def test_lanes_may_not_meet_by_another_name() -> None:
    """All iterations of a row add to one element, although the loop index occurs in its subscript."""
    assert not scheduled(Sums(["i,j+5-j", "i+1,j"], work="sine").kernel)[0]
    assert scheduled(Sums(["i,0", "i+1,j"], work="sine").kernel)[0]
