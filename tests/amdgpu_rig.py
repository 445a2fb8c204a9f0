"""Runs IR on an AMD device, or on what stands in for one, without the layers above it."""

import hip_stand_in
from rigs import EXACT, FAST, Rig

from quadrants_lab.backends import amdgpu

__all__ = ["EXACT", "FAST", "bind", "device", "fresh", "load", "run"]

hip_stand_in.install()
RIG = Rig(lambda kernel, options: amdgpu.load(kernel, options), lambda: amdgpu.open_device())
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run
