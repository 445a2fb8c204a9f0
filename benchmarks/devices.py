"""``python -m benchmarks.devices [--write]``: what compilers report about kernels for GPUs. No GPU is needed.

Each row is about one kernel of the benchmarks: instructions and registers of its longest program, and the occupancy.
For AMD the occupancy is the number of waves (of 64 or 32 threads) that a SIMD unit can hold, from LLVM's model. For
NVIDIA it is the number of warps (of 32 threads) that a multiprocessor can hold, computed from the registers that ptxas
reports and the limits in NVIDIA's CUDA Programming Guide. For Metal, whose compiler exists only on a Mac, the row has
the lines of MSL.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ.setdefault("QL_ENGINE", "quadrants_lab")

import llvmlite.binding as llvm
from rich.console import Console

from benchmarks import document, engine, race as R
from quadrants_lab.backends._msl.kernel import module as msl
from quadrants_lab.backends.amdgpu import gcn, listings
from quadrants_lab.backends.cuda import listings as cuda
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.record.inspect import compiled_plan

BEGIN, END = "<!-- benchmarks.devices writes from here -->", "<!-- to here -->"
HEADS = ("gfx942", "gfx1100", "sm_90", "MSL, lines")
CHIPS = ("gfx942", "gfx1100")
HOPPER = 90
# registers of a multiprocessor; granularity of the registers of a warp; most warps of a multiprocessor
REGISTERS, STEP, MOST_WARPS = 65536, 256, 64
_REMARK = re.compile(r"remark: .*?:\d+:\d+:\s+(.*?): (\S+)")


@dataclass(frozen=True)
class Program:
    """What a compiler reports about one program. ``occupancy``: waves on a SIMD unit, or warps on a multiprocessor;
    ``spilled``: the number of spilled registers."""

    instructions: int
    registers: str
    occupancy: int
    spilled: int = 0

    def words(self) -> str:
        spilled = f", {self.spilled} spilled" if self.spilled else ""
        return f"{self.instructions:,}; {self.registers}{spilled}; {self.occupancy}"


@contextmanager
def errors_of_the_process() -> Iterator[Callable[[], str]]:
    """Collects what C code writes to standard error (file descriptor 2) within a ``with``."""
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: (file.seek(0), file.read())[1]
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def remarks(text: str) -> list[dict[str, str]]:
    """LLVM's remarks about the resources of each program, in the order of the programs in ``text``."""
    found: list[dict[str, str]] = []
    for name, value in _REMARK.findall(text):
        if name == "Function Name":
            found.append({})
        found[-1][name] = value
    return found


def amd(kernel: Any, options: Any, chip: str) -> Program:
    made = gcn.optimised("\n".join(gcn.emitted(kernel, options, chip).lines()[0]), chip)
    with errors_of_the_process() as said:
        text = gcn.assembly(made, chip)
        programs = remarks(said())
    bodies = re.split(r"^; -- End function$|^\t\.end_amdhsa_kernel$", text, flags=re.MULTILINE)
    counts = [n for body in bodies if (n := listings.ISA.count(listings.ISA.lines(body)[0]))]
    n, about = max(zip(counts, programs, strict=True), key=lambda pair: pair[0])
    kinds = [f"{about[k]} {k.removeprefix('Total')}" for k in ("VGPRs", "TotalSGPRs")]
    return Program(n, ", ".join(kinds), int(about["Occupancy [waves/SIMD]"]), int(about["VGPRs Spill"]))


def nvidia(kernel: Any, options: Any, chip: int = HOPPER) -> Program | None:
    """What ptxas and nvdisasm report about a kernel for this chip; None if one of them is not installed."""
    if not cuda.has_assembler():
        return None
    made = cuda.assembled(cuda.ptx_of(kernel, options, chip), chip)
    counts: dict[str, int] = {}
    name = ""
    for line in cuda.disassembled(made.code).splitlines():
        if started := re.match(r"\.text\.(\w+):", line):
            name = started[1]
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/", line):
            counts[name] = counts.get(name, 0) + 1
    program = max(made.programs, key=lambda p: counts[p.name])
    of_a_warp = -(-program.registers * 32 // STEP) * STEP
    return Program(counts[program.name], f"{program.registers} registers", min(MOST_WARPS, REGISTERS // of_a_warp))


def cases() -> dict[str, Callable[[], tuple[Any, bool]]]:
    """By name: a function that makes and launches a kernel, and whether it also launches the gradient."""
    from benchmarks.cases import throughput as T
    from benchmarks.cases.loops import LOOPS

    def plain(make: Callable[..., Any], *size: int) -> tuple[Any, bool]:
        kernel = make(*size).run
        kernel()
        return kernel, False

    def loop(name: str, dtype: str) -> tuple[Any, bool]:
        kernel = LOOPS[name](256, 4, getattr(engine.qd, dtype)).kernel
        kernel()
        kernel.grad()
        return kernel, True

    sized = {"copy": T.copy, "saxpy": T.saxpy, "atomic sum": T.atomic_sum, "sin*exp": T.sin_exp,
             "3-point stencil": T.stencil, "n-body": T.n_body}  # fmt: skip
    unsized = {"particles to grid": T.particles_to_grid, "one hot cell": T.hot_cell}
    loops = [("linear", "f32"), ("sin", "f32"), ("8 carried", "f32"), ("sin", "f64")]
    return (
        {name: partial(plain, make, 256) for name, make in sized.items()}
        | {name: partial(plain, make) for name, make in unsized.items()}
        | {f"loop: {name}, {dtype}": partial(loop, name, dtype) for name, dtype in loops}
    )


def measured(make: Callable[[], tuple[Any, bool]], arch: str) -> list[tuple[Any, Any]]:
    """IR and options of the launched kernel, and of its gradient if there is one, as a session on the backend ``arch``
    would compile them."""
    engine.qd.init(arch=engine.qd.cpu, offline_cache=False, ad_unroll=backend(arch).CAPABILITIES.ad_unroll[0])
    kernel, differentiated = make()
    plans = [compiled_plan(k.dispatcher) for k in ([kernel, kernel.grad] if differentiated else [kernel])]
    return [(p.kernel, p.compiled.options) for p in plans]


def rows(only: str) -> Iterator[list[str]]:
    """The rows of the cases whose name contains ``only``."""
    for name, make in ((name, make) for name, make in cases().items() if only in name):
        on_amd, on_cuda, on_metal = (measured(make, arch) for arch in ("amdgpu", "cuda", "metal"))
        for n, mode in enumerate(("forward", "gradient")[: len(on_amd)]):
            f64 = name.endswith("f64")
            found = [*(amd(*on_amd[n], chip) for chip in CHIPS), nvidia(*on_cuda[n])]
            lines = "no f64" if f64 else f"{msl(*on_metal[n]).lines:,}"
            yield [f"{name}, {mode}", *(p.words() if p else "" for p in found), lines]


def main() -> int:
    args = R.arguments("python -m benchmarks.devices", __doc__, "docs/amd.md")
    llvm.set_option("", "-pass-remarks-analysis=kernel-resource-usage")
    title = "Instructions; registers; waves a SIMD unit (AMD) or warps a multiprocessor (NVIDIA)"
    table = document.Table(title, HEADS, list(rows(args.only)))
    Console(highlight=False).print(table.shown())
    if args.write:
        document.write(R.ROOT / "docs" / "amd.md", "\n".join(table.markdown()[2:]), BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
