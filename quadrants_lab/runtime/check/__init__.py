"""Gradients compared with differences and with forward mode."""

SECONDS = 25.0  # after these no more elements are moved alone
