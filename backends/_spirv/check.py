"""Whether bytes are a whole SPIR-V module of ours. Drivers read modules without looking, and end the process where an
instruction is cut or an id means nothing; so what comes from a disk is looked at before. What it computes is not looked
at."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.kernel import NOTHING

_ENTRY_POINT, _FUNCTION, _END = (C.OPS[name][0] for name in ("EntryPoint", "Function", "FunctionEnd"))
_HEADER = 5  # words
_NUMBER, _ID, _RESULT = range(3)
_MOST_OPERANDS = 8  # those that follow are like the last one


def _meanings() -> np.ndarray[Any, Any]:
    """By opcode and the operand's number, what an operand is; -1 for opcodes that are not ours. Texts and what follows
    them are numbers."""
    table = np.full((max(op for op, _ in C.OPS.values()) + 2, _MOST_OPERANDS + 1), -1, np.int8)
    for op, form in C.OPS.values():
        plain = form.split("s")[0]
        kinds = [{"r": _RESULT, "i": _ID, "t": _ID}.get(c, _NUMBER) for c in plain]
        rest = _NUMBER if plain != form or not kinds else kinds[-1]
        table[op] = [_NUMBER, *kinds, *[rest] * (_MOST_OPERANDS - len(kinds))]
    return table


_MEANINGS = _meanings()


def is_module(code: bytes, programs: list[str]) -> bool:
    """Whether all instructions are ours and whole, each id is defined once, and the entry points are these programs."""
    if len(code) % 4 or len(code) <= 4 * _HEADER:
        return False
    words = np.frombuffer(code, np.uint32)
    magic, version, generator, bound, schema = words[:_HEADER].tolist()
    if (magic, version, generator, schema) != (C.MAGIC, C.VERSION, C.GENERATOR, 0):
        return False
    sizes = (words >> 16).tolist()
    heads, at, end = [], _HEADER, len(sizes)
    while at < end:
        heads.append(at)
        at += sizes[at] or end
    if at != end:
        return False
    starts = np.array(heads)
    lengths = np.diff(starts, append=end)
    ops = np.minimum(words[starts] & 0xFFFF, len(_MEANINGS) - 1)
    number = np.minimum(np.arange(_HEADER, end) - np.repeat(starts, lengths), _MOST_OPERANDS)
    meaning = _MEANINGS[np.repeat(ops, lengths), number]
    operands = words[_HEADER:]
    results, used = operands[meaning == _RESULT], operands[meaning == _ID]
    if meaning.min() < 0 or ops[-1] != _END or not len(results):
        return False
    if bound > end or max(results.max(), used.max(initial=0)) >= bound:
        return False
    times = np.bincount(results, minlength=bound)
    if times.max() > 1 or times[0] or not times[used].all():
        return False
    functions = set(words[starts[ops == _FUNCTION] + 2].tolist())
    entries = [4 * n for n in starts[ops == _ENTRY_POINT].tolist() if int(words[n + 2]) in functions]
    return [code[n + 12 :].split(b"\0", 1)[0].decode(errors="replace") for n in entries] == (programs or [NOTHING])
