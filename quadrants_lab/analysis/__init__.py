"""What is true of a kernel: ranges of values, effects, where accesses go, what may depend on what."""
