"""Emits tasks as LLVM IR for the GPUs that LLVM has a target for, and launches them through the driver's API."""
