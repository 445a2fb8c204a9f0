"""Launches of compiled kernels, and of their gradients."""
