"""The code of a program. Its parameter %frame is a read-only copy of the launch frame; what programs write lies in
%state: status, failure, "temp" and "ret" buffers, and boxes of iterations."""

from math import prod

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._llvm.body import Body, Unit
from quadrants_lab.backends._llvm.text import Function, memory_type
from quadrants_lab.backends._simt.reduce import aggregated_atomic, over_group, over_warp
from quadrants_lab.backends._simt.state import State
from quadrants_lab.backends._simt.target import Target
from quadrants_lab.backends.block_memory import own_memory
from quadrants_lab.ir import nodes as N


class SimtBody(Body):
    """``thread`` is an i32; ``group``: the threads of a group."""

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
        self.in_step: N.Block | None = None  # the block that runs several iterations at once
        self.exit = "leave"
        self.inside: N.Block = ()  # the block that is being emitted
        self.reduced: dict[str, str] = {}  # arguments that `Target.statement` reduced, by the value

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
        if isinstance(stmt, N.GroupReduce):
            op, t, value = stmt.op, stmt.type, self.values[stmt.value]
            whole = over_warp(self, op, t, value, stmt.threads) if stmt.threads else over_group(self, op, t, value)
            self.define(stmt.id, t, whole)
        elif isinstance(stmt, N.Barrier):
            self.target.barrier(self.fn)
        elif isinstance(stmt, N.Atomic) and stmt.together:
            aggregated_atomic(self, stmt)
        elif self.inside is self.in_step or not self.target.statement(self, stmt):
            super().statement(stmt)

    # --- overridden methods of Body -----------------------------------------------------------------------------

    def prepare(self, s: N.Stmt) -> None:
        super().prepare(s)
        if isinstance(s, N.Builtin) and s.what in ("seed", "launch"):
            self.builtin(s.what)

    def word(self, offset: int, type: str = "i64") -> str:
        return self.opened((offset, type), lambda: super(SimtBody, self).word(offset, type))

    def in_frame(self, at: int) -> str:
        """The address of a word of the frame that programs write, which lies in the state."""
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
        """A launch on a GPU cannot be cancelled."""

    def builtin(self, what: str) -> str:
        if what == "lanes":
            return self.target.threads(self.fn)
        if what == "elected":
            return self.fn.let(f"icmp eq i32 {self.target.place(self.fn)}, 0") if self.target.warp > 1 else "true"
        return self.word({"seed": L.SEED, "launch": L.LAUNCH}[what])
