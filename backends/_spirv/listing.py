"""Prints a SPIR-V module as text like spirv-dis, one instruction a line; types and constants are shown by their
meaning."""

import struct

from quadrants_lab.backends import Stage
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import Instruction, Module
from quadrants_lab.ir.nodes import NO_ID

_OPS = {number: (name, form) for name, (number, form) in C.OPS.items()}
_NAMES = {letter: {n: name for name, n in table.items()} for letter, table in C.ENUMERANTS.items()}
_SHORT = {"PhysicalStorageBuffer": "memory", "PushConstant": "push"}
_NO_CODE = {"Label", "Line", "Function", "FunctionParameter", "FunctionEnd", "Variable"}


def listing(module: Module, code_bytes: int) -> Stage:
    """The module as a stage. ``code_bytes``: the size of its binary."""
    instructions, ids = module.instructions()
    names = _names(instructions)
    lines: list[str] = []
    out_ids: list[int] = []
    count = phis = 0
    inside = False
    for ins, id in zip(instructions, ids, strict=True):
        name = _OPS[ins[0]][0]
        if name == "Function":
            inside = True
            lines.append("")
            out_ids.append(NO_ID)
        lines.append(_line(ins, names))
        out_ids.append(id)
        count += inside and name not in _NO_CODE
        phis += name == "Phi"
    return Stage("spirv", "\n".join(lines), tuple(out_ids), count, code_bytes, phis)


def text_at(words: Instruction, at: int) -> tuple[str, int]:
    """The string that begins at the word with index ``at``, and the index of the word after it."""
    text = struct.pack(f"<{len(words) - at}I", *words[at:]).split(b"\0")[0]
    return text.decode(), at + len(text) // 4 + 1


def _names(instructions: list[Instruction]) -> dict[int, str]:
    """The names of the ids that are not shown as numbers."""
    names: dict[int, str] = {}
    spelled_before: set[str] = set()
    strings: dict[int, str] = {}
    for ins in instructions:
        name = _OPS[ins[0]][0]
        if name == "Name":
            names[ins[1]] = text_at(ins, 2)[0]
        elif name == "String":
            strings[ins[1]] = text_at(ins, 2)[0]
        elif name in _SPELLED:
            result = ins[2] if name.startswith("Constant") else ins[1]
            spelled = _SPELLED[name](ins, names)
            if spelled in spelled_before:  # pointer types that differ only in their stride
                spelled = f"{spelled}_{result}"
            spelled_before.add(spelled)
            names.setdefault(result, spelled)
    return names


def _pointer(ins: Instruction, names: dict[int, str]) -> str:
    storage = _NAMES["S"][ins[2]]
    return f"ptr_{_SHORT.get(storage, storage.lower())}_{names.get(ins[3], ins[3])}"


def _constant(ins: Instruction, names: dict[int, str]) -> str:
    t = names[ins[1]]
    bits = sum(w << (32 * n) for n, w in enumerate(ins[3:]))
    if t[0] == "f":
        form = {"f16": "<e", "f32": "<f", "f64": "<d"}[t]
        value = struct.unpack(form, bits.to_bytes(int(t[1:]) // 8, "little"))[0]
        return f"{t}_{value!r}"
    return f"{t}_{bits}"


_SPELLED = {
    "TypeVoid": lambda ins, names: "void",
    "TypeBool": lambda ins, names: "bool",
    "TypeInt": lambda ins, names: f"u{ins[2]}",
    "TypeFloat": lambda ins, names: f"f{ins[2]}",
    "TypeVector": lambda ins, names: f"{names[ins[2]]}x{ins[3]}",
    "TypeArray": lambda ins, names: f"{names[ins[2]]}_{names[ins[3]].partition('_')[2]}",
    "TypePointer": _pointer,
    "ConstantTrue": lambda ins, names: "true",
    "ConstantFalse": lambda ins, names: "false",
    "Constant": _constant,
}


def _line(ins: Instruction, names: dict[int, str]) -> str:
    """The line of an instruction, whose form says how its operands are shown."""
    op, form = _OPS[ins[0]]
    result, operands = "", []
    at, n = 1, 0
    while at < len(ins):
        letter = form[min(n, len(form) - 1)]
        n += 1
        word = ins[at]
        if letter == "s":
            text, at = text_at(ins, at)
            operands.append(f'"{text}"')
            continue
        at += 1
        if letter in "tir":
            shown = f"%{names.get(word, word)}"
            if letter == "r":
                result = shown
            else:
                operands.append(shown)
        elif letter == "n":
            operands.append(str(word))
        else:
            operands.append(_NAMES[letter].get(word, str(word)))
    left = f"{result} = " if result else ""
    return f"{left:>18}Op{op} {' '.join(operands)}".rstrip()
