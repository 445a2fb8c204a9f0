"""Launches compiled kernels and their gradients."""
