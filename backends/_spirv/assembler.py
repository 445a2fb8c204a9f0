"""Builds a SPIR-V module: types, constants and globals without duplicates, functions, and the binary."""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec

import numpy as np

from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.target import Target
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.nodes import NO_ID
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, u1, u8, u16, u32, u64

Instruction = list[int]  # opcode and operands
UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}
Args = ParamSpec("Args")
Method = Callable[Concatenate[Any, Args], int]


def once(make: Method[Args]) -> Method[Args]:
    """Decorates a method such that the object caches its result for each list of arguments (by ``kept``).
    """

    def call(self: Any, /, *args: Args.args, **named: Args.kwargs) -> int:
        known: int = self.kept((make.__name__, *args), lambda: make(self, *args, **named))
        return known

    return call


def text_words(text: str) -> list[int]:
    """Encodes a string literal: UTF-8 with a terminating zero, padded to whole words."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


class Module:
    """A module; its ids count from 1. Integer types are unsigned; signedness is in the instructions.

    ``functions``: the kernel's functions that statements call. ``lines``: emit OpLine, so that instructions name the
    line of the user's source.
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
        self.calls = Counter[str]()  # name of a function of the kernel -> how many statements call it
        self.helpers: dict[Any, int] = {}  # what a helper computes -> its id
        self.interface: list[int] = []
        self._made: dict[Any, int] = {}
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

    def kept(self, key: Any, make: Callable[[], int]) -> int:
        """The result of ``make`` in the first call with this key."""
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = make()
        return known

    @once
    def _type(self, op: str, *operands: int) -> int:
        id = self.fresh()
        self.globals.append([C.OPS[op][0], id, *operands])
        return id

    @once
    def type(self, t: DType) -> int:
        """The type of a value of the dtype."""
        if t is u1:
            return self.bool
        if t.bits != 32:
            self.need(f"{'Float' if t.is_float else 'Int'}{t.bits}")
        return self._type("TypeFloat", t.bits) if t.is_float else self._type("TypeInt", t.bits, 0)

    def vector(self, element: int, count: int) -> int:
        return self._type("TypeVector", element, count)

    def array(self, element: int, count: int) -> int:
        return self._type("TypeArray", element, self.const(u32, count))

    def pointer(self, storage: str, to: int) -> int:
        return self._type("TypePointer", C.STORAGE[storage], to)

    def wide(self, t: DType, width: int) -> int:
        """The type of a scalar (width 1) or of a vector of ``width`` values of the dtype."""
        return self.type(t) if width == 1 else self.vector(self.type(t), width)

    def memory_pointer(self, t: DType, width: int = 1, stride: int = 1) -> int:
        """The type of a pointer to elements of ``width`` values in device memory; neighbouring elements are ``stride``
        elements apart."""
        if t.bits < 32:
            self.need(f"StorageBuffer{t.bits}BitAccess")
        return self._memory_pointer(t if t.is_float else UNSIGNED[t.bits], width, stride)

    @once
    def _memory_pointer(self, t: DType, width: int, stride: int) -> int:
        id = self.fresh()  # not `pointer`: a stride decorates the type, so each stride needs a type of its own
        self.globals.append([C.OPS["TypePointer"][0], id, C.STORAGE["PhysicalStorageBuffer"], self.wide(t, width)])
        self.decorate(id, "ArrayStride", t.nbytes * width * stride)
        return id

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

    @once
    def _const(self, op: str, type: int, *words: int) -> int:
        id = self.fresh()
        self.globals.append([C.OPS[op][0], type, id, *words])
        return id

    @once
    def variable(self, name: str, storage: str, type: int) -> int:
        """A global variable, which every entry point lists in its interface."""
        id = self.fresh()
        self.globals.append([C.OPS["Variable"][0], self.pointer(storage, type), id, C.STORAGE[storage]])
        self.interface.append(id)
        self.name(id, name)
        return id

    @once
    def push_block(self) -> int:
        """The push constant: a structure of one u64, the address of the launch frame."""
        block = self._type("TypeStruct", self.type(u64))
        self.decorate(block, "Block")
        self.decorations.append([C.OPS["MemberDecorate"][0], block, 0, C.DECORATIONS["Offset"], 0])
        return self.variable("frame", "PushConstant", block)

    @once
    def builtin(self, name: str) -> int:
        """A built-in input variable of three u32."""
        id = self.variable(name, "Input", self.vector(self.type(u32), 3))
        self.decorate(id, "BuiltIn", C.BUILTINS[name])
        return id

    def decorate(self, id: int, decoration: str, *values: int) -> None:
        self.decorations.append([C.OPS["Decorate"][0], id, C.DECORATIONS[decoration], *values])

    def name(self, id: int, text: str) -> None:
        self.names.append([C.OPS["Name"][0], id, *text_words(text)])

    @once
    def file(self, name: str) -> int:
        """The string with the name of a source file."""
        id = self.fresh()
        self.strings.append([C.OPS["String"][0], id, *text_words(name)])
        return id

    def entry(self, function: int, name: str, group: int) -> None:
        self.entries.append([function, *text_words(name)])
        self.modes.append([C.OPS["ExecutionMode"][0], function, C.MODES["LocalSize"], group, 1, 1])

    # --- the result -------------------------------------------------------------------------------------------

    def instructions(self) -> tuple[list[Instruction], list[int]]:
        """All instructions in the order of the binary, and for each the id of its IR statement."""
        number = {name: op for name, (op, _) in C.OPS.items()}
        head: list[Instruction] = [[number["Capability"], C.CAPABILITIES[c]] for c in self.capabilities]
        head += [[number["Extension"], *text_words(e)] for e in self.extensions]
        head.append([number["ExtInstImport"], self.glsl, *text_words("GLSL.std.450")])
        head.append([number["MemoryModel"], C.PHYSICAL_64, C.GLSL450])
        head += [[number["EntryPoint"], C.COMPUTE, *e, *self.interface] for e in self.entries]
        head += [*self.modes, *self.strings, *self.names, *self.decorations, *self.globals]
        rest = [x for f in self.functions for part in (f.declaration, f.variables, f.head, f.body) for x in part]
        return [*head, *(ins for ins, _ in rest)], [*[NO_ID] * len(head), *(id for _, id in rest)]

    def words(self) -> bytes:
        """The binary of the module."""
        out = [C.MAGIC, C.VERSION, C.GENERATOR, self.bound, 0]
        for ins in self.instructions()[0]:
            out.append((len(ins) << 16) | ins[0])
            out += ins[1:]
        return np.array(out, np.uint32).tobytes()


