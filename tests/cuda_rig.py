"""Runs IR on a CUDA device, or on what stands in for one, without the layers above it."""

import cuda_stand_in
from rigs import EXACT, FAST, Rig

from quadrants_lab.backends import cuda

__all__ = ["EXACT", "FAST", "bind", "device", "fresh", "load", "run"]

cuda_stand_in.install()
RIG = Rig(cuda.load, cuda.open_device)
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run
