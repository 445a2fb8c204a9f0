"""Warnings about gradients that more than one launch takes part in."""
