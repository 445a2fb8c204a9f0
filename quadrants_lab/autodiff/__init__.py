"""Derives gradients of kernels (reverse mode) and tangents (forward mode): what to differentiate, which values to
save, and the adjoint code."""
