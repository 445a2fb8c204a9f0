"""Statements and expressions of Python's syntax as IR."""
