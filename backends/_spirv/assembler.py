"""A SPIR-V module under construction: types, constants and globals made once each, functions, words."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.nodes import NO_ID
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, u1, u8, u16, u32, u64

Instruction = list[int]  # opcode and operands
UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


def text_words(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


class Module:
    """Ids count from 1. All integers are unsigned in SPIR-V's types; signs are in the instructions.

    ``functions``: what may be called. ``lines``: instructions say from which line of the
    source they came.
    """

    def __init__(self, functions: Mapping[str, N.Function], target: Target, lines: bool = False) -> None:
        self.bound = 1
        self.callable = functions
        self.target = target
        self.lines = lines
        self.capabilities: dict[str, None] = {}
        self.extensions: dict[str, None] = {}
        self.entries: list[Instruction] = []
        self.modes: list[Instruction] = []
        self.names: list[Instruction] = []
        self.decorations: list[Instruction] = []
        self.globals: list[Instruction] = []
        self.strings: list[Instruction] = []
        self.functions: list[Function] = []
        self.helpers: dict[Any, int] = {}  # functions that sequences call, by what they are
        self.interface: list[int] = []
        self._made: dict[Any, int] = {}
        self._files: dict[str, int] = {}
        self.glsl = self.fresh()
        self.void = self._type("TypeVoid")
        self.bool = self._type("TypeBool")
        self.need("Shader")
        self.need("PhysicalStorageBufferAddresses")
        self.need("Int64")

    def fresh(self) -> int:
        self.bound += 1
        return self.bound - 1

    def need(self, capability: str) -> None:
        self.capabilities[capability] = None

    # --- types -------------------------------------------------------------------------------------------------

    def _once(self, key: Any, make: Any) -> int:
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = make()
        return known

    def _type(self, op: str, *operands: int) -> int:
        def make() -> int:
            id = self.fresh()
            self.globals.append([C.OPS[op][0], id, *operands])
            return id

        return self._once((op, operands), make)

    def type(self, t: DType) -> int:
        """The type of a value of the dtype."""
        if t is u1:
            return self.bool
        known = self._made.get(t)
        if known is None:
            name = f"{'Float' if t.is_float else 'Int'}{t.bits}"
            if t.bits != 32:
                self.need(name)
            known = self._type("TypeFloat", t.bits) if t.is_float else self._type("TypeInt", t.bits, 0)
            self._made[t] = known
        return known

    def vector(self, element: int, count: int) -> int:
        return self._type("TypeVector", element, count)

    def function_type(self, result: int, *args: int) -> int:
        return self._type("TypeFunction", result, *args)

    def pointer(self, storage: str, to: int) -> int:
        return self._type("TypePointer", C.STORAGE[storage], to)

    def wide(self, t: DType, width: int) -> int:
        """The type of ``width`` values of the dtype."""
        return self.type(t) if width == 1 else self.vector(self.type(t), width)

    def memory_pointer(self, t: DType, width: int = 1, apart: int = 1) -> int:
        """Type of a pointer into device memory, to elements of ``width`` values, so many times their size ``apart``."""
        if t.bits < 32:
            self.need(f"StorageBuffer{t.bits}BitAccess")

        def make() -> int:
            id = self.fresh()  # not `pointer`: those of another stride are types of their own
            self.globals.append([C.OPS["TypePointer"][0], id, C.STORAGE["PhysicalStorageBuffer"], self.wide(t, width)])
            self.decorate(id, "ArrayStride", t.nbytes * width * apart)
            return id

        return self._once(("memory", t.bits, t.is_float, width, apart), make)

    # --- constants and globals ---------------------------------------------------------------------------------

    def const(self, t: DType, value: Any) -> int:
        if t.kind == "b":
            return self._const("ConstantTrue" if value else "ConstantFalse", self.bool)
        if t.is_float:
            bits = int(np.asarray(value, t.numpy).view(f"u{t.nbytes}"))
        else:
            bits = int(value) & ((1 << t.bits) - 1)
        words = (bits,) if t.bits <= 32 else (bits & 0xFFFFFFFF, bits >> 32)
        return self._const("Constant", self.type(t), *words)

    def _const(self, op: str, type: int, *words: int) -> int:
        def make() -> int:
            id = self.fresh()
            self.globals.append([C.OPS[op][0], type, id, *words])
            return id

        return self._once((op, type, words), make)

    def variable(self, name: str, storage: str, type: int) -> int:
        """A global variable; every entry point lists all of them."""

        def make() -> int:
            id = self.fresh()
            pointer = self.pointer(storage, type)
            self.globals.append([C.OPS["Variable"][0], pointer, id, C.STORAGE[storage]])
            self.interface.append(id)
            self.name(id, name)
            return id

        return self._once(("variable", name), make)

    def push_block(self) -> int:
        """The push constant: a structure of one u64, the address of the launch frame."""

        def make() -> int:
            block = self._type("TypeStruct", self.type(u64))
            self.decorate(block, "Block")
            self.decorations.append([C.OPS["MemberDecorate"][0], block, 0, C.DECORATIONS["Offset"], 0])
            return self.variable("frame", "PushConstant", block)

        return self._once("push", make)

    def builtin(self, name: str) -> int:
        """A built-in input of three u32."""

        def make() -> int:
            id = self.variable(name, "Input", self.vector(self.type(u32), 3))
            self.decorate(id, "BuiltIn", C.BUILTINS[name])
            return id

        return self._once(("builtin", name), make)

    def decorate(self, id: int, decoration: str, *values: int) -> None:
        self.decorations.append([C.OPS["Decorate"][0], id, C.DECORATIONS[decoration], *values])

    def name(self, id: int, text: str) -> None:
        self.names.append([C.OPS["Name"][0], id, *text_words(text)])

    def file(self, name: str) -> int:
        known = self._files.get(name)
        if known is None:
            known = self._files[name] = self.fresh()
            self.strings.append([C.OPS["String"][0], known, *text_words(name)])
        return known

    def entry(self, function: int, name: str, group: int) -> None:
        self.entries.append([function, *text_words(name)])
        self.modes.append([C.OPS["ExecutionMode"][0], function, C.MODES["LocalSize"], group, 1, 1])

    # --- output ------------------------------------------------------------------------------------------------

    def instructions(self) -> tuple[list[Instruction], list[int]]:
        """All instructions in order, and the statement that each comes from."""
        number = {name: op for name, (op, _) in C.OPS.items()}
        head: list[Instruction] = [[number["Capability"], C.CAPABILITIES[c]] for c in self.capabilities]
        head += [[number["Extension"], *text_words(e)] for e in self.extensions]
        head.append([number["ExtInstImport"], self.glsl, *text_words("GLSL.std.450")])
        head.append([number["MemoryModel"], C.PHYSICAL_64, C.GLSL450])
        head += [[number["EntryPoint"], C.COMPUTE, *e, *self.interface] for e in self.entries]
        head += [*self.modes, *self.strings, *self.names, *self.decorations, *self.globals]
        ids = [NO_ID] * len(head)
        for fn in self.functions:
            for part in (fn.start_part, fn.variables, fn.head, fn.body, fn.end_part):
                head += part.instructions
                ids += part.ids
        return head, ids

    def words(self) -> bytes:
        """The binary."""
        out = [C.MAGIC, C.VERSION, C.GENERATOR, self.bound, 0]
        for ins in self.instructions()[0]:
            out.append((len(ins) << 16) | ins[0])
            out += ins[1:]
        return np.array(out, np.uint32).tobytes()


class Part:
    """A run of instructions with the statement of each."""

    __slots__ = ("ids", "instructions", "span")

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.ids: list[int] = []
        self.span: Span | None = None  # what the last OpLine of the block says


class Function:
    """One function: local variables, what is done once at its start (``head``), and its body. A helper is the code of
    the statement ``stmt`` that first called it."""

    def __init__(
        self, module: Module, result: int, args: tuple[int, ...], name: str, stmt: int = NO_ID, span: Span | None = None
    ) -> None:
        self.module = module
        self.id = module.fresh()
        self.start_part, self.variables, self.head, self.body, self.end_part = (Part() for _ in range(5))
        self.out = self.body
        self.stmt = stmt  # the statement whose code is being emitted
        self.span = span
        self._owner = stmt
        self.cut = 0  # the variable of `note_cut`
        m = module
        module.name(self.id, name)
        start = self.start_part.instructions
        start.append([C.OPS["Function"][0], result, self.id, 0, m.function_type(result, *args)])
        self.params = [m.fresh() for _ in args]
        start += [[C.OPS["FunctionParameter"][0], t, p] for t, p in zip(args, self.params, strict=True)]
        self.block = m.fresh()
        start.append([C.OPS["Label"][0], self.block])
        self.start_part.ids += [stmt] * len(start)

    def put(self, op: str, *operands: int) -> Instruction:
        """Appends an instruction without a result; returns it, so that operands can be filled in later."""
        out = self.out
        if self.module.lines and self.span is not out.span and self.span is not None:
            out.span = span = self.span
            out.instructions.append([C.OPS["Line"][0], self.module.file(span.file), span.line, span.col + 1])
            out.ids.append(self.stmt)
        ins = [C.OPS[op][0], *operands]
        out.instructions.append(ins)
        out.ids.append(self.stmt)
        return ins

    def let(self, op: str, type: int, *operands: int) -> int:
        """Appends an instruction and returns the id of its result."""
        id = self.module.fresh()
        self.put(op, type, id, *operands)
        return id

    def glsl(self, name: str, type: int, *args: int) -> int:
        return self.let("ExtInst", type, self.module.glsl, C.GLSL[name], *args)

    def local(self, type: int) -> int:
        """A local variable."""
        id = self.module.fresh()
        pointer = self.module.pointer("Function", type)
        self.variables.instructions.append([C.OPS["Variable"][0], pointer, id, C.STORAGE["Function"]])
        self.variables.ids.append(NO_ID)
        return id

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """What is emitted inside runs once, when the function starts."""
        outer, self.out = self.out, self.head
        try:
            yield
        finally:
            self.out = outer

    def note_cut(self, again: int) -> None:
        """Remembers that a loop was left although ``again`` still held."""
        m = self.module
        if not self.cut:
            self.cut = self.local(m.bool)
            with self.at_start():
                self.put("Store", self.cut, m.const(u1, False))
        before = self.let("Load", m.bool, self.cut)
        self.put("Store", self.cut, self.let("LogicalOr", m.bool, before, again))

    # --- blocks ------------------------------------------------------------------------------------------------

    def label(self) -> int:
        return self.module.fresh()

    def start(self, label: int) -> None:
        """Opens the block ``label``; the one before must have ended."""
        self.out.instructions.append([C.OPS["Label"][0], label])
        self.out.ids.append(self.stmt)
        self.out.span = None
        self.block = label

    def jump(self, label: int) -> None:
        self.put("Branch", label)

    def branch(self, cond: int, then: int, orelse: int, merge: int = 0) -> None:
        """``merge``: where both ways meet again; 0 for a branch that leaves a loop."""
        if merge:
            self.put("SelectionMerge", merge, 0)
        self.put("BranchConditional", cond, then, orelse)

    def phi(self, type: int, *ways: tuple[int, int]) -> int:
        return self.let("Phi", type, *(x for way in ways for x in way))

    def open_phi(self, type: int, first: int, block: int) -> tuple[int, Instruction]:
        """A loop's phi, whose value from the loop's end is still to come: `close_phi`."""
        id = self.module.fresh()
        return id, self.put("Phi", type, id, first, block)

    def close(self) -> int:
        self.end_part.instructions.append([C.OPS["FunctionEnd"][0]])
        self.end_part.ids.append(self._owner)
        self.module.functions.append(self)
        return self.id
