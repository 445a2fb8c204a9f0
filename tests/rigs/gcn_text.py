"""AMD's assembly as LLVM words it: instructions, labels and directives of each program."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

VCC, M0, EXEC = 106, 124, 126  # numbers of registers that have names
_NAMES = {
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "exec": (EXEC, 2), "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1), "m0": (M0, 1),
}  # fmt: skip
_NOTES = (
    "offset", "row_shl", "row_mask", "bank_mask", "bound_ctrl", "clamp", "src0_sel", "src1_sel", "dst_sel",
    "dst_unused", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "glc", "slc", "dlc", "sc0", "sc1", "nt",
)  # fmt: skip
# what waits, orders accesses, or hints
IDLE = re.compile(
    r"s_(waitcnt\w*|nop|delay_alu|clause|set_inst_prefetch_distance|inst_prefetch|denorm_mode|setreg_imm32_b32|sleep"
    r"|sendmsg)|buffer_(gl0_inv|gl1_inv|inv|wbl2|wbinvl1\w*)"
)


class Operand(NamedTuple):
    """``kind``: "v", "s", "i" (a number) or "" (none). ``at``: its first register, or the number. ``half``: "l" or "h"
    where it is 16 bits of a register, ``extended`` where part of one is taken with its sign."""

    kind: str
    at: Any = 0
    count: int = 1
    negative: bool = False
    absolute: bool = False
    half: str = ""
    extended: bool = False


class Instruction(NamedTuple):
    """``name`` without the suffix of its encoding; ``notes``: what follows the operands, "offset:16" as {"offset": 16};
    ``lists``: "op_sel:[0,1]" as {"op_sel": (0, 1)}."""

    name: str
    args: tuple[Operand, ...]
    notes: dict[str, Any]
    lists: dict[str, tuple[int, ...]]
    pair: Instruction | None  # the other half of a dual one
    text: str


def _operand(text: str) -> Operand:
    negative = text.startswith("-") and text[1:2] in "v|s"
    text = text[1:] if negative else text
    absolute = text.startswith("|")
    text = text.strip("|")
    if text.startswith("sext("):
        return _operand(text[5:-1])._replace(extended=True)
    if text in _NAMES:
        return Operand("s", *_NAMES[text], negative, absolute)
    if text in ("off", "null"):
        return Operand("", 0)
    halved = re.fullmatch(r"v(\d+)\.([lh])", text)
    if halved:
        return Operand("v", int(halved[1]), 1, negative, absolute, halved[2])
    found = re.fullmatch(r"([vs])(\d+)|([vs])\[(\d+):(\d+)\]", text)
    if found:
        kind, first = found[1] or found[3], int(found[2] or found[4])
        return Operand(kind, first, int(found[5]) - first + 1 if found[5] else 1, negative, absolute)
    if re.fullmatch(r"-?\d+\.\d+(e[-+]?\d+)?", text):
        return Operand("i", float(text))
    if text.startswith(("src_", "lit(")):
        raise NotImplementedError(text)
    return Operand("i", int(text, 0))


def parse(text: str) -> tuple[dict[str, list[Instruction]], dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Parses assembly: each program's instructions, the places of its labels, and its .amdhsa directives."""
    programs: dict[str, list[Instruction]] = {}
    labels: dict[str, dict[str, int]] = {}
    directives: dict[str, dict[str, int]] = {}
    now: list[Instruction] = []
    places: dict[str, int] = {}
    about: dict[str, int] = {}
    for line in text.splitlines():
        line = re.sub(r"\s*(;|//).*$", "", line)
        kernel, label = re.match(r"\s*\.amdhsa_kernel (\w+)", line), re.match(r"([.\w]+):", line)
        directive = re.match(r"\s*\.amdhsa_(\w+) (\d+)$", line)
        if kernel:
            about = directives[kernel[1]] = {}
        elif directive:
            about[directive[1]] = int(directive[2])
        elif label and not label[1].startswith("."):
            now, places = programs.setdefault(label[1], []), labels.setdefault(label[1], {})
        elif label:
            places[label[1]] = len(now)
        elif re.match(r"\t[a-z]\w+( |$)", line):
            now.append(_instruction(line.strip()))
    return programs, labels, directives


def _instruction(text: str) -> Instruction:
    first, _, second = text.partition(" :: ")
    name, _, rest = first.partition(" ")
    if name.startswith(("s_cbranch", "s_branch")) or IDLE.fullmatch(name):
        return Instruction(name, (), {rest.strip(): 0}, {}, None, text)
    notes: dict[str, Any] = {}
    lists: dict[str, tuple[int, ...]] = {}
    parts = [p.strip() for p in re.split(r",(?![^\[]*\])", rest)] if rest else []
    if parts:  # notes stand behind the last operand, with blanks between them
        parts[-1], *words = parts[-1].split()
        for word in words:
            key, _, value = word.partition(":")
            if key not in _NOTES:
                raise NotImplementedError(text)
            if value.startswith("["):
                lists[key] = tuple(int(x) for x in value[1:-1].split(","))
            else:
                notes[key] = value if value[:1].isupper() else int(value or "1", 0)
    plain = re.sub(r"(_e32|_e64)?(_dpp|_sdwa)?$", "", name, count=1).replace("v_dual_", "v_")
    pair = _instruction(second) if second else None
    return Instruction(plain, tuple(_operand(p) for p in parts), notes, lists, pair, text)
