"""Print records, as compiled code leaves them, to text; and raw 64-bit words to values."""

from __future__ import annotations

import struct
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType

_WORD = struct.Struct("=q")
_DOUBLE = struct.Struct("=d")


def value_of(t: DType, word: int) -> Any:
    """The numpy scalar of dtype ``t`` that a word holds: floats as f64, integers extended to 64 bits."""
    if t.is_float:
        return t.numpy(_DOUBLE.unpack(_WORD.pack(word))[0])
    if t.kind == "b":
        return t.numpy(word & 1)
    return t.numpy(word & ((1 << 64) - 1) if t.kind == "u" else word)


def format_prints(stmts: list[N.Print], types: dict[int, DType], data: bytes, lost: int) -> list[str]:
    """A text for each record: the number of its Print statement, then its values, a word each."""
    out: list[str] = []
    words = memoryview(data).cast("q")
    at = 0
    while at < len(words):
        stmt = stmts[words[at]]
        at += 1
        text = ""
        for part in stmt.parts:
            if isinstance(part, int):
                text += str(value_of(types[part], words[at]))
                at += 1
            else:
                text += part
        out.append(text)
    if lost:
        out.append(f"[{lost} more prints did not fit into the print buffer]\n")
    return out
