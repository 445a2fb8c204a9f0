"""The order in which passes run, as data: tuples of passes, and every pass by its name."""
