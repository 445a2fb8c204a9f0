"""Defines the intermediate representation (IR), which all other packages use: types, source spans, statements,
primitives, text, verifier."""
