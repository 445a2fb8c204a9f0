"""Runs IR on a device without the layers above it: the common part of the backends' rigs (`cuda_rig`, ...)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.backends.launch import Overflow, Status
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import DTYPES
from quadrants_lab.runtime.interpret.interpreter import interpret

EXACT = CompileOptions(fast_math=False)
FAST = CompileOptions()
TYPES = tuple(DTYPES.values())
Arrays = dict[str, np.ndarray[Any, Any]]


def parallel(total: str, body: str, buffers: str, args: str = "", head: str = "") -> str:
    """A kernel of one parallel task, whose number of iterations is ``total``, the right side of a statement; %3 is the
    iteration. ``head``: the kernel's name, arguments and mode."""
    bounds = f"%1: i32 = const 0\n%2: i32 = {total}\nyield %1, %2"
    task = f"offload range_for bounds {{\n{bounds}\n}} do (%3: i32) {{\n{body}\nyield\n}}"
    return f"kernel {head or f'k({args}) forward'} {{\n{buffers}\n{task}\n}}"


class Bound:
    """A frame with all arguments set, over copies of the arrays in device memory; `launch` copies them in and out."""

    def __init__(self, frame: Any, arrays: Arrays) -> None:
        self.frame = frame
        self.arrays = arrays
        own: dict[int, Any] = {}  # an array under two names is one memory
        self.memory = {}
        for name, a in arrays.items():
            m = self.memory[name] = own.setdefault(id(a), frame.device.allocate(a.shape, a.dtype))
            frame.set_buffer(name, m.address)
            if frame.exe.kernel.buffers[name].kind == "ndarray":
                frame.set_extents(name, a.shape)

    def launch(self) -> int:
        for name, a in self.arrays.items():
            self.memory[name].write(a)
        status: int = self.frame.launch()
        for name, a in self.arrays.items():
            a[...] = self.memory[name].read()
        return status

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame, name)


class Rig:
    """Runs IR on a device. ``made`` compiles a kernel; ``fresh`` opens a new device, ``device`` the shared one."""

    EXACT, FAST, TYPES = EXACT, FAST, TYPES

    def __init__(self, made: Callable[[N.Kernel, CompileOptions], Any], fresh: Callable[..., Any]) -> None:
        self.made = made
        self.fresh = fresh
        self.device = cache(fresh)

    def load(self, source: str | N.Kernel, options: CompileOptions = EXACT, **changes: Any) -> Any:
        """Compiles IR text; ``changes`` is for `dataclasses.replace` on the options."""
        kernel = parse_kernel(source) if isinstance(source, str) else source
        return self.made(kernel, replace(options, **changes))

    def bind(
        self, exe: Any, arrays: Arrays, args: dict[str, Any] | None = None, stacks: list[int] | None = None,
        on: Any = None,
    ) -> Any:  # fmt: skip
        """A frame with all arguments set."""
        bound = Bound(exe.frame(on or self.device()), arrays)
        for name, value in (args or {}).items():
            bound.set_arg(name, value)
        if exe.layout.frame.stacks:
            bound.set_stacks(stacks if stacks is not None else [1] * len(exe.layout.frame.stacks))
        return bound

    def run(
        self, source: str | N.Kernel, arrays: Arrays, args: dict[str, Any] | None = None,
        stacks: list[int] | None = None, options: CompileOptions = EXACT, on: Any = None,
    ) -> Any:  # fmt: skip
        """Compiles, binds and launches; the launch must end well."""
        bound = self.bind(self.load(source, options), arrays, args, stacks, on)
        assert bound.launch() == 0
        return bound


def judged(
    rig: Any, source: str, arrays: Arrays, args: dict[str, Any] | None = None, stacks: Sequence[list[int]] = ([],),
    rtol: float = 0,
) -> None:  # fmt: skip
    """Launches the kernel with each of these capacities. Each launch leaves what the interpreter leaves in arrays and
    returned values, or names a stack that was too small, and how deep that would have been."""
    kernel, frame = parse_kernel(source), rig.bind(rig.load(source), arrays, args, stacks[0])
    before = {name: a.copy() for name, a in arrays.items()}
    for caps in stacks:
        for name, a in arrays.items():
            a[...] = before[name]
        want = {name: a.copy() for name, a in before.items()}
        by_id = dict(zip((s.id for s in stack_allocas(kernel)), caps, strict=True))
        result = interpret(kernel, args, want, caps=by_id)
        if caps:
            frame.set_stacks(caps)
        assert frame.launch() == (Status.OVERFLOW if result.overflow else 0)
        failed = frame.failure()
        if result.overflow is None:
            assert failed is None
            assert {name: frame.ret(name) for name in result.rets} == result.rets
        else:
            assert isinstance(failed, Overflow)
            assert failed.capacity == by_id[failed.stack.id] < failed.depth == result.depth[failed.stack.id]
        for name, a in arrays.items():
            np.testing.assert_allclose(a, want[name], rtol, err_msg=f"{name}, capacities {caps}")
