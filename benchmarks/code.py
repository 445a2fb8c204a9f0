"""The code of reverse kernels for GPUs: bytes and lines with straight-line pushes, and, of SPIR-V, as the same emitter
makes it with pushes that branch and a counter a stack; and bytes of the SPIR-V that the peer keeps in its cache on
disk."""

from __future__ import annotations

import struct
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.ir.nodes import Kernel
    from quadrants_lab.ir.options import CompileOptions


@dataclass(frozen=True)
class Size:
    """``bytes`` and ``lines`` (for SPIR-V instructions) of a module, ``own_bytes`` and ``own_lines`` of those its
    pushes and pops."""

    bytes: int
    lines: int
    own_bytes: int
    own_lines: int


@dataclass(frozen=True)
class CodeRow:
    """One kernel in one language; ``pushes`` in its code; ``peer``: bytes of the peer's SPIR-V, 0 where it refuses the
    kernel, None where that was not measured."""

    case: str
    language: str
    pushes: int
    straight: Size
    branchy: Size | None
    peer: int | None = None


def _msl(kernel: Kernel, options: CompileOptions, ids: set[int]) -> Size:
    from quadrants_lab.backends._msl.kernel import module

    made = module(kernel, options)
    own = [len(line) + 1 for line, i in zip(made.lines, made.ids, strict=True) if i in ids]
    return Size(len(made.text.encode()), len(made.lines), sum(own), len(own))


def _spirv(kernel: Kernel, options: CompileOptions, ids: set[int]) -> Size:
    from quadrants_lab.backends._spirv.kernel import module
    from quadrants_lab.backends._spirv.target import GENERIC

    made = module(kernel, options, GENERIC)
    instructions, owners = made.instructions()
    own = [4 * len(words) for words, owner in zip(instructions, owners, strict=True) if owner in ids]
    return Size(len(made.words()), len(instructions), sum(own), len(own))


def _languages() -> dict[str, tuple[str, Callable[[Kernel, CompileOptions, set[int]], Size], ContextVar[bool] | None]]:
    """Name -> the backend that speaks it, what measures a module, what makes it branchy."""
    from quadrants_lab.backends._spirv.stacks import BRANCHY as SPIRV

    return {"MSL": ("metal", _msl, None), "SPIR-V": ("vulkan", _spirv, SPIRV)}


def measure(name: str) -> list[dict[str, Any]]:
    """In a worker: a row a language of the case's gradient, as `CodeRow` has it."""
    from benchmarks import engine
    from quadrants_lab.ir import nodes as N
    from quadrants_lab.ir.walk import walk
    from quadrants_lab.runtime.backend import backend
    from quadrants_lab.runtime.inspect import compiled_plan

    rows = []
    for language, (speaker, size, switch) in _languages().items():
        engine.init(ad_unroll=backend(speaker).AD_UNROLL[0])  # the cases are f32
        from benchmarks.cases.stacks import GRADIENTS, Space

        made = compiled_plan(GRADIENTS[name](Space(engine.qd.f32)).grad.dispatcher).compiled
        touching = [
            s for s in walk(made.kernel.body) if isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop))
        ]
        pushes = sum(isinstance(s, N.AdStackPush) for s in touching)
        sizes: list[dict[str, int] | None] = []
        for branchy in (False, True):
            if branchy and switch is None:
                sizes.append(None)
                continue
            token = switch.set(branchy) if switch else None
            sizes.append(asdict(size(made.kernel, made.options, {s.id for s in touching})))
            if switch and token:
                switch.reset(token)
        rows.append({"case": name, "language": language, "pushes": pushes, "straight": sizes[0], "branchy": sizes[1]})
    return rows


def answer(case: str) -> Any:
    """What a worker answers: the names of the cases, or the rows of one."""
    from benchmarks.cases.stacks import GRADIENTS

    return measure(case) if case else list(GRADIENTS)


def launch(case: str, gradient: bool) -> bool:
    """In a worker of any engine: runs a case's kernel on Vulkan, or that and its gradient."""
    from benchmarks import engine

    engine.init("vulkan")
    from benchmarks.cases.stacks import GRADIENTS, Space

    space = Space(engine.qd.f32)
    space.n[None] = 3
    kernel = GRADIENTS[case](space)
    kernel()
    if gradient:
        kernel.grad()
    engine.qd.sync()
    engine.qd.reset()
    return True


def spirv_bytes(data: bytes) -> int:
    """Bytes of the SPIR-V modules in a file of another format."""
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
    sizes = {way: found[way] and Size(**found[way]) for way in ("straight", "branchy")}
    theirs = peer if found["language"] == "SPIR-V" else None
    return CodeRow(found["case"], found["language"], found["pushes"], **sizes, peer=theirs)


def cells(r: CodeRow) -> list[str]:
    """Pushes, bytes and lines both ways, how much shorter pushes and pops are in bytes and in lines, and the whole; the
    peer's bytes, and how much shorter ours are."""
    ours, branchy = r.straight, r.branchy
    own = ["", ""]
    if r.pushes and branchy:
        own = [f"{branchy.own_bytes / ours.own_bytes:.2f}", f"{branchy.own_lines / ours.own_lines:.2f}"]
    sizes = [f"{s.bytes:,} in {s.lines:,}" if s else "" for s in (ours, branchy)]
    whole = f"{branchy.bytes / ours.bytes:.2f}" if branchy else ""
    peer = [f"{r.peer:,}", f"{r.peer / r.straight.bytes:.2f}"] if r.peer else ["" if r.peer is None else "refused", ""]
    return [str(r.pushes), *sizes, *own, whole, *peer]


HEADS = ("pushes", "bytes in lines", "branchy", "pushes and pops", "their lines", "whole", "quadrants", "ratio")
_MAGIC = bytes.fromhex("03022307")
_HEADER = 20  # bytes before a module's instructions
_LAST_OPCODE = 6500
