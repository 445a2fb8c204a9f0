"""Arrays of other libraries (torch, JAX, CuPy, numpy) as arguments of kernels: their memory, and the gradients of torch
tensors."""
