"""Stands in for AMD's HIP runtime where there is no device, as `cuda_stand_in` does for NVIDIA's driver: the LLVM IR of
`_simt`, with the elementary functions that the amdgpu backend has, for this machine's processor."""

from __future__ import annotations

import os

from cuda_stand_in import Host
from cuda_stand_in import StandIn as Cuda

from quadrants_lab.backends._simt import functions
from quadrants_lab.backends._simt.target import Target
from quadrants_lab.backends.amdgpu import chips, hip, shape


class StandIn(Cuda):
    """See `quadrants_lab.backends.amdgpu.hip.Driver`."""

    shape = shape
    name = "a stand-in for an AMD device"
    chip = chips.DEFAULT
    version = 70000000
    graph = None  # type: ignore[assignment]  # the driver starts programs one by one

    def target(self) -> Target:
        made = Host(self.shape)
        made.own = functions.OWN
        return made


def install() -> None:
    """For machines without a device; harmless on others. QL_NO_STAND_IN=1: not here, a device is to be tested."""
    if hip.stand_in() is None and not os.environ.get("QL_NO_STAND_IN"):
        hip.register(StandIn())
