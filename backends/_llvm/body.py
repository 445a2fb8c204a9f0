"""Holds the state of an LLVM function under construction, which the functions that emit statements share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from quadrants_lab.analysis.divergence import Divergence
from quadrants_lab.analysis.effects import shared_arrays
from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm import ops
from quadrants_lab.backends._llvm.lanes import Lanes
from quadrants_lab.backends._llvm.text import Function, memory_type, ty, variable_type
from quadrants_lab.backends.layout import WORD, FrameLayout
from quadrants_lab.backends.lower.cells import Splits
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import end_of, walk

# a hint for a label, and a function that emits the change and returns its value
Change = tuple[str, Callable[[], str | None]]


class Scopes:
    """Alias scopes of a module: metadata that tells LLVM which buffers cannot overlap. A field, a launch temporary, a
    returned value and an adstack each overlap nothing else. Ndarrays that may be the same array (`shared_arrays`) count
    as one memory. A local variable needs no scope.

    Each memory has an index; the indices of two memories differ in at least one bit. So there is a domain for each bit,
    with a scope for each of the bit's two values: an access is in the scope of its memory's bit and does not alias the
    other scope. The alternative, a list of all other memories for each memory, would grow with the square of their
    number.
    """

    def __init__(self, kernel: N.Kernel) -> None:
        shared = shared_arrays(kernel)
        memory = [b.name for b in kernel.buffers.values() if b.kind not in ("local", "private")]
        self.of = {name: "ndarrays" if name in shared else f"@{name}" for name in memory}
        self.numbers = {name: n for n, name in enumerate(dict.fromkeys(self.of.values()))}
        self.bits = max(len(self.numbers) - 1, 0).bit_length()

    def tag(self, buffer: str) -> str:
        """The alias metadata of a load from the buffer, or of a store to it."""
        n = self.numbers.get(self.of.get(buffer, ""))
        if n is None or not self.bits:
            return ""
        lists = 3 * self.bits + 2 * n
        return f", !alias.scope !{lists}, !noalias !{lists + 1}"

    def lines(self) -> list[str]:
        out, bits = [], range(self.bits)
        for bit in bits:
            out.append(f"!{3 * bit} = distinct !{{!{3 * bit}}}")
            out += [f"!{3 * bit + k} = distinct !{{!{3 * bit + k}, !{3 * bit}}}" for k in (1, 2)]
        for n in self.numbers.values() if bits else ():
            for other in (0, 1):
                scopes = ", ".join(f"!{3 * bit + 1 + ((n >> bit & 1) ^ other)}" for bit in bits)
                out.append(f"!{3 * self.bits + 2 * n + other} = !{{{scopes}}}")
        return out


@dataclass(slots=True)
class Partial:
    """The partial result of one function that reduces into a buffer with one element; ``ptr`` is the address of the
    partial result. It starts at the operation's identity. When the function ends, it adds the partial result to the
    buffer."""

    op: str
    dtype: DType
    ptr: str


class Unit:
    """Holds what the functions of one module share. ``frame``: the byte offsets in the launch frame, which holds a
    launch's arguments."""

    def __init__(self, kernel: N.Kernel, options: CompileOptions, frame: FrameLayout) -> None:
        self.kernel = kernel
        self.options = options
        self.frame = frame
        self.scopes = Scopes(kernel)
        self.ranges = Ranges(kernel)


