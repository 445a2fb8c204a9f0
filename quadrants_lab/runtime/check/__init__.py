"""Gradients compared with differences and with forward mode."""

SECONDS = 25.0  # after so many seconds the check moves no more elements one by one
# how bad a verdict is -> the colour of its badge: in a terminal, and on pages, where white letters on it are readable
LEVELS = {"good": ("green", "#1a7f37"), "warning": ("yellow", "#946000"), "bad": ("red", "#c62f3a")}
