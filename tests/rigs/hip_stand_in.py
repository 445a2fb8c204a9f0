"""A stand-in for AMD's HIP runtime where there is no device, like `cuda_stand_in`: it compiles the LLVM IR of `_simt`,
with the elementary functions of the amdgpu backend, for this machine's processor."""

import ctypes
import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from quadrants_lab.backends import amdgpu
from quadrants_lab.backends.amdgpu import SHAPE, gcn, hip
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from rigs.cuda_stand_in import StandIn as Cuda
from rigs.gcn_machine import Machine


class StandIn(Cuda):
    """See `quadrants_lab.backends.amdgpu.hip.Driver`."""

    shape = replace(SHAPE, barriers=False)
    name = "a stand-in for an AMD device"
    chip = amdgpu.DEFAULT_CHIP
    version = 70000000
    graph = None  # type: ignore[assignment]  # the driver starts programs one by one


class Chip(StandIn):
    """Executes the assembly of a chip on `gcn_machine`. ``waves``: the threads of a wave."""

    shape = SHAPE

    def __init__(self, chip: str) -> None:
        super().__init__()
        self.chip = self.code_name = chip
        self.name = f"an imitation of {chip}"

    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        text = "\n".join(gcn.emitted(kernel, options, self.chip).lines()[0])
        return gcn.assembly(gcn.optimised(text, self.chip), self.chip).encode()

    def load(self, code: bytes, what: str) -> Machine:
        return Machine(code.decode(), amdgpu.WAVES[self.chip], self._owns)

    def _owns(self, at: int, nbytes: int) -> bool:
        return any(start <= at and at + nbytes <= start + size for start, (_, size) in self._memory.items())

    def function(self, module: Machine, name: str, block: int) -> Any:
        about = module.directives[name]
        return SimpleNamespace(
            run=module.run, name=name, block=block, registers=about["next_free_vgpr"], local_bytes=0,
            blocks_at_once=max(1, 512 // block), module=module,
        )  # fmt: skip

    def call(self, function: Any, blocks: int, state: int, frame: int, nbytes: int) -> Any:
        def launch() -> int:
            self.launches += 1
            by_value = self.shape.passed_by_value(nbytes)
            content = ctypes.string_at(frame, nbytes) if by_value else frame.to_bytes(8, "little")
            words = state.to_bytes(8, "little") + content
            assert len(words) == function.module.directives[function.name]["kernarg_size"]

            def run() -> None:
                address = self.allocate(len(words))
                ctypes.memmove(address, words, len(words))
                function.run(function.name, blocks, function.block, address)
                self._drop(address)

            self._queue(run)
            return 0

        return SimpleNamespace(run=launch, args=())


def install() -> None:
    """Registers the stand-in, without effect where there is a device. It is omitted if QL_NO_STAND_IN is amdgpu."""
    if hip.stand_in() is None and os.environ.get("QL_NO_STAND_IN") != "amdgpu":
        hip.register(StandIn())