class Body(Lanes, ABC):
    """Emits blocks of statements into the function ``fn``, whose parameter %frame is the launch frame. A subclass for
    each device says where buffers and stacks are.

    ``parallel``: other iterations of the task may run at the same time. ``width``: how many iterations run side by side
    in this function, one a lane. ``found`` says which values differ between the lanes.
    """

    handlers: Mapping[type, Callable[[Any, Any], None]]  # class of a statement -> the function that emits it
    polls = True  # whether long loops look at a cancel flag
    thread = "0"  # the index of the thread that runs this iteration

    def __init__(
        self, fn: Function, unit: Unit, parallel: bool, width: int = 1, found: Divergence | None = None
    ) -> None:
        super().__init__(fn, width, found or Divergence())
        self.unit = unit
        self.frame = unit.frame
        self.kernel = unit.kernel
        self.ranges = unit.ranges
        self.fast = ops.FAST if unit.options.fast_math else ""
        self.parallel = parallel
        # how many elements lie between a lane's slots of an adstack; an i64 if there are several lanes
        self.stride = str(width)
        self.whole = "true"  # an i1: this group of iterations fills all lanes
        self._opened: dict[object, str] = {}
        self.splits: Splits = {}  # how an index splits into digits, in buffers stored in cells (a sparse layout)
        self.own: dict[str, N.Buffer] = {}  # buffers of role "block" that became local variables of this function
        self.partials: dict[str, Partial] = {}
        self.exit = ""  # the label to jump to in order to end the task's function early
        self.scratch_at = self.scratch_values = ""  # allocas with room for an address, and for a value, of each lane
        self.scattered: str | None = None  # the label to jump to when the lanes of a group sum into several elements

    # --- what a device provides ---------------------------------------------------------------------------------

    @abstractmethod
    def address_at(self, offset: int) -> str:
        """The address stored in the frame at byte ``offset``, as a pointer to memory of the device."""

    @abstractmethod
    def first_slot(self, b: N.Buffer, at: int) -> str:
        """The address of this thread's first slot of stack ``b``. The frame holds, at byte ``at``, where the stack
        begins in the heap."""

    @abstractmethod
    def poll(self) -> None:
        """Emits a test that ends the task if the launch was cancelled. Loops run it before they jump back."""

    @abstractmethod
    def builtin(self, what: str) -> str:
        """The value of an `N.Builtin`, an i64."""

    def sums(self, buffer: str) -> tuple[str, str]:
        """Says how an atomic on the buffer runs. Returns the name of an i1 that is true at run time if no other
        thread changes the element meanwhile ("" if this is not known), and the address of element 0 ("" for the
        buffer's usual address)."""
        return "", ""

    # --- what the function reads from the frame once, in its entry block ----------------------------------------

    def opened(self, key: object, make: Callable[[], str]) -> str:
        """The value that ``make`` emits at the first call with this key; later calls return the same value."""
        if key not in self._opened:
            self._opened[key] = make()
        return self._opened[key]

    def open(self, *blocks: N.Block) -> None:
        """Emits the reads of everything that the blocks need from the frame."""
        for block in blocks:
            for s in walk(block):
                self.prepare(s)

    def prepare(self, s: N.Stmt) -> None:
        """Emits the reads of what the statement needs from the frame."""
        if isinstance(s, N.Access):
            self.reach(s.buffer, len(s.index))
        elif isinstance(s, N.ShapeOf):
            self.extent(s.buffer, s.axis)
        elif isinstance(s, N.ArgLoad):
            self.arg(s.arg, s.type)

    def reach(self, buffer: str, rank: int) -> None:
        """Emits the reads from the frame that an access to the buffer with ``rank`` indices needs."""
        self.pointer(buffer)
        if buffer in self.frame.extents:
            for axis in range(1, rank):
                self.extent(buffer, axis)

    def at(self, offset: int) -> str:
        """The address of the word at byte ``offset`` of the frame."""
        return self.fn.at(offset)

    def word(self, offset: int, type: str = "i64") -> str:
        return self.fn.word(offset, type)

    def pointer(self, buffer: str) -> str:
        """Address of the buffer's first element."""
        found = self.own.get(buffer) or self.kernel.buffers[buffer]
        return self.opened(("pointer", buffer), lambda: self._address(found))

    def _address(self, b: N.Buffer) -> str:
        if b.kind == "local":
            return self.local(b)
        if b.kind == "private":
            return self.fn.alloca(f"[{self.width * prod(b.shape or ())} x {memory_type(b.dtype)}]")
        if b.kind == "shared":
            return self.of_block(b)
        at, whole = self.frame.buffers[b.of or b.name], self.kernel.buffers[b.of or b.name]
        if b.kind == "heap":
            return self.first_slot(b, at)
        return self.in_frame(at) if whole.in_frame else self.address_at(at)

    def of_block(self, b: N.Buffer) -> str:
        """The address of a buffer that the threads of one block share."""
        return self.fn.let(f"alloca [{prod(b.shape or ())} x {memory_type(b.dtype)}], align 64")

    def local(self, b: N.Buffer) -> str:
        """The address of a new local variable."""
        return self.fn.alloca(variable_type(b.dtype, self.width if b.name in self.per_lane else 1))

    def in_frame(self, at: int) -> str:
        """The address of a buffer that lies in the frame itself, at byte ``at``."""
        return self.at(at)

    def extent(self, buffer: str, axis: int) -> str:
        """The number of elements of an ndarray along an axis, an i64."""
        return self.opened((buffer, axis), lambda: self.word(self.frame.extents[buffer] + axis * WORD))

    def arg(self, name: str, t: DType) -> str:
        """Value of a scalar argument."""
        return self.opened(("argument", name), lambda: self.fn.read(t, self.at(self.frame.args[name])))

    # --- shared by the handlers ---------------------------------------------------------------------------------

    def tag(self, buffer: N.Buffer) -> str:
        """The alias metadata of an access to the buffer."""
        return self.unit.scopes.tag(buffer.name)

    def operate(self, prim: str, type: DType, a: str, b: str, flags: str | None = None, lanes: int = 1) -> str:
        """Emits a binary primitive on values that have no id in the IR."""
        t = ty(type, lanes)
        return ops.emit(self.fn, prim, t, (t, t), (a, b), (None, None), self.fast if flags is None else flags)

    def block(self, block: N.Block, takers: tuple[N.Param, ...] | None = None) -> tuple[str, ...]:
        """Emits a block. Returns the values of its Yield, in the form (scalar or vector) that the parameters or results
        ``takers`` have."""
        outer, self.offsets = self.offsets, dict(self.offsets)
        owner = self.fn.stmt
        for stmt in block[:-1]:
            self.fn.stmt = stmt.id
            self.statement(stmt)
        ids = end_of(block).values
        values = tuple(self.values[i] for i in ids) if takers is None else self.given(takers, ids)
        self.offsets = outer
        self.fn.stmt = owner
        return values

    def either(self, condition: str, then: Change, orelse: Change, type: str = "") -> str:
        """Emits a branch: ``then`` runs if the i1 ``condition`` holds, else ``orelse``. Returns the value of whichever
        ran, of LLVM type ``type``."""
        fn, outer, arms = self.fn, self.offsets, (then, orelse)
        labels, done = [fn.label(name) for name, _ in arms], fn.label("done")
        fn.branch(condition, *labels)
        values = []
        for label, (_, change) in zip(labels, arms, strict=True):
            fn.start(label)
            self.offsets = dict(outer)
            values.append((change() or "", fn.block))
            fn.jump(done)
        self.offsets = outer
        fn.start(done)
        return fn.phi(type, *values) if type else ""

    def statement(self, stmt: N.Stmt) -> None:
        self.handlers[type(stmt)](self, stmt)
