"""Offloaded IR to LLVM IR for the GPUs that LLVM has a target for, and launches through the driver's API."""
