"""What devices differ in that the runtime asks for."""

from __future__ import annotations

from quadrants_lab.ir.record import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """``ad_unroll``: how many trips of a loop are best one for a gradient that keeps much a trip, as `CompileOptions`
    has it; 1 where computing costs more than memory. ``on_host``: its memory is this process's, so any
    aligned numpy array can be a buffer; launches are done when they return; and hardly more iterations are in flight
    than there are threads. ``suspects_races``: see `CompileOptions.suspect_races`. ``dlpack``:
    DLPack's number of the kind of device whose arrays kernels use where they lie, 0 for none. ``many``: `open_device`
    takes the number of one of several devices."""

    ad_unroll: tuple[int, int] = (1, 1)
    on_host: bool = False
    suspects_races: bool = False
    dlpack: int = 0
    many: bool = False
