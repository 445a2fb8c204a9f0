"""Emits the code of a program (a GPU kernel, see `_gpu.programs`). `Target` is the interface to what differs
between the GPUs that LLVM compiles for: the signature of a program, a thread's index, the exchange of values in a
group, and the functions of a math library.

The parameter %frame of a program is a read-only copy of the launch frame, which holds the launch's arguments. What
programs write lies at the parameter %state: status, failure, "temp" and "ret" buffers, and ranges of iterations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._llvm import atomics, memory
from quadrants_lab.backends._llvm.body import Body, Unit
from quadrants_lab.backends._llvm.memory import own_memory
from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.statements import HANDLERS
from quadrants_lab.backends._llvm.text import Function, Module, constant, memory_type, ty
from quadrants_lab.backends._simt.shape import Shape, State
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.backends.lower.sums import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType


class Target(ABC):
    """A chip as a target. ``name``: the chip; ``triple`` and ``layout``: LLVM's triple and data layout for it.

    ``warp``: how many threads run in lockstep and can shuffle, 1 if none can. ``global_space``: LLVM's index of the
    address space of device memory. ``private_space``, ``atomic_scope``, ``atomic_notes``: see `_llvm.text.Module`.
    ``prologue``: the first lines of a program, if its parameters are not simply %state and %frame.
    """

    name: str
    triple: str
    layout: str
    warp: int
    global_space: int
    private_space = 0
    block_memory = 0  # how many bytes of a group's shared memory the arrays may take that the threads of a block share
    atomic_scope = ""
    atomic_notes = ""
    prologue: tuple[str, ...] = ()
    shape: Shape
    own: Mapping[str, Callable[[Ctx], str]] = {}  # primitives on floats: see `_llvm.text.Module.own`

    @abstractmethod
    def head(self, program: Program, group: int, frame_bytes: int) -> str:
        """The define line of a program. Its parameters are %state, a pointer, and %frame, a pointer to read-only
        memory."""

    @abstractmethod
    def thread(self, fn: Function) -> str:
        """Emits the index of this thread among all threads, an i32."""

    @abstractmethod
    def threads(self, fn: Function) -> str:
        """Emits the number of threads, an i32."""

    @abstractmethod
    def place(self, fn: Function) -> str:
        """Emits the index of this thread in its group, an i32."""

    @abstractmethod
    def shuffle_down(self, fn: Function, word: str, distance: int) -> str:
        """Emits the value that the i32 ``word`` has in the thread whose lane in this warp is greater by ``distance``.
        """

    def statement(self, body: SimtBody, stmt: N.Stmt) -> bool:
        """Emits a statement in the target's own way; if the target has none, emits nothing and returns False."""
        return False

    def same(self, fn: Function, number: str) -> str:
        """Emits an i1 that is true if all threads of this warp are active here and have the same i64 ``number``."""
        raise NotImplementedError

    @abstractmethod
    def barrier(self, fn: Function, threads: int) -> None:
        """Emits a barrier: the ``threads`` of a group wait until all are here; afterwards they see each other's writes.
        """

    def shared(self, mod: Module) -> str:
        """The address, in address space 3, of an array with a 64-bit word for each warp of a group."""
        mod.helper("qd.shared", "@qd.shared = internal addrspace(3) global [32 x i64] poison, align 8")
        return "@qd.shared"

    @abstractmethod
    def finish(self, mod: Module, kernel: Any) -> None:
        """Adds the attributes and metadata that the module's text needs at its end."""


