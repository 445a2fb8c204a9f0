"""Loads a kernel in wasmtime, and launches it by launch frames, which hold a launch's arguments."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import wasmtime

from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import GpuFrame
from quadrants_lab.backends._gpu.stacks import HeapPlan
from quadrants_lab.backends.disk_cache import Keep, forget
from quadrants_lab.backends.wasm.device import Device, engine
from quadrants_lab.backends.wasm.emitter import module
from quadrants_lab.backends.wasm.lanes import LaneSchedule
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk

_SIZE = struct.Struct("=I")


class Executable(GpuExecutable):
    """A kernel loaded in wasmtime. ``object``: the size of the module, the module, and the machine code that
    wasmtime made of it."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget
    ) -> None:
        self.options = options
        kernel = LaneSchedule(options.fast_math, options.reproducible)(kernel)
        super().__init__(kernel, self._compiled, cached, keep)

    def _compiled(self) -> bytes:
        code = module(self.kernel, self.options).binary()
        return _SIZE.pack(len(code)) + code + bytes(wasmtime.Module(engine(), code).serialize())

    @property
    def module(self) -> bytes:
        """The module's bytes, which any engine runs."""
        (size,) = _SIZE.unpack_from(self.object)
        return self.object[_SIZE.size : _SIZE.size + size]

    def frame(self, device: Device) -> Frame:
        return Frame(self, device)

    def run(self, device: Device) -> wasmtime.Func:
        """The exported function of the module, instantiated over the device's memory."""
        return self.once(device, lambda: self.built(partial(self._loaded, device)))

    def _loaded(self, device: Device, code: bytes) -> wasmtime.Func:
        (size,) = _SIZE.unpack_from(code)
        return device.instance(wasmtime.Module.deserialize(engine(), code[_SIZE.size + size :]))

    def stopped(self, why: wasmtime.Trap | wasmtime.WasmtimeError) -> QuadrantsRuntimeError:
        """The error to raise for a launch that wasmtime has stopped."""
        frames = why.frames if isinstance(why, wasmtime.Trap) else []
        at = module(self.kernel, self.options).at(frames[0].module_offset) if frames else N.NO_ID
        span = next((s.span for s in walk(self.kernel.body) if s.id == at), self.kernel.span)
        words = str(why).strip().splitlines()[-1].rpartition("wasm trap: ")[2]
        return QuadrantsRuntimeError(
            f"WebAssembly stopped kernel '{self.kernel.name}': {words}",
            code="QL3042",
            labels=(Label(span, "while it ran this"),),
        )


class Frame(GpuFrame):
    """The frame's words lie in the device's memory."""

    device: Device

    def __init__(self, exe: Executable, device: Device) -> None:
        self._run = exe.run(device)
        self._memory = device.allocate((exe.layout.size,), "u1")
        self.address = self._memory.address
        super().__init__(exe, device, self._memory.array.data)

    def _heap_plan(self, caps: Sequence[int], budget: int, pushing: Mapping[int, int]) -> HeapPlan:
        """The stacks of one iteration. Tasks use the same memory one after the other."""
        places, most = self.words.slab(caps)
        own = {s.id: max(1, self.exe.tasks[self.words.task_of[s.id]].lanes) for s in self.words.stacks}
        lanes = max(own.values(), default=1)
        return HeapPlan(lanes, {stack: at * own[stack] for stack, at in places.items()}, most, most * lanes)

    def launch(self) -> int:
        self._begin_launch()
        self._clear()
        exe: Any = self.exe
        why = self.device.call(self._run, self.address)
        if why is not None:
            raise exe.stopped(why)
        return self.status
