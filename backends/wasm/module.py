"""A WebAssembly module as bytes and as text, one line an instruction (WebAssembly Core Specification 2.0, chapter 5).

An instruction is a tuple of its name and its immediates; a local is the immediate `Local`, a function its number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from quadrants_lab.backends.stage import Stage
from quadrants_lab.ir.nodes import NO_ID

Instruction = tuple[Any, ...]
TYPES = {"i32": 0x7F, "i64": 0x7E, "f32": 0x7D, "f64": 0x7C, "v128": 0x7B}
PAGE = 1 << 16


def _numbered(first: int, text: str) -> dict[str, int]:
    """Consecutive opcodes. ``i32.[a b]`` stands for ``i32.a i32.b``."""
    names = re.sub(r"(\S+)\[([^]]*)\]", lambda m: " ".join(m[1] + name for name in m[2].split()), text).split()
    return {name: n for n, name in enumerate(names, first)}


_ORDER = "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_INTEGER = "clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr"
_FLOAT = "abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign"
_COMPARED = "eq ne lt gt le ge"
_TO_INT = "f32_s f32_u f64_s f64_u"
_MEMORY = """i32.load i64.load f32.load f64.load i32.[load8_s load8_u load16_s load16_u]
    i64.[load8_s load8_u load16_s load16_u load32_s load32_u] i32.store i64.store f32.store f64.store
    i32.[store8 store16]"""
OPCODES = {
    **_numbered(0x00, "unreachable nop block loop if else"), **_numbered(0x0B, "end br br_if br_table return call"),
    "drop": 0x1A, "select": 0x1B, **_numbered(0x20, "local.get local.set local.tee"), **_numbered(0x28, _MEMORY),
    **_numbered(0x41, "i32.const i64.const f32.const f64.const"),
    **_numbered(0x45, f"i32.[eqz {_ORDER}] i64.[eqz {_ORDER}] f32.[{_COMPARED}] f64.[{_COMPARED}]"),
    **_numbered(0x67, f"i32.[{_INTEGER}] i64.[{_INTEGER}] f32.[{_FLOAT}] f64.[{_FLOAT}] i32.wrap_i64"),
    **_numbered(0xA8, f"i32.trunc_[{_TO_INT}] i64.extend_[i32_s i32_u] i64.trunc_[{_TO_INT}]"),
    **_numbered(0xB2, "f32.convert_[i32_s i32_u i64_s i64_u] f32.demote_f64 f64.convert_[i32_s i32_u i64_s i64_u]"),
    **_numbered(0xBB, "f64.promote_f32 i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32"),
    **_numbered(0xBF, "f64.reinterpret_i64 i32.extend8_s i32.extend16_s"),
    **_numbered(0xFC00, f"i32.trunc_sat_[{_TO_INT}] i64.trunc_sat_[{_TO_INT}]"),
    "v128.load": 0xFD00, "v128.store": 0xFD0B, "v128.const": 0xFD0C,
    **_numbered(0xFD11, "i32x4.splat i64x2.splat f32x4.splat f64x2.splat"),
    **_numbered(0xFD1B, " ".join(f"{t}.[extract_lane replace_lane]" for t in ("i32x4", "i64x2", "f32x4", "f64x2"))),
    **_numbered(0xFD37, f"i32x4.[{_ORDER}] f32x4.[{_COMPARED}] f64x2.[{_COMPARED}]"),
    **_numbered(0xFD4D, "v128.[not and andnot or xor bitselect]"), **_numbered(0xFD67, "f32x4.[ceil floor trunc]"),
    **_numbered(0xFD74, "f64x2.[ceil floor]"), "f64x2.trunc": 0xFD7A, "i32x4.neg": 0xFDA1, "i64x2.neg": 0xFDC1,
    **_numbered(0xFDAB, "i32x4.[shl shr_s shr_u add - - sub - - - mul]"),
    **_numbered(0xFDCB, "i64x2.[shl shr_s shr_u add - - sub - - - mul eq ne lt_s gt_s le_s ge_s]"),
    **_numbered(0xFDE0, "f32x4.[abs neg - sqrt add sub mul div]"),
    **_numbered(0xFDEC, "f64x2.[abs neg - sqrt add sub mul div]"),
    **_numbered(0xFDF8, "i32x4.trunc_sat_f32x4_[s u] f32x4.convert_i32x4_[s u]"), "f64x2.convert_low_i32x4_s": 0xFDFE,
}  # fmt: skip
_OPENS, _CLOSES = ("block", "loop", "if", "else"), ("end", "else")


class Local(NamedTuple):
    """A parameter or local variable of a function."""

    number: int
    type: str
    name: str


@dataclass
class Function:
    """``params`` and ``results``: types. ``code`` and ``ids``: the instructions, each with the statement that it came
    from. ``start``: instructions in front of them."""

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
    """Functions, the last of which is exported as ``run``. They share the memory ``env.memory``."""

    functions: list[Function] = field(default_factory=list)

    def binary(self) -> bytes:
        types = list(dict.fromkeys((f.params, f.results) for f in self.functions))
        signatures = [b"\x60" + _vector(_type(t) for t in p) + _vector(_type(t) for t in r) for p, r in types]
        sections = {
            1: _vector(signatures),
            2: _vector([b"\3env\6memory\2\0" + unsigned(1)]),
            3: _vector(unsigned(types.index((f.params, f.results))) for f in self.functions),
            7: _vector([b"\3run\0" + unsigned(len(self.functions) - 1)]),
            10: _vector(_sized(_body(f)) for f in self.functions),
        }
        return b"\0asm\1\0\0\0" + b"".join(bytes([number]) + _sized(body) for number, body in sections.items())

    def at(self, offset: int) -> int:
        """The statement that the instruction at an offset of the `binary` came from, or NO_ID."""
        place = len(self.binary()) - sum(len(_sized(_body(f))) for f in self.functions)
        for f in self.functions:
            body = _body(f)
            begin, end = place + len(_sized(body)) - len(body), place + len(_sized(body))
            if begin <= offset < end:
                heads, codes = _codes(f)
                begin += len(heads)
                for code, (_, id) in zip(codes, f.lines(), strict=True):
                    begin += len(code)
                    if offset < begin:
                        return id
            place = end
        return NO_ID

    def stage(self) -> Stage:
        """The text, which says what `binary` says."""
        lines = [("(module", NO_ID), ('  (import "env" "memory" (memory 1))', NO_ID)]
        count = 0
        for f in self.functions:
            params = "".join(f" (param {p.name} {p.type})" for p in f.locals[: len(f.params)])
            export = ' (export "run")' if f is self.functions[-1] else ""
            lines.append((f"  (func ${f.name}{export}{params}{''.join(f' (result {t})' for t in f.results)}", NO_ID))
            for _, run in _runs(f):
                lines.append(("    " + " ".join(f"(local {v.name} {v.type})" for v in run), NO_ID))
            depth = 2
            for instruction, id in f.lines():
                depth -= instruction[0] in _CLOSES
                lines.append(("  " * depth + self._shown(instruction), id))
                depth += instruction[0] in _OPENS
                count += instruction[0] not in ("block", "loop", "end", "else")
            lines.append(("  )", NO_ID))
        lines.append((")", NO_ID))
        text = "\n".join(line for line, _ in lines)
        return Stage("wat", text, tuple(id for _, id in lines), count, len(self.binary()))

    def _shown(self, instruction: Instruction) -> str:
        name, *given = instruction
        if name == "v128.const":
            given = ["i32x4", *given]
        elif name == "call":
            given = [f"${self.functions[given[0]].name}"]
        elif ".load" in name or ".store" in name:
            given = [f"offset={given[0]}"] if given[0] else []
        elif name[1:] in ("32.const", "64.const") and name[0] == "f":
            given = [_digits(np.float32(given[0]) if name == "f32.const" else np.float64(given[0]))]
        return " ".join([name, *(v.name if isinstance(v, Local) else str(v) for v in given)])


def _digits(x: np.floating[Any]) -> str:
    """The shortest decimal that is read back as the number."""
    return str(x) if np.isfinite(x) else "nan" if np.isnan(x) else "inf" if x > 0 else "-inf"


# --- bytes ----------------------------------------------------------------------------------------------------------


def unsigned(n: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def _signed(n: int) -> bytes:
    out = bytearray()
    while not -0x40 <= n < 0x40:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n & 0x7F])


def _sized(body: bytes) -> bytes:
    return unsigned(len(body)) + body


def _vector(parts: Iterable[bytes]) -> bytes:
    found = list(parts)
    return unsigned(len(found)) + b"".join(found)


def _type(name: str) -> bytes:
    return bytes([TYPES[name]])


def _runs(f: Function) -> list[tuple[str, list[Local]]]:
    """The locals that are used, by type."""
    used = {v for i, _ in f.lines() for v in i[1:] if isinstance(v, Local)}
    kept = sorted((v for v in f.locals[len(f.params) :] if v in used), key=lambda v: (v.type, v.number))
    return [(t, [*run]) for t, run in groupby(kept, lambda v: v.type)]


def _codes(f: Function) -> tuple[bytes, list[bytes]]:
    """The declarations of the locals, and the instructions."""
    runs = _runs(f)
    ordered = [*f.locals[: len(f.params)], *(v for _, run in runs for v in run)]
    numbers = {v: n for n, v in enumerate(ordered)}
    heads = _vector(unsigned(len(run)) + _type(t) for t, run in runs)
    return heads, [_encoded(i, numbers) for i, _ in f.lines()]


def _body(f: Function) -> bytes:
    heads, codes = _codes(f)
    return heads + b"".join(codes) + b"\x0b"


def _encoded(instruction: Instruction, numbers: dict[Local, int]) -> bytes:
    name, *given = instruction
    code = OPCODES[name]
    out = bytes([code]) if code < 0x100 else bytes([code >> 8]) + unsigned(code & 0xFF)
    if name in ("block", "loop", "if"):
        return out + b"\x40"
    if ".load" in name or ".store" in name:
        width = re.sub(r"^.(\d+)\.\D+|_.$", r"", name) or name[1:].partition(".")[0]
        return out + unsigned((int(width) // 8).bit_length() - 1) + unsigned(given[0])
    if name == "v128.const":
        return out + b"".join(struct.pack("<I", n & 0xFFFFFFFF) for n in given)
    if name.endswith("_lane"):
        return out + bytes(given)
    if name.endswith(".const"):
        forms = {"f32": lambda x: struct.pack("<f", x), "f64": lambda x: struct.pack("<d", x)}
        return out + forms.get(name[:3], _signed)(given[0])
    return out + b"".join(unsigned(numbers[v] if isinstance(v, Local) else v) for v in given)
