"""Runs IR on the C backend without the layers above it; its frames are the CPU's."""

from quadrants_lab.backends import c
from rigs.cpu_rig import EXACT, FAST, TYPES, HostRig

__all__ = ["EXACT", "FAST", "TYPES", "bind", "device", "fresh", "load", "run"]

RIG = HostRig(c.load, c.open_device)
bind, device, fresh, load, run = RIG.bind, RIG.device, RIG.fresh, RIG.load, RIG.run
