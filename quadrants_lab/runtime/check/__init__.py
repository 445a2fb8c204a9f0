"""Gradients compared with differences and with forward mode."""

SECONDS = 25.0  # after so many seconds the check moves no more elements one by one
