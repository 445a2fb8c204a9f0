"""The front end lowers the Python AST of a kernel to IR.

`source.function_source` finds the text of a function, `lower.lower` makes a kernel of it. Python that the kernel
language lacks is an error from the table in `diagnostics`.
"""
