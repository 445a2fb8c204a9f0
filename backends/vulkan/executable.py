"""A kernel loaded on Vulkan: pipelines, and launch frames with a command buffer recorded once."""

from __future__ import annotations

import struct
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import GpuFrame
from quadrants_lab.backends._gpu.programs import Program, answers
from quadrants_lab.backends._spirv.target import Target, missing
from quadrants_lab.backends.disk_cache import Keep, forget
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan import logical as V
from quadrants_lab.backends.vulkan import queue as Q
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.vulkan.device import Device
    from quadrants_lab.backends.vulkan.memory import Piece

_COMPUTE_STAGE, _COMPUTE_POINT = 0x20, 1
_MOST_SLOTS = 2 * Q.MOST
_DRAWS = struct.Struct("=QQ")
_WORD = struct.Struct("=Q")


class Executable(GpuExecutable):
    """``object``: the SPIR-V for ``target``; for devices with other abilities it is emitted anew. ``asked``: whether a
    launch returns something or may fail an assert."""

    def __init__(
        self, kernel: Kernel, options: CompileOptions, target: Target, cached: bytes | None, keep: Keep
    ) -> None:
        for made in target.first(options):
            kernel = made(kernel)
        super().__init__(kernel, lambda: emit(kernel, options, target), cached, keep, target.in_step)
        self.options = options
        self.asked = answers(kernel)
        self.target = target

    def frame(self, device: Device) -> Frame:
        return Frame(self, device)

    def pipelines(self, logical: V.Logical) -> Pipelines:
        """Compiled by the driver, once a device."""
        target, make = logical.physical.target, partial(Pipelines, self, logical)
        if target == self.target:
            return self.once(logical, lambda: self.built(make))
        return self.once(logical, lambda: make(emit(self.kernel, self.options, target)))


def load(kernel: Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget) -> Executable:
    return Executable(kernel, options, api.choose().target, cached, keep)


def emit(kernel: Kernel, options: CompileOptions, target: Target) -> bytes:
    """SPIR-V words; a sentence in RuntimeError where the device cannot run them."""
    from quadrants_lab.backends._spirv.kernel import module  # what comes from the disk does not need it

    made = module(kernel, options, target)
    code = made.words()
    lacking = missing(list(made.capabilities), target)
    if lacking:
        raise RuntimeError(f"kernel {kernel.name} cannot run on this Vulkan device, which lacks {lacking}")
    return code


class Pipelines:
    """One a program, in order, and their common layout."""

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

        info = api.new(
            "VkShaderModuleCreateInfo", codeSize=len(code), pCode=f.cast("uint32_t *", self._words)
        )
        shader = f.new("VkShaderModule *")
        result = vk.vkCreateShaderModule(device, info, f.NULL, shader)
        if result:
            api.check(result, where([]))
        push = api.new("VkPushConstantRange", stageFlags=_COMPUTE_STAGE, offset=0, size=8)
        layout_info = api.new(
            "VkPipelineLayoutCreateInfo", pushConstantRangeCount=1, pPushConstantRanges=push
        )
        layout = f.new("VkPipelineLayout *")
        api.check(vk.vkCreatePipelineLayout(device, layout_info, f.NULL, layout), "making a pipeline layout")
        self.layout = layout[0]
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
    """How many instructions a module has, a line each in its listing."""
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
    """The words of a launch, and command buffers that run the kernel on them. ``inputs``: what was
    copied there. It can be started again while it waits or runs: ``uses`` counts how often it does."""

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
        """A secondary command buffer that may be executed any number of times at once."""
        if self._commands is None:
            self._commands = self._frame.record(self.piece)
        return self._commands

    def done(self) -> BaseException | None:
        """To be called for each run that came to its end; the error that it ended with."""
        return self._frame.ended(self) if self.status[0] else None


class Frame(GpuFrame):
    """Launches are asynchronous, unless they return something or their stacks may be too small. Launches under way
    whose words differ have a slot each."""

    device: Device
    exe: Executable

    def __init__(self, exe: Executable, device: Device) -> None:
        self._words = np.zeros(exe.layout.size, np.uint8)
        super().__init__(exe, device, self._words.data)
        self._logical, self._queue = device.logical, device.logical.queue
        exe.pipelines(self._logical)  # what cannot be built is told here
        self._slot = Slot(self)
        self._slots = deque([self._slot])  # the one that was taken last is the last
        self._inputs = self.view[L.SEED :]
        self._number = 0
        self._stacks, self._heap = bool(exe.layout.frame.stacks), 0
        self._waits = exe.asked or any(exe.stacked)
        self._report: Callable[[], BaseException] | None = None
        self._zeroes = exe.layout.frame.zero_bytes > 0
        self._taken = True  # whether the view has what a launch left there

    def launch(self) -> int:
        """Starts the kernel; returns the status, or 0 where the launch is asynchronous."""
        device, view = self.device, self.view
        if device.ahead:
            device.send()
        if self._grid_is_old:
            self._set_grid()
        device.launches += 1
        self._number = self._replay or device.launches
        if self.exe.draws:
            _DRAWS.pack_into(view, L.SEED, device.seed, self._number)
        if self._stacks and device.heap_address != self._heap:
            self._heap = device.heap_address
            _WORD.pack_into(view, L.HEAP, self._heap)
        if self._taken:
            view[: L.FAIL_VALUES] = self._head_zeros
            view[self._zero] = self._zeros
            self._taken = False
        slot = self._slot
        inputs = self._inputs.tobytes()
        if slot.inputs != inputs or self._zeroes:
            slot = self._next_slot()
            slot.words[:] = view
            slot.inputs = inputs
        self._queue.add(slot)
        return self._await(slot) if self._waits else 0

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:
        """See `quadrants_lab.backends.launch.Frame`."""
        self._waits = self.exe.asked
        self._report = report

    def _await(self, slot: Slot) -> int:
        self._queue.finish()
        self._take(slot)
        if self.status & L.CUT:
            raise self._cut()
        return self.status

    def _take(self, slot: Slot) -> None:
        """What a launch left, into the view; its slot is then for another one."""
        self.view[:] = slot.words
        slot.words[: L.FAIL_VALUES] = self._head_zeros
        slot.inputs = b""
        self._taken = True

    def ended(self, slot: Slot) -> BaseException | None:
        """The error of a launch that ended with a status; None where its caller waits for it. The view is as before: it
        may be for other arguments since."""
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

    def _next_slot(self) -> Slot:
        """A slot that no launch uses, waiting for one where all do: the one that was taken first is done first."""
        slots = self._slots
        if slots[0].uses and len(slots) < _MOST_SLOTS:
            slots.append(Slot(self))
        else:
            if slots[0].uses:
                self._queue.release(slots[0])
            slots.rotate(-1)
        self._slot = slots[-1]
        return self._slot

    def record(self, piece: Piece) -> Any:
        """A command buffer that runs the programs in order, each after the one before."""
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

    @property
    def launch_number(self) -> int:
        return self._number
