"""Interprets a call's arguments: which specialisation of the kernel serves them, and what its launch gets."""
