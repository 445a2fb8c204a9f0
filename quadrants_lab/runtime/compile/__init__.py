"""Compiles a Python function to loaded machine code."""
