"""Emits lowered IR as source of a language with C's expressions and control flow: what MSL and C have in common."""
