"""How programs are launched on CUDA."""

from __future__ import annotations

from quadrants_lab.backends._simt.shape import Shape

# With that many waves most iterations have a thread of their own. Kernels see memory of the host, and set flags there.
SHAPE = Shape(group=128, waves=64, signals=True, together=32)
# threads of a multiprocessor with adstacks, where these take more than LARGE_HEAP bytes: enough for most of the speed
FEW = 640
LARGE_HEAP = 64 << 20