class SimtBody(Body):
    """Emits a program. ``thread``: the index of the thread, an i32; ``group``: how many threads a group has."""

    polls = False

    def __init__(
        self, fn: Function, unit: Unit, state: State, target: Target, program: Program, group: int
    ) -> None:
        super().__init__(fn, unit, program.kind == "range")
        self.state = state
        self.target = target
        self.program = program.name
        self.group = group
        if program.task.block_dim:
            self.own = own_memory(unit.kernel, program.task, target.block_memory)
        self.in_step: N.Block | None = None  # the block whose statements run for several iterations in step
        self.exit = "leave"
        self.inside: N.Block = ()  # the block that is being emitted
        # text of a sine's argument -> its text after `Target.statement` has reduced it
        self.reduced: dict[str, str] = {}

    # --- blocks -------------------------------------------------------------------------------------------------

    def block(self, block: N.Block, takers: tuple[N.Param, ...] | None = None) -> tuple[str, ...]:
        outer = self.inside, self.reduced
        self.inside, self.reduced = block, dict(self.reduced)
        values = super().block(block, takers)
        self.inside, self.reduced = outer
        return values

    def of_block(self, b: N.Buffer) -> str:
        module, name = self.fn.module, f"@qd.{self.program}.{b.name}"
        t = f"[{prod(b.shape or ())} x {memory_type(b.dtype)}]"
        module.helper(name, f"{name} = internal addrspace(3) global {t} poison, align 16")
        return self.fn.let(f"addrspacecast ptr addrspace(3) {name} to ptr")

    def statement(self, stmt: N.Stmt) -> None:
        if self.inside is self.in_step or not self.target.statement(self, stmt):
            super().statement(stmt)

    # --- overridden methods of Body -----------------------------------------------------------------------------

    def prepare(self, s: N.Stmt) -> None:
        super().prepare(s)
        if isinstance(s, N.Builtin) and s.what in ("seed", "launch"):
            self.builtin(s.what)

    def word(self, offset: int, type: str = "i64") -> str:
        return self.opened((offset, type), lambda: super(SimtBody, self).word(offset, type))

    def in_frame(self, at: int) -> str:
        """The address of a word of the frame that programs write; such words lie at %state, not in the frame."""
        return self.fn.let(f"getelementptr inbounds i8, ptr %state, i64 {self.state.at(at)}")

    def address_at(self, offset: int) -> str:
        space = self.target.global_space

        def make() -> str:
            if not space:
                return self.fn.let(f"load ptr, ptr {self.at(offset)}")
            address = self.word(offset)
            there = self.fn.let(f"inttoptr i64 {address} to ptr addrspace({space})")
            return self.fn.let(f"addrspacecast ptr addrspace({space}) {there} to ptr")

        return self.opened((offset, "address"), make)

    def first_slot(self, b: N.Buffer, at: int) -> str:
        self.stride = self.word(L.THREADS, "i32")
        heap = self.address_at(L.HEAP)
        start = self.fn.let(f"getelementptr inbounds i8, ptr {heap}, i64 {self.word(at)}")
        thread = self.fn.let(f"zext i32 {self.thread} to i64")
        return self.fn.let(f"getelementptr inbounds [{b.dtype.nbytes} x i8], ptr {start}, i64 {thread}")

    def poll(self) -> None:
        """Emits nothing, because a launch on a GPU cannot be cancelled."""

    def builtin(self, what: str) -> str:
        if what == "place":
            return self.target.place(self.fn)
        if what == "lanes":
            return self.target.threads(self.fn)
        if what == "elected":
            return self.fn.let(f"icmp eq i32 {self.target.place(self.fn)}, 0") if self.target.warp > 1 else "true"
        if what == "clock":
            return self.fn.call("i64", "llvm.readcyclecounter")
        return self.word({"seed": L.SEED, "launch": L.LAUNCH}[what])


# --- reductions: the threads of a warp combine values by shuffles, the warps of a group through shared memory -----

def over_group(b: SimtBody, op: str, t: DType, value: str) -> str:
    """Emits a reduction over the threads of a group; the first thread gets the result. All threads of the group must
    reach this code."""
    fn, target = b.fn, b.target
    if target.warp == 1:
        return value
    place = target.place(fn)
    value = over_warp(b, op, t, value, target.warp)
    warps = b.group // target.warp
    if warps == 1:
        return value
    text, shared = ty(t).text, target.shared(fn.module)
    lane = fn.let(f"and i32 {place}, {target.warp - 1}")
    warp = fn.let(f"lshr i32 {place}, {target.warp.bit_length() - 1}")
    with fn.when(fn.let(f"icmp eq i32 {lane}, 0"), "put", "wait"):
        here = fn.let(f"getelementptr inbounds i64, ptr addrspace(3) {shared}, i32 {warp}")
        fn.put(f"store {text} {value}, ptr addrspace(3) {here}")
    target.barrier(fn, b.group)
    mine = fn.let(f"icmp ult i32 {place}, {warps}")
    of = fn.let(f"select i1 {mine}, i32 {place}, i32 0")
    there = fn.let(f"getelementptr inbounds i64, ptr addrspace(3) {shared}, i32 {of}")
    found = fn.let(f"load {text}, ptr addrspace(3) {there}")
    target.barrier(fn, b.group)
    nothing = constant(ty(t), identity(op, t))
    found = fn.let(f"select i1 {mine}, {text} {found}, {text} {nothing}")
    return over_warp(b, op, t, found, warps)


