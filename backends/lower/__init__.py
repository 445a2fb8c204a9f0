"""What a statement means on a device, as passes from IR to IR. They stand on the IR alone; each backend names those
that it needs, in order: `quadrants_lab.runtime.backend.Backend.lowering`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from quadrants_lab.ir.nodes import Kernel, Pass


def lower(kernel: Kernel, passes: Iterable[Pass]) -> Kernel:
    """The kernel after all of ``passes``."""
    return reduce(lambda k, one: one(k), passes, kernel)
