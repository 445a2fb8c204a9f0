"""A kernel loaded on Vulkan: pipelines, and launch frames with a command buffer recorded once."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import GpuFrame
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._spirv.kernel import module
from quadrants_lab.backends._spirv.target import Target, missing
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan import logical as V
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions

if TYPE_CHECKING:
    from quadrants_lab.backends.vulkan.device import Device

_COMPUTE_STAGE, _COMPUTE_POINT = 0x20, 1


class Executable(GpuExecutable):
    """``object``: the SPIR-V for ``target``; for devices with other abilities it is emitted anew."""

    def __init__(self, kernel: Kernel, options: CompileOptions, target: Target, cached: bytes | None) -> None:
        code = cached if cached is not None else emit(kernel, options, target)
        super().__init__(kernel, code)
        self.options = options
        self.target = target
        self._pipelines: weakref.WeakKeyDictionary[V.Logical, Pipelines] = weakref.WeakKeyDictionary()

    def frame(self, device: Device) -> Frame:
        return Frame(self, device)

    def pipelines(self, logical: V.Logical) -> Pipelines:
        """Compiled by the driver, once a device."""
        made = self._pipelines.get(logical)
        if made is None:
            target = logical.physical.target
            code = self.object if target == self.target else emit(self.kernel, self.options, target)
            made = self._pipelines[logical] = Pipelines(self, logical, code)
        return made


def load(kernel: Kernel, options: CompileOptions, cached: bytes | None = None) -> Executable:
    return Executable(kernel, options, api.choose().target, cached)


def emit(kernel: Kernel, options: CompileOptions, target: Target) -> bytes:
    """SPIR-V words; a sentence in RuntimeError where the device cannot run them."""
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
        weakref.finalize(self, _destroy, logical, self.layout, [h for h in self.handles if h])
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
    if logical.idle():
        f, vk = api.ffi(), api.lib()
        for p in pipelines:
            vk.vkDestroyPipeline(logical.handle, p, f.NULL)
        vk.vkDestroyPipelineLayout(logical.handle, layout, f.NULL)


class Frame(GpuFrame):
    """The frame's words are mapped memory; a launch is one submission."""

    def __init__(self, exe: Executable, device: Device) -> None:
        self._piece = device.frames.take(exe.layout.size)
        words = self._piece.array((exe.layout.size,), np.uint8)
        words[...] = 0
        super().__init__(exe, device, words.data)
        self._logical = device.logical
        self._pipelines = exe.pipelines(device.logical)
        self._what = f"running kernel {exe.kernel.name}"
        self._commands = self._record(exe)
        self._submission = api.new("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=self._commands)
        weakref.finalize(self, _free_commands, self._logical, self._commands)

    def _record(self, exe: Executable) -> Any:
        f, vk = api.ffi(), api.lib()
        made = self._logical.command_buffer()
        commands = made[0]
        vk.vkBeginCommandBuffer(commands, api.new("VkCommandBufferBeginInfo"))
        address = f.new("uint64_t *", self._piece.address)
        vk.vkCmdPushConstants(commands, self._pipelines.layout, _COMPUTE_STAGE, 0, 8, address)
        block = self._piece.block.buffer
        for n, (program, pipeline) in enumerate(zip(exe.programs, self._pipelines.handles, strict=True)):
            if n:
                reads = V.SHADER_READ | V.SHADER_WRITE | V.INDIRECT_READ
                V.barrier(commands, V.COMPUTE, V.SHADER_WRITE, V.COMPUTE | V.INDIRECT, reads)
            vk.vkCmdBindPipeline(commands, _COMPUTE_POINT, pipeline)
            if program.kind == "range":
                at = self._piece.offset + exe.layout.grid[program.number]
                vk.vkCmdDispatchIndirect(commands, block, at)
            else:
                vk.vkCmdDispatch(commands, 1, 1, 1)
        V.barrier(commands, V.COMPUTE, V.SHADER_WRITE, V.HOST, V.HOST_READ)
        api.check(vk.vkEndCommandBuffer(commands), f"recording kernel {exe.kernel.name}")
        return made

    def run(self) -> None:
        self._logical.submit(self._submission, self._what)
        if self.status & L.CUT:
            raise RuntimeError(
                f"kernel {self.exe.kernel.name} went round its loops more than {api.LLVMPIPE_ROUNDS} times in one "
                f"thread, where {self._logical.physical.name} stops it; what it wrote is incomplete"
            )


def _free_commands(logical: V.Logical, commands: Any) -> None:
    if logical.idle():
        api.lib().vkFreeCommandBuffers(logical.handle, logical.command_pool, 1, commands)
