"""Lowers statements and expressions of Python's syntax to IR."""
