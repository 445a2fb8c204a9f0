"""The operations that kernels call by name: a table of rows, and what lowers each."""
