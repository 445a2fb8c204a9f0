"""Building blocks of LLVM IR text: types with their lanes, constants, a function under construction, a module."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants_lab.ir.nodes import NO_ID
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f16

_SCALAR = {"f16": "half", "f32": "float", "f64": "double"}
_SUFFIX = {"f16": "f16", "f32": "f32", "f64": "f64"}


@dataclass(frozen=True, slots=True)
class Ty:
    """A value's type: dtype and number of lanes. ``text`` as LLVM writes it, ``suffix`` as in intrinsics' names."""

    dtype: DType
    lanes: int
    text: str
    suffix: str


_TYPES: dict[tuple[DType, int], Ty] = {}


def ty(dtype: DType, lanes: int = 1) -> Ty:
    known = _TYPES.get((dtype, lanes))
    if known is None:
        scalar = _SCALAR.get(dtype.name, f"i{dtype.bits}")
        suffix = _SUFFIX.get(dtype.name, f"i{dtype.bits}")
        text, suffix = (scalar, suffix) if lanes == 1 else (f"<{lanes} x {scalar}>", f"v{lanes}{suffix}")
        known = _TYPES[(dtype, lanes)] = Ty(dtype, lanes, text, suffix)
    return known


def memory_type(dtype: DType) -> str:
    """The type of an element in memory: a u1 takes a byte there."""
    return "i8" if dtype.kind == "b" else ty(dtype).text


def constant(t: Ty, value: Any) -> str:
    """An operand's text for a constant of the type, in every lane."""
    text = _scalar(t.dtype, value)
    return text if t.lanes == 1 else f"splat ({ty(t.dtype).text} {text})"


def _scalar(dtype: DType, value: Any) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype is f16:
        return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    x = float(dtype.numpy(value)) if not math.isnan(value) else float("nan")
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


class Function:
    """One function's text: lines, the statement that each line comes from, and the block being filled."""

    def __init__(self, module: Module, head: str) -> None:
        self.module = module
        self.lines: list[str] = [head + " {", "entry:"]
        self.ids: list[int] = [NO_ID, NO_ID]
        self.block = "entry"
        self.stmt = NO_ID  # the statement whose code is being emitted
        self.count = 0

    def put(self, text: str) -> int:
        """Appends an instruction without a result; returns the line's number, for `patch`."""
        self.lines.append("  " + text)
        self.ids.append(self.stmt)
        return len(self.lines) - 1

    def let(self, text: str) -> str:
        """Appends an instruction and returns the name of its result."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {text}")
        self.ids.append(self.stmt)
        return name

    def hole(self) -> tuple[str, int]:
        """A name whose instruction (a phi) is not known yet, and the line where `patch` will put it."""
        return self.let(""), len(self.lines) - 1

    def patch(self, line: int, text: str) -> None:
        self.lines[line] = "  " + text

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def start(self, label: str) -> None:
        """Opens the block ``label``; the one before must have ended."""
        self.lines.append(f"{label}:")
        self.ids.append(NO_ID)
        self.block = label

    def jump(self, label: str) -> None:
        self.put(f"br label %{label}")

    def branch(self, cond: str, then: str, orelse: str) -> None:
        self.put(f"br i1 {cond}, label %{then}, label %{orelse}")

    def phi(self, type: str, *ways: tuple[str, str]) -> str:
        return self.let(f"phi {type} " + ", ".join(f"[{v}, %{b}]" for v, b in ways))

    def alloca(self, type: str) -> str:
        """Address of a local variable, as an ordinary pointer; in the entry block."""
        space = self.module.private_space
        if not space:
            return self.let(f"alloca {type}")
        own = self.let(f"alloca {type}, addrspace({space})")
        return self.let(f"addrspacecast ptr addrspace({space}) {own} to ptr")

    def atomic(self, text: str, order: str = "monotonic", tag: str = "") -> str:
        """Appends an atomic instruction, as wide in its effect as a launch is; returns the name of its result."""
        notes = self.module.atomic_notes if text.startswith("atomicrmw") else ""
        return self.let(f"{text} {self.module.atomic_scope}{order}{tag}{notes}")

    def call(self, result: str, name: str, *args: tuple[str, str], flags: str = "", attrs: str = "") -> str:
        """Calls a function of the module or one from outside, which it declares; ``args`` are (type, value)."""
        self.module.declare(name, result, tuple(t for t, _ in args), attrs)
        text = f"call {flags}{result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if result == "void":
            self.put(text)
            return ""
        return self.let(text)

    def close(self, library: bool = False) -> None:
        """Ends the function; one of the ``library`` stands behind all others, for readers."""
        self.lines.append("}")
        self.ids.append(NO_ID)
        (self.module.library if library else self.module.functions).append(self)


class Module:
    """Functions, and the declarations and helper functions that they call for."""

    def __init__(self, triple: str, layout: str) -> None:
        self.triple = triple
        self.layout = layout
        self.functions: list[Function] = []
        self.library: list[Function] = []
        self.declared: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.defined: set[str] = set()
        self.metadata: list[str] = []
        self.private_space = 0  # LLVM's number of the address space of local variables
        self.atomic_scope = ""  # how far atomics are seen, with its blank; "": everywhere
        self.atomic_notes = ""  # metadata of each atomicrmw
        self.own: dict[str, Callable[[Any], str]] = {}  # what the target spells its own way on floats: see `ops`

    def declare(self, name: str, result: str, args: tuple[str, ...], attrs: str = "") -> None:
        if name not in self.declared and name not in self.defined:
            self.declared[name] = f"declare {result} @{name}({', '.join(args)}){' ' + attrs if attrs else ''}"

    def helper(self, name: str, text: str) -> None:
        """A function that sequences call; emitted once."""
        self.defined.add(name)
        self.helpers[name] = text

    def function(self, name: str, head: str) -> Function:
        self.defined.add(name)
        return Function(self, head)

    def lines(self) -> tuple[list[str], list[int]]:
        """The module's text, line by line, and the statement id of each line."""
        lines = [f'target datalayout = "{self.layout}"', f'target triple = "{self.triple}"']
        ids: list[int] = [NO_ID, NO_ID]
        for fn in (*self.functions, *self.library):
            lines += fn.lines
            ids += fn.ids
        for text in (*self.helpers.values(), *self.declared.values()):
            lines += text.splitlines()
        lines.append("attributes #0 = { nounwind willreturn memory(none) }")
        lines += self.metadata
        return lines, ids + [NO_ID] * (len(lines) - len(ids))
