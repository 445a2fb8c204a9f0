"""A module of a program: a script cannot import it."""

SHIFT = 4
