"""Loads a kernel on Metal, and launches it by launch frames, which hold a launch's arguments."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import GpuFrame
from quadrants_lab.backends._msl.kernel import module
from quadrants_lab.backends.disk_cache import Keep, forget
from quadrants_lab.backends.metal.apple import SCOPE_BUFFERS, USAGE_READ_WRITE
from quadrants_lab.backends.metal.device import Device, contents
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk

_MESSAGE = re.compile(r"^[^\n]*?:(\d+):\d+: (?:fatal )?error: ", re.MULTILINE)
_MOST_SHOWN = 2000  # at most so many characters of the compiler's message are shown


class Executable(GpuExecutable):
    """A kernel loaded on Metal. ``object``: its MSL source."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget
    ) -> None:
        self.options = options
        super().__init__(kernel, lambda: module(kernel, options).text.encode(), cached, keep)

    @property
    def source(self) -> str:
        return self.object.decode()

    def frame(self, device: Device) -> MetalFrame:
        return MetalFrame(self, device)

    def pipelines(self, device: Device) -> list[Any]:
        """An MTLComputePipelineState for each program; they are built once for each device.

        Raises QuadrantsRuntimeError with the compiler's message if the source does not compile.
        """
        with device.system.pool():
            return self.once(device, lambda: self.built(partial(self._build, device)))

    def _build(self, device: Device, source: bytes) -> list[Any]:
        options = device.system.compile_options(self.options.fast_math)
        library, error = device.metal.newLibraryWithSource_options_error_(source.decode(), options, None)
        if library is None:
            raise self._failed(device, error)
        out = []
        for program in self.programs:
            function = library.newFunctionWithName_(program.name)
            if function is None:
                raise self._failed(device, f"it has no function {program.name}", program.task.span)
            state, error = device.metal.newComputePipelineStateWithFunction_error_(function, None)
            if state is None:
                raise self._failed(device, error, program.task.span)
            if state.maxTotalThreadsPerThreadgroup() < program.group:
                words = f"{program.name} needs too many registers for a group of {program.group} threads"
                raise self._failed(device, words, program.task.span)
            out.append(state)
        return out

    def _failed(self, device: Device, error: Any, span: Span | None = None) -> QuadrantsRuntimeError:
        words = error if isinstance(error, str) else str(error.localizedDescription()) if error is not None else ""
        lines = self.source.count("\n") + 1
        shown = words if len(words) <= _MOST_SHOWN else words[:_MOST_SHOWN] + " ..."
        return QuadrantsRuntimeError(
            f"kernel '{self.kernel.name}' does not build on metal ({device.name}): {len(self.object)} bytes, "
            f"{lines} lines of MSL\n{shown}",
            code="QL3002",
            labels=(Label(span or self._place(words), "from this line"),),
        )

    def _place(self, words: str) -> Span | None:
        """The position in the user's source that a message of the compiler is about, if it is known."""
        found = _MESSAGE.search(words)
        if found is None or self.options.debug:  # with #line the message itself names the user's line
            return None
        ids = module(self.kernel, self.options).ids
        line = int(found.group(1)) - 1
        id = ids[line] if 0 <= line < len(ids) else N.NO_ID
        return next((s.span for s in walk(self.kernel.body) if s.id == id), None)


class MetalFrame(GpuFrame):
    """A launch frame whose words are in a buffer that host and GPU share."""

    device: Device

    def __init__(self, exe: Executable, device: Device) -> None:
        self._pipelines = exe.pipelines(device)
        self._buffer = device.make_buffer(exe.layout.size)
        super().__init__(exe, device, contents(self._buffer, exe.layout.size))

    def launch(self) -> int:
        """Runs the kernel and waits for it; returns the status."""
        device, layout = self.device, self.exe.layout
        if device.busy:
            device.finish()
        self._begin_launch()
        self._clear()
        with device.system.pool():
            commands = device.queue.commandBuffer()
            encoder = commands.computeCommandEncoder()
            encoder.setBuffer_offset_atIndex_(self._buffer, 0, 0)
            for buffer in self._resources():
                encoder.useResource_usage_(buffer, USAGE_READ_WRITE)
            for program, pipeline in zip(self.exe.programs, self._pipelines, strict=True):
                threads = (program.group, 1, 1)
                by_the_host = program.kind != "range" or program.inline
                groups = 1 if program.kind == "bounds" else self.groups(program.number)
                if by_the_host and not groups:
                    continue
                encoder.setComputePipelineState_(pipeline)
                if by_the_host:
                    encoder.dispatchThreadgroups_threadsPerThreadgroup_((groups, 1, 1), threads)
                else:
                    encoder.dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(
                        self._buffer, layout.grid[program.number], threads
                    )
                encoder.memoryBarrierWithScope_(SCOPE_BUFFERS)
            encoder.endEncoding()
            commands.commit()
            device.wait(commands, self.exe.kernel.name)
        return self.status

    def _resources(self) -> list[Any]:
        """The MTLBuffers that the kernel accesses through addresses in its frame. Metal has to be told about these."""
        device = self.device
        buffers = self.exe.kernel.buffers.values()
        used = {b.name: self.buffer(b.name) for b in buffers if b.kind in ("field", "ndarray", "scratch")}
        if device.heap_address and self.exe.layout.frame.stacks:
            used["the adstack heap"] = device.heap_address
        if self.exe.layout.frame.prints:
            used["the print block"] = device.print_block().address
        out: list[Any] = []
        for name, address in used.items():
            buffer = device.buffer_at(address)
            if buffer is None:
                raise QuadrantsRuntimeError(
                    f"'{name}' of kernel '{self.exe.kernel.name}' does not lie in memory of {device.name}",
                    code="QL3004",
                )
            if not any(buffer is other for other in out):
                out.append(buffer)
        return out
