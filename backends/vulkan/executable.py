"""Loads a kernel on Vulkan as pipelines, and launches it by launch frames (the arguments), whose command buffers
are recorded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import GpuFrame
from quadrants_lab.backends._gpu.programs import Program, returns_or_fails
from quadrants_lab.backends._spirv.target import Target, missing
from quadrants_lab.backends.disk_cache import Keep, forget
from quadrants_lab.backends.vulkan import api, logical as V, queue as Q
from quadrants_lab.backends.vulkan.device import Device
from quadrants_lab.backends.vulkan.memory import Piece
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions

_COMPUTE_STAGE, _COMPUTE_POINT = 0x20, 1
_MOST_SLOTS = 2 * Q.MOST


class Executable(GpuExecutable):
    """A kernel loaded on Vulkan. ``object``: its SPIR-V for the capabilities ``target``; for a device with others,
    the kernel is emitted again. ``synchronous``: whether a launch returns something or may fail an assert."""

    def __init__(
        self, kernel: Kernel, options: CompileOptions, target: Target, cached: bytes | None, keep: Keep
    ) -> None:
        for made in target.first(options):
            kernel = made(kernel)
        super().__init__(kernel, lambda: emit(kernel, options, target), cached, keep)
        self.options = options
        self.synchronous = returns_or_fails(kernel)
        self.target = target

    def frame(self, device: Device) -> Frame:
        return Frame(self, device)

    def pipelines(self, logical: V.Logical) -> Pipelines:
        """The pipelines of the programs; the driver compiles them once for each device."""
        target, make = logical.physical.target, partial(Pipelines, self, logical)
        if target == self.target:
            return self.once(logical, lambda: self.built(make))
        return self.once(logical, lambda: make(emit(self.kernel, self.options, target)))


def load(kernel: Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget) -> Executable:
    return Executable(kernel, options, api.choose().target, cached, keep)


def emit(kernel: Kernel, options: CompileOptions, target: Target) -> bytes:
    """The SPIR-V of a kernel. Raises RuntimeError if the device lacks a capability that the kernel needs."""
    # imported late: not needed if the code comes from the disk cache
    from quadrants_lab.backends._spirv.kernel import module

    made = module(kernel, options, target)
    code = made.words()
    lacking = missing(list(made.capabilities), target)
    if lacking:
        raise RuntimeError(f"kernel {kernel.name} cannot run on this Vulkan device, which lacks {lacking}")
    return code


class Pipelines:
    """The pipelines of a kernel's programs, in order, and the pipeline layout that they share."""

    def __init__(self, exe: Executable, logical: V.Logical, code: bytes) -> None:
        f, vk, device = api.ffi(), api.lib(), logical.handle
        self.logical = logical
        self.handles: list[Any] = []
        self._words = f.new("char[]", code)

        def where(failed: list[Program]) -> str:
            size = f"{len(code)} bytes, {_lines(code)} lines of SPIR-V"
            names = f" (program {', '.join(p.name for p in failed)})" if failed else ""
            span = next((p.task.span for p in failed if p.task.span), exe.kernel.span)
            line = f", from {span.file}, line {span.line}" if span else ""
            return f"building kernel {exe.kernel.name}{names}: {size}, on {logical.physical.identity}{line}"

        info = api.new("VkShaderModuleCreateInfo", codeSize=len(code), pCode=f.cast("uint32_t *", self._words))
        shader = f.new("VkShaderModule *")
        result = vk.vkCreateShaderModule(device, info, f.NULL, shader)
        if result:
            api.check(result, where([]))
        push = api.new("VkPushConstantRange", stageFlags=_COMPUTE_STAGE, offset=0, size=8)
        ranges = {"pushConstantRangeCount": 1, "pPushConstantRanges": push}
        self.layout = api.create("PipelineLayout", device, "making a pipeline layout", **ranges)[0]
        count = len(exe.programs)
        infos = f.new("VkComputePipelineCreateInfo[]", count)
        names = [f.new("char[]", p.name.encode()) for p in exe.programs]
        stage = api.new("VkPipelineShaderStageCreateInfo", stage=_COMPUTE_STAGE, module=shader[0])
        sample = api.new("VkComputePipelineCreateInfo", layout=self.layout)
        for n, name in enumerate(names):
            infos[n] = sample[0]
            infos[n].stage = stage[0]
            infos[n].stage.pName = name
        made = f.new("VkPipeline[]", count)
        result = 0
        if count:
            result = vk.vkCreateComputePipelines(device, logical.pipeline_cache, count, infos, f.NULL, made)
        vk.vkDestroyShaderModule(device, shader[0], f.NULL)
        self.handles = [made[n] for n in range(count)]
        built = [h for h in self.handles if h]
        forks.finalize(self, logical.queue.defer_free, partial(_destroy, logical, self.layout, built))
        if result:
            failed = [p for p, h in zip(exe.programs, self.handles, strict=True) if not h]
            api.check(result, where(failed))


def _lines(code: bytes) -> int:
    """The number of instructions of a module, each a line of its listing."""
    words = memoryview(code).cast("I")
    at, count = 5, 0
    while at < len(words):
        at += max(words[at] >> 16, 1)
        count += 1
    return count


