"""Passes arrays of other libraries (torch, JAX, CuPy, numpy) to kernels: their memory, and the gradients of torch
tensors."""