class Part(list[tuple[Instruction, int]]):
    """Consecutive instructions of a function, each with the id of its IR statement."""

    span: Span | None = None  # the source position of the block's last OpLine


class Function:
    """One function: local variables, code that runs once at its start (``head``), and its body. If it is a helper, its
    instructions belong to ``stmt``, the IR statement that called it first. ``control``: 0 or `DONT_INLINE`."""

    def __init__(
        self, module: Module, result: int, args: tuple[int, ...], name: str, stmt: int = NO_ID,
        span: Span | None = None, control: int = 0,
    ) -> None:  # fmt: skip
        self.module = module
        self.id = module.fresh()
        self.declaration, self.variables, self.head, self.body = (Part() for _ in range(4))
        self.out = self.body
        self.stmt = stmt  # the statement whose code is being emitted
        self.span = span
        self._owner = stmt
        self.cut = 0  # the variable that `note_cut` sets, 0 if there is none
        m = module
        module.name(self.id, name)
        start = [[C.OPS["Function"][0], result, self.id, control, m._type("TypeFunction", result, *args)]]
        self.params = [m.fresh() for _ in args]
        start += [[C.OPS["FunctionParameter"][0], t, p] for t, p in zip(args, self.params, strict=True)]
        self.block = m.fresh()
        start.append([C.OPS["Label"][0], self.block])
        self.declaration += [(ins, stmt) for ins in start]

    def put(self, op: str, *operands: int) -> Instruction:
        """Appends an instruction and returns it, so that operands can be added to it later."""
        out = self.out
        if self.module.lines and self.span is not out.span and self.span is not None:
            out.span = span = self.span
            out.append(([C.OPS["Line"][0], self.module.file(span.file), span.line, span.col + 1], self.stmt))
        ins = [C.OPS[op][0], *operands]
        out.append((ins, self.stmt))
        return ins

    def let(self, op: str, type: int, *operands: int) -> int:
        """Appends an instruction and returns the id of its result."""
        id = self.module.fresh()
        self.put(op, type, id, *operands)
        return id

    def glsl(self, name: str, type: int, *args: int) -> int:
        return self.let("ExtInst", type, self.module.glsl, C.GLSL[name], *args)

    def local(self, type: int) -> int:
        """Makes a local variable of the function, of the given type."""
        id = self.module.fresh()
        pointer = self.module.pointer("Function", type)
        self.variables.append(([C.OPS["Variable"][0], pointer, id, C.STORAGE["Function"]], NO_ID))
        return id

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """Makes a context whose code goes to the start of the function."""
        outer, self.out = self.out, self.head
        try:
            yield
        finally:
            self.out = outer

    def note_cut(self, again: int) -> None:
        """Emits code that records that a loop ended although its condition ``again`` still held."""
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
        """Begins the basic block ``label``. The previous block must have ended in a branch."""
        self.out.append(([C.OPS["Label"][0], label], self.stmt))
        self.out.span = None
        self.block = label

    def jump(self, label: int) -> None:
        self.put("Branch", label)

    def enter(self, label: int) -> None:
        """Ends the present basic block with a jump to ``label``, and begins the block ``label``."""
        self.jump(label)
        self.start(label)

    def branch(self, cond: int, then: int, orelse: int, merge: int = 0) -> None:
        """Ends the block with a conditional branch. ``merge``: the block where both arms meet again, 0 if the branch
        leaves a loop."""
        if merge:
            self.put("SelectionMerge", merge, 0)
        self.put("BranchConditional", cond, then, orelse)

    def phi(self, type: int, *incoming: tuple[int, int]) -> int:
        return self.let("Phi", type, *(x for pair in incoming for x in pair))

    def end(self, value: int = 0) -> int:
        """Ends the function; it returns ``value``, or nothing if that is 0."""
        self.put(*(("ReturnValue", value) if value else ("Return",)))
        self.body.append(([C.OPS["FunctionEnd"][0]], self._owner))
        self.module.functions.append(self)
        return self.id
