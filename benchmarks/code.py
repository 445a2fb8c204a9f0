"""Measures the size of the code of gradients for GPUs, in bytes and lines; and the bytes of the SPIR-V that the peer
keeps in its cache on disk."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions


@dataclass(frozen=True)
class CodeRow:
    """The code of one gradient in one language. ``pushes``: the number of AdStackPush statements; ``bytes`` and
    ``lines`` (for SPIR-V: instructions) of the module; ``peer``: bytes of the peer's SPIR-V, 0 if it refuses the
    kernel, None if this was not measured."""

    case: str
    language: str
    pushes: int
    bytes: int
    lines: int
    peer: int | None = None


def _msl(kernel: Kernel, options: CompileOptions) -> tuple[int, int]:
    from quadrants_lab.backends._msl.kernel import module

    made = module(kernel, options)
    return made.bytes, made.lines


def _spirv(kernel: Kernel, options: CompileOptions) -> tuple[int, int]:
    from quadrants_lab.backends._spirv.kernel import module
    from quadrants_lab.backends._spirv.target import GENERIC

    made = module(kernel, options, GENERIC)
    return len(made.words()), len(made.instructions()[0])


# language -> (backend that makes it, function that returns bytes and lines of a module)
LANGUAGES: dict[str, tuple[str, Callable[[Kernel, CompileOptions], tuple[int, int]]]] = {
    "MSL": ("metal", _msl),
    "SPIR-V": ("vulkan", _spirv),
}


def measure(name: str) -> list[dict[str, Any]]:
    """Runs in a worker process. Returns for each language the fields of a `CodeRow` about the case's gradient."""
    from benchmarks import engine
    from quadrants_lab.ir import nodes as N
    from quadrants_lab.ir.walk import walk
    from quadrants_lab.runtime.backend import backend
    from quadrants_lab.runtime.record.inspect import compiled_plan

    rows = []
    for language, (speaker, size) in LANGUAGES.items():
        engine.init(ad_unroll=backend(speaker).CAPABILITIES.ad_unroll[0])  # as for f32, the dtype of the cases
        from benchmarks.cases.loops import Space
        from benchmarks.cases.stacks import GRADIENTS

        made = compiled_plan(Space(engine.qd.f32).kernel_of(GRADIENTS[name]).grad.dispatcher).compiled
        pushes = sum(isinstance(s, N.AdStackPush) for s in walk(made.kernel.body))
        nbytes, lines = size(made.kernel, made.options)
        rows.append({"case": name, "language": language, "pushes": pushes, "bytes": nbytes, "lines": lines})
    return rows


def answer(case: str) -> Any:
    """The answer of a worker: the names of all cases, or, if ``case`` is given, the rows of this case."""
    from benchmarks.cases.stacks import GRADIENTS

    return measure(case) if case else list(GRADIENTS)


def launch(case: str, gradient: bool) -> bool:
    """Runs in a worker process of any engine: launches a case's kernel on Vulkan, and with ``gradient`` also its
    gradient."""
    from benchmarks import engine

    engine.init("vulkan")
    from benchmarks.cases.loops import Space
    from benchmarks.cases.stacks import GRADIENTS

    space = Space(engine.qd.f32)
    space.n[None] = 3
    kernel = space.kernel_of(GRADIENTS[case])
    kernel()
    if gradient:
        kernel.grad()
    engine.qd.sync()
    engine.qd.reset()
    return True


def spirv_bytes(data: bytes) -> int:
    """The number of bytes of all SPIR-V modules that are found within a file of another format."""
    total = at = 0
    while (start := data.find(_MAGIC, at)) >= 0:
        at = start + _HEADER
        while at + 4 <= len(data):
            op, words = struct.unpack_from("<HH", data, at)
            if not words or op > _LAST_OPCODE:
                break
            at += 4 * words
        total += at - start
    return total


def row(found: dict[str, Any], peer: int | None) -> CodeRow:
    return CodeRow(**found, peer=peer if found["language"] == "SPIR-V" else None)


def cells(r: CodeRow) -> list[str]:
    """The cells of a row: pushes, bytes and lines, the peer's bytes, and how many times more these are."""
    peer = [f"{r.peer:,}", f"{r.peer / r.bytes:.2f}"] if r.peer else ["" if r.peer is None else "refused", ""]
    return [str(r.pushes), f"{r.bytes:,} in {r.lines:,}", *peer]


HEADS = ("pushes", "bytes in lines", "quadrants", "ratio")
_MAGIC = bytes.fromhex("03022307")
_HEADER = 20  # bytes before a module's instructions
_LAST_OPCODE = 6500
