"""Launches of compiled kernels."""
