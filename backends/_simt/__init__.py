"""From offloaded IR to LLVM IR for GPUs that LLVM compiles for: a program a task, in the frame of `_gpu`."""
