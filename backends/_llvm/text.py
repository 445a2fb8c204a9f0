"""Builds the text of LLVM IR: types with their lanes, constants, functions and modules."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from quadrants_lab.ir.nodes import NO_ID
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f16

_SCALAR = {"f16": "half", "f32": "float", "f64": "double"}


@dataclass(frozen=True, slots=True)
class Ty:
    """The LLVM type of a value: a dtype and a number of lanes. ``text``: the type in LLVM's spelling; ``suffix``: the
    end of an intrinsic's name for this type."""

    dtype: DType
    lanes: int
    text: str
    suffix: str


@cache
def ty(dtype: DType, lanes: int = 1) -> Ty:
    scalar = _SCALAR.get(dtype.name, f"i{dtype.bits}")
    suffix = dtype.name if dtype.is_float else scalar
    if lanes > 1:
        scalar, suffix = f"<{lanes} x {scalar}>", f"v{lanes}{suffix}"
    return Ty(dtype, lanes, scalar, suffix)


def memory_type(dtype: DType) -> str:
    """The type of an element in memory, which differs from its type in a register only for u1: a byte."""
    return "i8" if dtype.kind == "b" else ty(dtype).text


def variable_type(t: DType, lanes: int) -> str:
    """The type of a local variable that holds an element for each lane."""
    return memory_type(t) if lanes == 1 else ty(t, lanes).text


