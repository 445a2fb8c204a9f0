"""The state of a function under construction as LLVM instructions; the handlers of statements share it."""

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
    """Alias scopes of a module. A field, a launch temporary, a returned value and an adstack are each disjoint from
    everything else. Ndarrays that may be one array (`shared_arrays`) are one memory. A local needs none.

    The numbers of two memories differ in at least one bit. So there is a domain for each bit, with a scope for each of
    its two values: an access is in the scope of its memory's bit and does not alias the other scope. The alternative, a
    list of all other memories for each memory, would grow with the square of their number."""

    def __init__(self, kernel: N.Kernel) -> None:
        shared = shared_arrays(kernel)
        memory = [b.name for b in kernel.buffers.values() if b.kind not in ("local", "private")]
        self.of = {name: "ndarrays" if name in shared else f"@{name}" for name in memory}
        self.numbers = {name: n for n, name in enumerate(dict.fromkeys(self.of.values()))}
        self.bits = max(len(self.numbers) - 1, 0).bit_length()

    def tag(self, buffer: str) -> str:
        """The metadata of a load from the buffer, or of a store to it."""
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
    """A function's partial result of a reduction into a 0-d buffer, at ``ptr``. It starts at the operation's identity,
    and the function adds it to the buffer when it ends."""

    op: str
    dtype: DType
    ptr: str


class Unit:
    """What the functions of one module share. ``frame``: the layout of the launch frame."""

    def __init__(self, kernel: N.Kernel, options: CompileOptions, frame: FrameLayout) -> None:
        self.kernel = kernel
        self.options = options
        self.frame = frame
        self.scopes = Scopes(kernel)
        self.ranges = Ranges(kernel)


class Body(Lanes, ABC):
    """Emits blocks into the function ``fn``, whose parameter %frame is the launch frame. A device's subclass says where
    buffers and stacks are.

    ``parallel``: other iterations of the task may run at the same time. ``width``: how many iterations run in the lanes
    of this function; ``found`` says what differs between them.
    """

    handlers: Mapping[type, Callable[[Any, Any], None]]  # by class of statements: the function that emits them
    polls = True  # whether long loops look at a cancel flag
    thread = "0"  # the number of the thread that runs this iteration

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
        self.stride = str(width)  # elements from one slot of an adstack to the next, an i64 if there are several lanes
        self.whole = "true"  # an i1: this group has as many elements as lanes
        self._opened: dict[object, str] = {}
        self.splits: Splits = {}  # how indices split in an order of cells
        self.own: dict[str, N.Buffer] = {}  # buffers of role "block" that are variables of this function
        self.partials: dict[str, Partial] = {}
        self.exit = ""  # the label at which the task's function ends early
        self.scratch_at = self.scratch_values = ""  # room for an address and a value of each lane
        self.scattered: str | None = None  # the label for a group of lanes whose sums go to several elements

    # --- what a device provides ---------------------------------------------------------------------------------

    @abstractmethod
    def address_at(self, offset: int) -> str:
        """The address that the frame holds at ``offset``, as a pointer to memory of the device."""

    @abstractmethod
    def first_slot(self, b: N.Buffer, at: int) -> str:
        """Address of this thread's first slot of a stack. The frame has the stack's place in the heap at ``at``."""

    @abstractmethod
    def poll(self) -> None:
        """Leaves the task if the launch was cancelled. Loops emit this on their back edges."""

    @abstractmethod
    def builtin(self, what: str) -> str:
        """The value of an `N.Builtin`, an i64."""

    def sums(self, buffer: str) -> tuple[str, str]:
        """How an atomic on the buffer runs: an i1 that is true if no other thread changes the element meanwhile ("":
        not known), and the address of element 0 ("": the buffer's usual address)."""
        return "", ""

    # --- what the function reads from the frame once, in its entry block ----------------------------------------

    def opened(self, key: object, make: Callable[[], str]) -> str:
        """The value for the key; the first call makes it."""
        if key not in self._opened:
            self._opened[key] = make()
        return self._opened[key]

    def open(self, *blocks: N.Block) -> None:
        """Reads everything that the blocks need from the frame."""
        for block in blocks:
            for s in walk(block):
                self.prepare(s)

    def prepare(self, s: N.Stmt) -> None:
        """Reads what the statement needs."""
        if isinstance(s, N.Access):
            self.reach(s.buffer, len(s.index))
        elif isinstance(s, N.ShapeOf):
            self.extent(s.buffer, s.axis)
        elif isinstance(s, N.ArgLoad):
            self.arg(s.arg, s.type)

    def reach(self, buffer: str, rank: int) -> None:
        """Reads what an access to the buffer with ``rank`` indices needs from the frame."""
        self.pointer(buffer)
        if buffer in self.frame.extents:
            for axis in range(1, rank):
                self.extent(buffer, axis)

    def at(self, offset: int) -> str:
        """Address of a word of the frame."""
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
        """Address of memory that the threads of one block share."""
        return self.fn.let(f"alloca [{prod(b.shape or ())} x {memory_type(b.dtype)}], align 64")

    def local(self, b: N.Buffer) -> str:
        """Address of a new variable of the iteration."""
        return self.fn.alloca(variable_type(b.dtype, self.width if b.name in self.per_lane else 1))

    def in_frame(self, at: int) -> str:
        """Address of a buffer that lies in the frame itself."""
        return self.at(at)

    def extent(self, buffer: str, axis: int) -> str:
        """Extent of an ndarray along an axis, as an i64."""
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
        """Emits a block; returns the values that its Yield hands to the ``takers``."""
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
        """Makes the first change if the i1 holds, else the second; returns their value, which has the given LLVM
        type."""
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
