"""Gradients compared with differences and with forward mode."""

SECONDS = 25.0  # after so many seconds no more elements are moved one by one