def constant(t: Ty, value: Any) -> str:
    """The text of the operand that is the constant ``value`` in every lane."""
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
    """The text of a function under construction: its lines, the IR statement that each line comes from, and the label
    of the basic block that is being filled."""

    def __init__(self, module: Module, head: str) -> None:
        self.module = module
        self.lines: list[str] = [head + " {", "entry:"]
        self.ids: list[int] = [NO_ID, NO_ID]
        self.block = "entry"
        self.stmt = NO_ID  # the statement whose code is being emitted
        self.count = 0

    def put(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append("  " + text)
        self.ids.append(self.stmt)

    def let(self, text: str) -> str:
        """Appends an instruction and returns the new name of its result."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {text}")
        self.ids.append(self.stmt)
        return name

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def start(self, label: str) -> None:
        """Begins the basic block ``label``. The block before it must have ended with a jump."""
        self.lines.append(f"{label}:")
        self.ids.append(NO_ID)
        self.block = label

    def jump(self, label: str) -> None:
        self.put(f"br label %{label}")

    def enter(self, label: str) -> None:
        """Ends the present basic block with a jump to ``label``, and begins the block ``label``."""
        self.jump(label)
        self.start(label)

    def branch(self, cond: str, then: str, orelse: str) -> None:
        self.put(f"br i1 {cond}, label %{then}, label %{orelse}")

    @contextmanager
    def when(self, cond: str, hint: str, on: str = "on") -> Iterator[None]:
        """Makes a context whose code runs only if the i1 holds. ``hint`` and ``on`` name the conditional block and
        the block after it."""
        there, behind = self.label(hint), self.label(on)
        self.branch(cond, there, behind)
        self.start(there)
        yield
        self.enter(behind)

    def phi(self, type: str, *incoming: tuple[str, str]) -> str:
        """Emits a phi. ``incoming``: pairs of a value and the label of the block that it comes from."""
        return self.let(f"phi {type} " + ", ".join(f"[{v}, %{b}]" for v, b in incoming))

    def cycle(
        self, head: str, *first: tuple[str, str], entered: bool = False
    ) -> tuple[list[str], Callable[..., None]]:
        """Begins the basic block ``head`` of a loop, with a phi for each (type, first value) of ``first``. Returns the
        names of the phis, and a function that emits the jump back to ``head`` and takes the phis' next values.
        ``entered``: the block before jumps to ``head`` already."""
        if not entered:
            self.jump(head)
        before, at = self.block, len(self.lines) + 1
        self.start(head)
        names = [self.let("") for _ in first]

        def again(*values: str) -> None:
            for n, (name, (type, init), value) in enumerate(zip(names, first, values, strict=True)):
                self.lines[at + n] = f"  {name} = phi {type} [{init}, %{before}], [{value}, %{self.block}]"

        return names, again

    def read(self, t: DType, ptr: str, tag: str = "", lanes: int = 1, volatile: bool = False) -> str:
        """The value at an address, or the value of a variable with ``lanes``. A u1 is a byte in memory, and true if the
        byte is not 0."""
        value = self.let(f"load {'volatile ' * volatile}{variable_type(t, lanes)}, ptr {ptr}{tag}")
        return self.let(f"icmp ne i8 {value}, 0") if t.kind == "b" and lanes == 1 else value

    def write(
        self, t: DType, ptr: str, value: str, tag: str = "", lanes: int = 1, volatile: bool = False
    ) -> None:  # fmt: skip
        value = self.stored(t, value) if lanes == 1 else value
        self.put(f"store {'volatile ' * volatile}{variable_type(t, lanes)} {value}, ptr {ptr}{tag}")

    def stored(self, t: DType, value: str) -> str:
        """The value in the form that memory holds: a u1 becomes a byte."""
        return self.let(f"zext i1 {value} to i8") if t.kind == "b" else value

    @contextmanager
    def loop(self, hint: str, type: str, begin: str, end: str, done: str, step: str = "1", add: str = "add",
             less: str = "slt", hoisting: bool = True) -> Iterator[str]:  # fmt: skip
        """Emits a loop whose index, of the given integer type, runs from ``begin`` to before ``end``, with at least one
        trip; then it jumps to the label ``done``. A context manager whose value is the index; what is emitted within it
        is the body. Without ``hoisting`` LLVM moves nothing out of the loop: a second entry, which is never taken,
        makes the loop irreducible."""
        head, before = self.label(hint), self.block
        latch, last = "", ""
        if not hoisting:
            latch, last = self.label("next"), self.let(f"sub {type} {begin}, {step}")
            self.branch(self.let(f"icmp {less} {type} {begin}, {end}"), head, latch)
        (index,), again = self.cycle(head, (type, begin), entered=not hoisting)
        yield index
        at, inside = index, self.block
        if latch:
            self.enter(latch)
            at = self.phi(type, (index, inside), (last, before))
        after = self.let(f"{add} {type} {at}, {step}")
        again(after)
        self.branch(self.let(f"icmp {less} {type} {after}, {end}"), head, done)

    def at(self, offset: int | str, base: str = "%frame") -> str:
        """The address ``offset`` bytes after the address ``base``."""
        return self.let(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")

    def word(self, offset: int, type: str = "i64", base: str = "%frame") -> str:
        """Reads the word ``offset`` bytes after the address ``base``."""
        return self.let(f"load {type}, ptr {self.at(offset, base)}")

    def alloca(self, type: str) -> str:
        """Emits a local variable and returns its address, in the generic address space. Call it in the entry block."""
        space = self.module.private_space
        if not space:
            return self.let(f"alloca {type}")
        own = self.let(f"alloca {type}, addrspace({space})")
        return self.let(f"addrspacecast ptr addrspace({space}) {own} to ptr")

    def atomic(self, text: str, order: str = "monotonic", tag: str = "") -> str:
        """Appends an atomic instruction that is seen by all threads of a launch; returns the name of its result."""
        notes = self.module.atomic_notes if text.startswith("atomicrmw") else ""
        return self.let(f"{text} {self.module.atomic_scope}{order}{tag}{notes}")

    def call(
        self, result: str, name: str, *args: tuple[str, str], flags: str = "", attrs: str = "", tag: str = ""
    ) -> str:
        """Emits a call of a function, and declares the function unless the module defines it. ``args``: pairs of type
        and value."""
        self.module.declare(name, result, tuple(t for t, _ in args), attrs)
        text = f"call {flags}{result} @{name}({', '.join(f'{t} {v}' for t, v in args)}){tag}"
        if result == "void":
            self.put(text)
            return ""
        return self.let(text)

    def extreme(self, which: str, a: str, b: str) -> str:
        """Emits the minimum or maximum of two i64; ``which`` is smin, smax, umin or umax."""
        return self.call("i64", f"llvm.{which}.i64", ("i64", a), ("i64", b))

    def widened(self, value: str, t: DType) -> str:
        """Extends an integer of dtype ``t`` to an i64."""
        if value in ("true", "false"):
            return str(int(value == "true"))
        op = "sext" if t.kind == "i" else "zext"
        return value if t.bits == 64 or value[0] != "%" else self.let(f"{op} {ty(t).text} {value} to i64")

    def narrowed(self, value: str, t: DType) -> str:
        """Truncates an i64 to an integer of dtype ``t``."""
        return value if t.bits == 64 else self.let(f"trunc i64 {value} to {ty(t).text}")

    def divided_up(self, n: str, by: str) -> str:
        """Emits the quotient, rounded up, of two i64 that are not negative."""
        more = self.let(f"sub i64 {by}, 1")
        return self.let(f"udiv i64 {self.let(f'add i64 {n}, {more}')}, {by}")

    def end(self) -> None:
        """Emits a return, and closes the function."""
        self.put("ret void")
        self.close()

    def close(self, library: bool = False) -> None:
        """Closes the function and adds it to the module. ``library`` functions are printed after all others, since
        readers rarely need them."""
        self.lines.append("}")
        self.ids.append(NO_ID)
        (self.module.library if library else self.module.functions).append(self)

    def as_helper(self, name: str) -> None:
        """Closes the function and adds it to the module as a helper."""
        self.module.helper(name, "\n".join([*self.lines, "}"]))


# from the result type to the end of the parameters
_DEFINE = r"define (?:internal )?([^@\n]+ @{}\((?:[^()\n]|\([^()\n]*\))*\))"


def _head(name: str, text: str) -> str:
    """The result type and the parameter types of the function ``name``, read from the text that defines it."""
    found = re.search(_DEFINE.format(re.escape(name)), text)
    assert found, name
    return re.sub(r" %[\w.]+", "", found[1])


class Module:
    """A module under construction: functions, helper functions and declarations."""

    def __init__(self, triple: str, layout: str) -> None:
        self.triple = triple
        self.layout = layout
        self.functions: list[Function] = []
        self.library: list[Function] = []
        self.declared: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.defined: dict[str, str] = {}  # name of a function -> the text of its definition, or the first line of it
        self.heads: dict[str, str] = {}  # name of a called function -> its result type and parameter types
        self.metadata: list[str] = []
        self.private_space = 0  # LLVM's index of the address space of local variables
        self.atomic_scope = ""  # LLVM's syncscope for atomics, followed by a blank; "" means the whole system
        self.atomic_notes = ""  # metadata of each atomicrmw
        self.own: Mapping[str, Callable[[Any], str]] = {}  # the target's own sequences of float primitives, see `ops`

    def declare(self, name: str, result: str, args: tuple[str, ...], attrs: str = "") -> None:
        """Declares a function with its result type and argument types. Raises TypeError if they disagree with another
        call or with its definition: LLVM itself would compile such a call without an error."""
        asked = f"{result} @{name}({', '.join(args)})"
        if name not in self.heads:
            self.heads[name] = _head(name, self.defined[name]) if name in self.defined else asked
        if self.heads[name] != asked:
            raise TypeError(f"{name} is called as {asked}, but it is {self.heads[name]}")
        if name not in self.declared and name not in self.defined:
            self.declared[name] = f"declare {asked}{' ' + attrs if attrs else ''}"

    def helper(self, name: str, text: str) -> None:
        """Adds the text of a function that other functions call, unless the module has it already."""
        self.defined[name] = self.helpers[name] = text

    def function(self, name: str, head: str) -> Function:
        self.defined[name] = head
        return Function(self, head)

    def lines(self) -> tuple[list[str], list[int]]:
        """The lines of the module, and the statement id of each of them."""
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