def over_warp(b: SimtBody, op: str, t: DType, value: str, lanes: int) -> str:
    """Emits a reduction over the first ``lanes`` threads of a warp; the first thread gets the result. All threads of
    the warp must reach this code."""
    distance = lanes // 2
    while distance:
        value = atomics.combine(b, op, t, value, _further(b, t, value, distance), b.fast)
        distance //= 2
    return value


def _further(b: SimtBody, t: DType, value: str, distance: int) -> str:
    """Emits the value that the thread has whose lane in this warp is greater by ``distance``."""
    fn, bits, text = b.fn, t.bits, ty(t).text
    if t.is_float:
        value = fn.let(f"bitcast {text} {value} to i{bits}")
    if bits == 32:
        value = b.target.shuffle_down(fn, value, distance)
    else:
        words = [fn.let(f"trunc i64 {value} to i32"), ""]
        words[1] = fn.let(f"trunc i64 {fn.let(f'lshr i64 {value}, 32')} to i32")
        low, high = (fn.let(f"zext i32 {b.target.shuffle_down(fn, w, distance)} to i64") for w in words)
        value = fn.let(f"or i64 {low}, {fn.let(f'shl i64 {high}, 32')}")
    return fn.let(f"bitcast i{bits} {value} to {text}") if t.is_float else value


# --- statements of groups ---------------------------------------------------------------------------------------


def _group_reduce(b: SimtBody, s: N.GroupReduce) -> None:
    value = b.values[s.value]
    whole = over_warp(b, s.op, s.type, value, s.threads) if s.threads else over_group(b, s.op, s.type, value)
    b.define(s.id, s.type, whole)


SimtBody.handlers = HANDLERS | {
    N.GroupReduce: _group_reduce,
    N.Barrier: lambda b, s: b.target.barrier(b.fn, b.group),
    N.GroupSame: lambda b, s: b.define(s.id, s.type, b.target.same(b.fn, memory.widen(b, s.value))),
}


# --- modules ---------------------------------------------------------------------------------------------------------


def module(kernel: N.Kernel, options: CompileOptions, target: Target) -> Module:
    """The module of an offloaded kernel without exits."""
    kernel = lower(kernel, target.shape.lowering(options), options)
    mod = Module(target.triple, target.layout)
    mod.own = target.own
    mod.private_space = target.private_space
    mod.atomic_scope, mod.atomic_notes = target.atomic_scope, target.atomic_notes
    state = State(kernel)
    unit = Unit(kernel, options, state.layout.frame)
    for program in programs(kernel):
        group = target.shape.group_of(program, stores_slots(kernel, program.task.body))
        fn = mod.function(program.name, target.head(program, group, state.layout.size))
        for line in target.prologue:
            fn.put(line)
        fn.stmt = program.task.id
        body = SimtBody(fn, unit, state, target, program, group)
        if program.kind == "range":
            _range(body, program)
        else:
            body.open(program.block)
            body.block(program.block)
            fn.enter("leave")
        fn.end()
    mod.metadata = unit.scopes.lines()
    target.finish(mod, kernel)
    return mod


def _range(body: SimtBody, program: Program) -> None:
    """Emits a parallel program. After a failed assert a thread continues after its loops, because all threads of a
    group must reach the code there."""
    fn, task = body.fn, program.task
    body.thread = body.target.thread(fn)
    body.open(task.body)
    if program.inline:
        body.open(task.bounds)
        body.bind(task.indices, body.block(task.bounds))
    loops = [n for n, s in enumerate(task.body) if isinstance(s, N.For)]
    body.in_step = task.body[loops[0]].blocks()[0] if task.in_step else None
    parts = task.body[: loops[0]], task.body[loops[0] : loops[-1] + 1], task.body[loops[-1] + 1 :]
    for n, part in enumerate(parts):
        body.block((*part, task.body[-1]) if n < 2 else part)
        if n == 1:
            fn.enter("leave")
