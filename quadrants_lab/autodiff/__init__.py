"""Reverse mode: what to differentiate, what to keep, and the adjoint code itself."""
