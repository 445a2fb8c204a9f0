"""Says in which order passes run, as data: tuples of passes, and every pass by its name."""
