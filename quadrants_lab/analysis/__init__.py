"""Analyses kernels: ranges of values, effects, where accesses go, and what may depend on what."""
