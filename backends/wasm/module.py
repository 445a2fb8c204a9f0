"""Builds a WebAssembly module, as bytes and as text with one instruction a line.

An instruction is a tuple of its name and its immediates. As an immediate, a local is a `Local`, and a function its
index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from quadrants_lab.backends import Stage
from quadrants_lab.ir.nodes import NO_ID

Instruction = tuple[Any, ...]
PAGE = 1 << 16
_FLOAT = "eq ne lt gt le ge ceil floor trunc abs neg sqrt add sub mul div"
_INTEGER = "eq ne lt_s gt_s le_s ge_s neg shl shr_s shr_u add sub mul"
VECTORS = {  # kind of vector -> its operations
    "i32x4": f"{_INTEGER} lt_u gt_u le_u ge_u".split(), "i64x2": _INTEGER.split(), "f32x4": _FLOAT.split(),
    "f64x2": _FLOAT.split(),
}  # fmt: skip
_OPENS, _CLOSES = ("block", "loop", "if", "else"), ("end", "else")


class Local(NamedTuple):
    """A parameter or local variable of a function."""

    number: int
    type: str
    name: str


@dataclass
class Function:
    """A function of the module. ``params`` and ``results``: types. ``code``: the instructions; ``ids``: for each of
    them the id of the statement that it came from. ``start``: instructions that run before the code."""

    name: str
    params: tuple[str, ...]
    results: tuple[str, ...] = ()
    code: list[Instruction] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    start: list[Instruction] = field(default_factory=list)
    locals: list[Local] = field(default_factory=list)

    def __post_init__(self) -> None:
        for t in self.params:
            self.local(t, "p")

    def local(self, type: str, name: str = "") -> Local:
        number = len(self.locals)
        self.locals.append(Local(number, type, f"${name or 'v'}.{number}"))
        return self.locals[-1]

    def put(self, id: int, *instruction: Any) -> None:
        self.code.append(instruction)
        self.ids.append(id)

    def drop(self) -> None:
        """Removes the last instruction."""
        self.code.pop()
        self.ids.pop()

    def lines(self) -> list[tuple[Instruction, int]]:
        return [*((i, NO_ID) for i in self.start), *zip(self.code, self.ids, strict=True)]


@dataclass
class Module:
    """The functions of a module; the last one is exported as ``run``. They share the memory ``env.memory``."""

    functions: list[Function] = field(default_factory=list)

    def binary(self) -> bytes:
        """The module in binary form, without names. This needs the package wasmtime."""
        import wasmtime

        return bytes(wasmtime.wat2wasm("\n".join(line for line, _ in self._lines(named=False))))

    def at(self, offset: int) -> int:
        """The id of the statement that the instruction at an offset of the `binary` came from, or NO_ID."""
        code, at = self.binary(), 8
        while code[at] != _CODE:
            size, at = _number(code, at + 1)
            at += size
        _, at = _number(code, _number(code, at + 1)[1])  # after the size of the section and the number of functions
        for f in self.functions:
            size, at = _number(code, at)
            if at <= offset < at + size:
                runs, at = _number(code, at)
                for _ in range(runs):
                    at = _number(code, at)[1] + 1
                for instruction, id in f.lines():
                    at = _behind(code, at, *instruction)
                    if offset < at:
                        return id
                break
            at += size
        return NO_ID

    def stage(self) -> Stage:
        """The module as text, with the same content as `binary`."""
        lines = self._lines()
        count = sum(1 for f in self.functions for i, _ in f.lines() if i[0] not in ("block", "loop", "end", "else"))
        size = len(self.binary()) if find_spec("wasmtime") else 0
        return Stage("wat", "\n".join(line for line, _ in lines), tuple(id for _, id in lines), count, size)

    def _lines(self, named: bool = True) -> list[tuple[str, int]]:
        """The lines of the text, each with the id of its statement. If ``named``, functions and locals have names,
        otherwise indices."""
        lines = [("(module", NO_ID), ('  (import "env" "memory" (memory 1))', NO_ID)]
        for f in self.functions:
            runs = _runs(f)
            ordered = [*f.locals[: len(f.params)], *(v for _, run in runs for v in run)]
            names = {v: v.name if named else str(n) for n, v in enumerate(ordered)}
            params = "".join(f" (param {names[p] * named} {p.type})" for p in f.locals[: len(f.params)])
            export = ' (export "run")' if f is self.functions[-1] else ""
            title = f" ${f.name}" * named + export + params + "".join(f" (result {t})" for t in f.results)
            lines.append((f"  (func{title}", NO_ID))
            for _, run in runs:
                lines.append(("    " + " ".join(f"(local {names[v] * named} {v.type})" for v in run), NO_ID))
            depth = 2
            for instruction, id in f.lines():
                depth -= instruction[0] in _CLOSES
                lines.append(("  " * depth + self._shown(instruction, names, named), id))
                depth += instruction[0] in _OPENS
            lines.append(("  )", NO_ID))
        return [*lines, (")", NO_ID)]

    def _shown(self, instruction: Instruction, names: Mapping[Local, str], named: bool) -> str:
        name, *given = instruction
        if name == "v128.const":
            given = ["i32x4", *given]
        elif name == "call" and named:
            given = [f"${self.functions[given[0]].name}"]
        elif ".load" in name or ".store" in name:
            given = [f"offset={given[0]}"] if given[0] else []
        elif name[1:] in ("32.const", "64.const") and name[0] == "f":
            given = [_digits(np.float32(given[0]) if name == "f32.const" else np.float64(given[0]))]
        return " ".join([name, *(names[v] if isinstance(v, Local) else str(v) for v in given)])


def _digits(x: np.floating[Any]) -> str:
    """The shortest decimal that reads back as ``x``."""
    return str(x) if np.isfinite(x) else "nan" if np.isnan(x) else "inf" if x > 0 else "-inf"


def _runs(f: Function) -> list[tuple[str, list[Local]]]:
    """The locals that are used, as runs of the same type."""
    used = {v for i, _ in f.lines() for v in i[1:] if isinstance(v, Local)}
    kept = sorted((v for v in f.locals[len(f.params) :] if v in used), key=lambda v: (v.type, v.number))
    return [(t, [*run]) for t, run in groupby(kept, lambda v: v.type)]


# --- offsets in the binary (WebAssembly Core Specification 2.0, chapter 5) --------------------------------------------

# the section with the functions' code: its id, its size, the number of functions, and then each function's size and
# code
_CODE = 10
# how many bytes the immediates of an instruction take
_FIXED = {"block": 1, "loop": 1, "if": 1, "f32.const": 4, "f64.const": 8, "v128.const": 16}


def _number(code: bytes, at: int) -> tuple[int, int]:
    """The LEB128 number at offset ``at``, and the offset after it."""
    value = shift = 0
    while True:
        value |= (code[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if code[at - 1] < 0x80:
            return value, at


def _behind(code: bytes, at: int, name: str, *given: Any) -> int:
    """The offset after the instruction at ``at``."""
    at = _number(code, at + 1)[1] if code[at] in (0xFC, 0xFD) else at + 1
    if name in _FIXED or name.endswith("_lane"):
        return at + _FIXED.get(name, 1)
    for _ in range(2 if ".load" in name or ".store" in name else len(given)):
        at = _number(code, at)[1]
    return at
