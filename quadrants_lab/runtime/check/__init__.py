"""Gradients compared with differences and with forward mode."""
