"""The code of reverse kernels for GPUs: bytes and lines with straight-line pushes, and as the same emitters make it
with pushes that branch and a counter a stack."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions


@dataclass(frozen=True)
class Size:
    """``bytes`` and ``lines`` (for SPIR-V instructions) of a module, ``own_bytes`` of those its pushes and pops."""

    bytes: int
    lines: int
    own_bytes: int


@dataclass(frozen=True)
class CodeRow:
    """One kernel in one language; ``pushes`` in its code."""

    case: str
    language: str
    pushes: int
    straight: Size
    branchy: Size


def _msl(kernel: Kernel, options: CompileOptions, ids: set[int]) -> Size:
    from quadrants_lab.backends._msl.kernel import module

    made = module(kernel, options)
    own = sum(len(line) + 1 for line, i in zip(made.lines, made.ids, strict=True) if i in ids)
    return Size(len(made.text.encode()), len(made.lines), own)


def _spirv(kernel: Kernel, options: CompileOptions, ids: set[int]) -> Size:
    from quadrants_lab.backends._spirv.kernel import module
    from quadrants_lab.backends._spirv.target import GENERIC

    made = module(kernel, options, GENERIC)
    instructions, owners = made.instructions()
    own = sum(4 * len(words) for words, owner in zip(instructions, owners, strict=True) if owner in ids)
    return Size(len(made.words()), len(instructions), own)


def _languages() -> dict[str, tuple[Callable[[Kernel, CompileOptions, set[int]], Size], ContextVar[bool]]]:
    from quadrants_lab.backends._msl.stacks import BRANCHY as MSL
    from quadrants_lab.backends._spirv.stacks import BRANCHY as SPIRV

    return {"MSL": (_msl, MSL), "SPIR-V": (_spirv, SPIRV)}


def measure(name: str) -> list[dict[str, Any]]:
    """In a worker: a row a language of the case's gradient, as `CodeRow` has it."""
    from benchmarks import engine

    engine.init()
    from benchmarks.cases.stacks import GRADIENTS, Space
    from quadrants_lab.ir import nodes as N
    from quadrants_lab.ir.walk import walk
    from quadrants_lab.runtime.inspect import compiled_plan

    made = compiled_plan(GRADIENTS[name](Space(engine.qd.f32)).grad.dispatcher).compiled
    touching = [s for s in walk(made.kernel.body) if isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop))]
    pushes = sum(isinstance(s, N.AdStackPush) for s in touching)
    rows = []
    for language, (size, switch) in _languages().items():
        sizes = []
        for branchy in (False, True):
            token = switch.set(branchy)
            sizes.append(vars(size(made.kernel, made.options, {s.id for s in touching})))
            switch.reset(token)
        rows.append({"case": name, "language": language, "pushes": pushes, "straight": sizes[0], "branchy": sizes[1]})
    return rows


def answer(case: str) -> Any:
    """What a worker answers: the names of the cases, or the rows of one."""
    from benchmarks.cases.stacks import GRADIENTS

    return measure(case) if case else list(GRADIENTS)


def row(found: dict[str, Any]) -> CodeRow:
    sizes = {way: Size(**found[way]) for way in ("straight", "branchy")}
    return CodeRow(found["case"], found["language"], found["pushes"], **sizes)


def cells(r: CodeRow) -> list[str]:
    """Pushes, bytes and lines both ways, how much shorter pushes and pops are, and the whole."""
    own = r.branchy.own_bytes / r.straight.own_bytes if r.straight.own_bytes else None
    sizes = [f"{s.bytes:,} in {s.lines:,}" for s in (r.straight, r.branchy)]
    whole = f"{r.branchy.bytes / r.straight.bytes:.2f}"
    return [str(r.pushes), *sizes, "" if own is None else f"{own:.2f}", whole]


HEADS = ("pushes", "bytes in lines", "branchy", "pushes and pops", "whole")
