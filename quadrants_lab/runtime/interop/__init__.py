"""Arrays of other libraries (torch, JAX, CuPy, numpy) as kernel arguments."""
