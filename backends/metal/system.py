"""The interface of Metal, Apple's or the simulated one, as far as this backend uses it.

Methods of its objects are those of Apple's API as PyObjC spells them: a colon of the selector is an underscore, and a
method that returns an object and an error returns a pair. The backend calls

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

from contextlib import AbstractContextManager
from typing import Any, Protocol

STORAGE_SHARED = 0  # MTLResourceStorageModeShared
USAGE_READ_WRITE = 3  # MTLResourceUsageRead | MTLResourceUsageWrite
SCOPE_BUFFERS = 1  # MTLBarrierScopeBuffers
COMPLETED, ERROR = 4, 5  # MTLCommandBufferStatus


class System(Protocol):
    """A Metal with one device. ``threads``: the most threads of a launch."""

    @property
    def simulated(self) -> bool: ...

    @property
    def threads(self) -> int: ...

    @property
    def device(self) -> Any: ...

    def compile_options(self, fast_math: bool) -> Any:
        """An MTLCompileOptions; NaN and infinity keep their meaning either way."""

    def pool(self) -> AbstractContextManager[Any]:
        """An autorelease pool for a launch, without which its temporary objects would live as long as the process."""
        ...
