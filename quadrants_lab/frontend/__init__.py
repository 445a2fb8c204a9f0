"""The front end: the Python AST of a kernel to IR.

`source.function_source` finds a function's text, `lower.lower` turns it into a kernel. Everything that Python has and
the kernel language has not is an error from the table in `diagnostics`.
"""
