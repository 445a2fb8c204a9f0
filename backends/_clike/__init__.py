"""Structured IR to source of a language with the expressions and the control flow of C: what MSL and C share."""
