"""Runs IR on an AMD device or its stand-in, without the layers above. `LISTED` also makes code objects, checks them and
links them where LLVM's linker is found: by day for one chip, by night for all."""

import os
from typing import Any

from quadrants_lab.backends import amdgpu
from quadrants_lab.backends.amdgpu import listings
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from rigs import EXACT, FAST, TYPES, Rig, amdgpu_objects, hip_stand_in

__all__ = ["EXACT", "FAST", "LISTED", "TYPES", "bind", "device", "fresh", "load", "run"]

CHIPS = ("gfx90a", "gfx942", "gfx1100") if os.environ.get("QL_NIGHTLY") else ("gfx1100",)

hip_stand_in.install()
RIG = Rig(lambda kernel, options: amdgpu.load(kernel, options), lambda: amdgpu.open_device())
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run


def _listed(kernel: N.Kernel, options: CompileOptions) -> Any:
    for chip in CHIPS:
        amdgpu_objects.check(listings.object_of(kernel, options, chip), kernel, chip)
    return amdgpu.load(kernel, options)


LISTED = Rig(_listed, lambda: amdgpu.open_device())
