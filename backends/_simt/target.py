"""The interface to what differs between the GPUs that LLVM compiles for: the signature of a program, a thread's number,
the exchange of values in a group, and the functions of a math library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.nodes import Pass
from quadrants_lab.ir.options import CompileOptions

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.body import SimtBody


class Target(ABC):
    """A chip, ``name``, with LLVM's ``triple`` and data ``layout`` for it.

    ``warp``: the threads that run in lockstep and can shuffle, 1 where none can. ``global_space``: LLVM's number of the
    address space of device memory. ``private_space``, ``atomic_scope``, ``atomic_notes``: see `_llvm.text.Module`.
    ``prologue``: the first lines of a program whose parameters are not %state and %frame themselves.
    """

    name: str
    triple: str
    layout: str
    warp: int
    global_space: int
    private_space = 0
    block_memory = 0  # the bytes of shared memory of a group for the arrays that the threads of a block share
    atomic_scope = ""
    atomic_notes = ""
    prologue: tuple[str, ...] = ()
    shape: Shape

    def __init__(self) -> None:
        self.own: dict[str, Callable[[Ctx], str]] = {}  # primitives on floats: see `_llvm.text.Module.own`

    @abstractmethod
    def lowering(self, options: CompileOptions) -> tuple[Pass, ...]:
        """The passes that replace what the target has no instruction for."""

    @abstractmethod
    def head(self, program: Program, group: int, frame_bytes: int) -> str:
        """The define line of a program with the parameters %state, a pointer, and %frame, a pointer to read-only
        memory."""

    @abstractmethod
    def thread(self, fn: Function) -> str:
        """The number of this thread among all threads, an i32."""

    @abstractmethod
    def threads(self, fn: Function) -> str:
        """The number of threads, an i32."""

    @abstractmethod
    def place(self, fn: Function) -> str:
        """The number of this thread in its group, an i32."""

    @abstractmethod
    def shuffle_down(self, fn: Function, word: str, distance: int) -> str:
        """The i32 ``word`` of the thread ``distance`` lanes further in this warp."""

    def statement(self, body: SimtBody, stmt: N.Stmt) -> bool:
        """Emits a statement in a way of the target's own; emits nothing and returns False where there is none."""
        return False

    def same_address(self, fn: Function, address: str) -> str:
        """An i1: whether all threads of this warp are active here and have the same address."""
        raise NotImplementedError

    @abstractmethod
    def barrier(self, fn: Function) -> None:
        """Waits until all threads of the group are here and their writes to shared memory are visible."""

    def shared(self, mod: Module) -> str:
        """A pointer, in address space 3, to a 64-bit word for each warp of a group."""
        mod.helper("qd.shared", "@qd.shared = internal addrspace(3) global [32 x i64] poison, align 8")
        return "@qd.shared"

    @abstractmethod
    def finish(self, mod: Module, kernel: Any) -> None:
        """Adds the attributes and metadata that the module's text needs at its end."""
