"""What differs between the GPUs that LLVM compiles for: how a program begins, how a thread gets its number, how
threads of a group exchange values, and what the math library calls its functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._llvm.ops import LOWERING, Ctx
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.backends.cost import short
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks
from quadrants_lab.backends.lower.functions import lower_math
from quadrants_lab.backends.lower.tasks import lower_tasks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.nodes import Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.body import SimtBody


WIDE = (i32, u32, f32, i64, u64, f64)  # what shuffles move


def lowering(options: CompileOptions, shape: Shape, math: Pass | None = None) -> tuple[Pass, ...]:
    """``math``: for a target without a math library."""
    in_step: list[bool] = []

    def layouts(kernel: N.Kernel) -> list[Layout]:
        in_step[:] = map(short, kernel.tasks)
        return [Layout()] * len(in_step)

    shares = dict.fromkeys(("add", "mul", "min", "max", "and", "or", "xor"), WIDE)
    return (
        *shape.first(options), lower_adstacks(layouts), math or lower_math(), *LOWERING, lower_tasks(shares, in_step),
        lower_failures,
    )  # fmt: skip


class Target(ABC):
    """``name`` says for which chip. ``triple`` and ``layout`` are LLVM's. ``warp``: how many threads of a group run in
    step and can `shuffle`, 1 where none can. ``global_space``: LLVM's number of the address space of device memory.
    ``private_space``, ``atomic_scope``, ``atomic_notes``: see `_llvm.text.Module`. ``prologue``: what a program begins
    with, where its parameters are not %state and %frame yet. ``meets``: threads can find out that they change the same
    place."""

    name: str
    triple: str
    layout: str
    warp: int
    global_space: int
    private_space = 0
    block_memory = 0  # bytes of shared memory that a group has for what the threads of a block share
    atomic_scope = ""
    atomic_notes = ""
    prologue: tuple[str, ...] = ()
    meets = False
    shape: Shape

    def __init__(self) -> None:
        self.own: dict[str, Callable[[Ctx], str]] = {}  # primitives on floats: see `_llvm.text.Module.own`

    def lowering(self, options: CompileOptions) -> tuple[Pass, ...]:
        """What the target has no spelling for."""
        return lowering(options, self.shape)

    @abstractmethod
    def head(self, program: Program, group: int, frame_bytes: int) -> str:
        """The define line of a program: parameters %state (a pointer) and %frame (a pointer to what only is read)."""

    @abstractmethod
    def thread(self, fn: Function) -> str:
        """Number of this thread among all, an i32."""

    @abstractmethod
    def threads(self, fn: Function) -> str:
        """How many threads there are, an i32."""

    @abstractmethod
    def place(self, fn: Function) -> str:
        """Number of this thread in its group, an i32."""

    @abstractmethod
    def shuffle_down(self, fn: Function, word: str, distance: int) -> str:
        """The i32 ``word`` of the thread that is ``distance`` further in this warp."""

    def statement(self, body: SimtBody, stmt: N.Stmt) -> bool:
        """Emits a statement in the target's own way; False, and nothing, where it has none."""
        return False

    def meet(self, fn: Function, address: str) -> str:
        """Whether all threads of this warp come here together, with the same address: an i1. For targets that have
        ``meets``."""
        raise NotImplementedError

    @abstractmethod
    def barrier(self, fn: Function) -> None:
        """Waits for all threads of the group, and for what they wrote to its shared memory."""

    def shared(self, mod: Module) -> str:
        """A pointer (of address space 3) to a word of 64 bits for each warp of a group."""
        mod.helper("qd.shared", "@qd.shared = internal addrspace(3) global [32 x i64] poison, align 8")
        return "@qd.shared"

    @abstractmethod
    def finish(self, mod: Module, kernel: Any) -> None:
        """Adds what the module's text needs at its end."""
