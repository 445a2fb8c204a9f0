"""What a statement means on a device, as passes from IR to IR. They stand on the IR alone; each backend names those
that it needs, in order: `quadrants_lab.runtime.backend.Backend.lowering`."""

from __future__ import annotations

from collections.abc import Iterable

from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.passes import pipeline


def lower(kernel: Kernel, passes: Iterable[Pass], options: CompileOptions) -> Kernel:
    """The kernel as an emitter takes it; recorded and verified as other passes are."""
    return pipeline.run(kernel, passes, options.verify)
