"""How programs are launched on CUDA."""

from quadrants_lab.backends._simt.shape import Shape

# With this oversubscription most iterations have a thread of their own. Kernels can set flags in pinned host memory.
SHAPE = Shape(group=128, block=(1024, 32), waves=64, signals=True, warp=32, local_arrays=True, near_sines=True)
# the threads per multiprocessor that suffice for most of the speed where adstacks take more than LARGE_HEAP bytes
FEW = 640
LARGE_HEAP = 64 << 20
