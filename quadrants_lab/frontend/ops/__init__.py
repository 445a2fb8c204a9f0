"""The operations that kernels call by name. Each module has rows of the table (`frontend.op_table`), with the functions
that lower them."""
