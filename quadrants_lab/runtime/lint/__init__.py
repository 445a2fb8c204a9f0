"""Doubts about a gradient, told as warnings."""
