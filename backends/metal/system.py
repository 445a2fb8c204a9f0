"""What this backend asks of a Metal: Apple's, or the simulated one.

Methods of its objects are Apple's, spelled as PyObjC spells them (a colon of the selector is an underscore); what
returns an object and an error returns a pair. The calls made are

    device     name, maxBufferLength, recommendedMaxWorkingSetSize, newCommandQueue, newBufferWithLength_options_,
               newLibraryWithSource_options_error_, newComputePipelineStateWithFunction_error_
    library    newFunctionWithName_
    pipeline   maxTotalThreadsPerThreadgroup
    buffer     contents, gpuAddress
    queue      commandBuffer
    command buffer   computeCommandEncoder, commit, status, error, waitUntilCompleted
    encoder    setBuffer_offset_atIndex_, useResource_usage_, setComputePipelineState_, memoryBarrierWithScope_,
               dispatchThreadgroups_threadsPerThreadgroup_, endEncoding,
               dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_
    error      localizedDescription

See https://developer.apple.com/documentation/metal and https://pyobjc.readthedocs.io.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

STORAGE_SHARED = 0  # MTLResourceStorageModeShared
USAGE_READ_WRITE = 3  # MTLResourceUsageRead | MTLResourceUsageWrite
SCOPE_BUFFERS = 1  # MTLBarrierScopeBuffers
COMPLETED, ERROR = 4, 5  # MTLCommandBufferStatus


class System(Protocol):
    """A Metal and one device of it. ``threads``: how many a launch keeps in flight at most."""

    @property
    def simulated(self) -> bool: ...

    @property
    def threads(self) -> int: ...

    @property
    def device(self) -> Any: ...

    def compile_options(self, fast_math: bool) -> Any:
        """An MTLCompileOptions; NaN and infinity keep their meaning either way."""

    def pool(self) -> AbstractContextManager[Any]:
        """An autorelease pool around a launch: without one its temporary objects would live as long as the process."""
        ...
