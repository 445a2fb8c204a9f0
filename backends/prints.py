"""The text of print records that compiled code has written, and the values of 64-bit words."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.show import show
from quadrants_lab.ir.types import DType

_WORD = struct.Struct("=q")


def value_of(t: DType, word: int) -> Any:
    """The numpy scalar of dtype ``t`` whose bits are the low bits of a word."""
    return np.frombuffer(_WORD.pack(word), np.dtype(t.numpy), 1)[0] if t.kind != "b" else np.bool_(word & 1)


def format_prints(stmts: list[N.Print], types: dict[int, DType], data: bytes, lost: int) -> list[str]:
    """A text for each record in ``data``, which is the number of its Print statement and then its values, a word each.
    A record at the end that is not whole is left out; ``lost`` counts it already."""
    out: list[str] = []
    words = memoryview(data).cast("q")
    at = 0
    while at < len(words):
        stmt = stmts[words[at]]
        at += 1
        if at + len(stmt.operands()) > len(words):
            break
        text = ""
        for part, spec in stmt.pieces():
            if isinstance(part, int):
                text += show(value_of(types[part], words[at]), spec)
                at += 1
            else:
                text += part
        out.append(text)
    if lost:
        out.append(f"[{lost} more prints did not fit into the print buffer]\n")
    return out