def _destroy(logical: V.Logical, layout: Any, pipelines: list[Any]) -> None:
    f, vk = api.ffi(), api.lib()
    for p in pipelines:
        vk.vkDestroyPipeline(logical.handle, p, f.NULL)
    vk.vkDestroyPipelineLayout(logical.handle, layout, f.NULL)


class Slot:
    """Memory for the words of one launch, and the command buffer that runs the kernel on them. ``inputs``: the words
    that were last copied to this memory. ``uses``: how many launches in the queue use the slot; launches with equal
    words share a slot."""

    def __init__(self, frame: Frame) -> None:
        exe, self._frame = frame.exe, frame
        self.uses = 0
        self.cost = frame.cost
        self.what = f"running kernel {exe.kernel.name}"
        self.inputs = b""
        self.piece = frame.device.pool.take(exe.layout.size)
        words = self.piece.array((exe.layout.size,), np.uint8)
        words[...] = 0
        self.words = words.data
        self.status = words[L.STATUS : L.STATUS + 4].view(np.uint32).data
        self._commands: Any = None

    def commands(self) -> Any:
        """The slot's command buffer, a secondary one that may execute several times at once."""
        if self._commands is None:
            self._commands = self._frame.record(self.piece)
        return self._commands

    def done(self) -> BaseException | None:
        return self._frame.ended(self) if self.status[0] else None


class Frame(GpuFrame):
    """A launch frame. Launches are asynchronous unless they return something or their adstacks may be too small. In
    flight, launches with different words have different slots."""

    device: Device
    exe: Executable

    def __init__(self, exe: Executable, device: Device) -> None:
        self._words = np.zeros(exe.layout.size, np.uint8)
        super().__init__(exe, device, self._words.data)
        self._logical, self._queue = device.logical, device.logical.queue
        exe.pipelines(self._logical)  # built here, so that errors are raised now
        self._slots = Q.Ring(self._queue, partial(Slot, self), _MOST_SLOTS)
        self._slot = self._slots.next()
        self._inputs = self.view[L.SEED :]
        self._waits = exe.synchronous or any(exe.stacked)
        self._report: Callable[[], BaseException] | None = None
        self._zeroes = exe.layout.frame.zero_bytes > 0
        self._taken = True  # whether ``view`` holds the results of the last launch

    def launch(self) -> int:
        """Starts the kernel; returns the status, or 0 if the launch is asynchronous."""
        device, view = self.device, self.view
        if device.ahead:
            device.send()
        self._begin_launch()
        if self._taken:
            self._clear()
            self._taken = False
        slot = self._slot
        inputs = self._inputs.tobytes()
        if slot.inputs != inputs or self._zeroes:
            slot = self._slot = self._slots.next()
            slot.words[:] = view
            slot.inputs = inputs
        self._queue.add(slot)
        return self._await(slot) if self._waits else 0

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:
        """See `quadrants_lab.backends.launch.Frame`."""
        self._waits = self.exe.synchronous
        self._report = report

    def _await(self, slot: Slot) -> int:
        self._queue.finish()
        self._take(slot)
        if self.status & L.CUT:
            raise self._cut()
        return self.status

    def _take(self, slot: Slot) -> None:
        """Copies the results of a launch to ``view``, and clears the slot for another launch."""
        self.view[:] = slot.words
        slot.words[: L.FAIL_VALUES] = self._head_zeros
        slot.inputs = b""
        self._taken = True

    def ended(self, slot: Slot) -> BaseException | None:
        """The error of a launch that ended with a status; None if the caller of the launch waits for it. ``view`` is
        restored afterwards, because its words may belong to a later launch."""
        if self._waits:
            return None
        view, taken = self.view.tobytes(), self._taken
        self._take(slot)
        error = self._cut() if self.status & L.CUT or self._report is None else self._report()
        self.view[:], self._taken = view, taken
        return error

    def _cut(self) -> RuntimeError:
        return RuntimeError(
            f"kernel {self.exe.kernel.name} went round its loops more than {api.LLVMPIPE_ROUNDS} times in one "
            f"thread, where {self._logical.physical.name} stops it; what it wrote is incomplete"
        )

    def record(self, piece: Piece) -> Any:
        """Records a command buffer that runs the programs one after the other on the words in ``piece``."""
        logical = self._logical
        made = logical.record(partial(self._write, piece, self.exe.pipelines(logical)))
        forks.finalize(self, logical.free_commands, made)
        return made[0]

    def _write(self, piece: Piece, pipelines: Pipelines, commands: Any) -> None:
        vk, exe = api.lib(), self.exe
        address = api.ffi().new("uint64_t *", piece.address)
        vk.vkCmdPushConstants(commands, pipelines.layout, _COMPUTE_STAGE, 0, 8, address)
        for program, pipeline in zip(exe.programs, pipelines.handles, strict=True):
            vk.vkCmdBindPipeline(commands, _COMPUTE_POINT, pipeline)
            if program.kind == "range":
                at = piece.offset + exe.layout.grid[program.number]
                vk.vkCmdDispatchIndirect(commands, piece.block.buffer, at)
            else:
                vk.vkCmdDispatch(commands, 1, 1, 1)
            V.barrier(commands)
