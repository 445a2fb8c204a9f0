"""The gradient doctor: compares gradients with finite differences and with forward mode, and finds the cause of errors.
"""

SECONDS = 25.0  # after so many seconds, no more elements are moved one by one
# how bad a verdict is -> the colour of its badge in a terminal, and on pages (dark enough for white letters)
LEVELS = {"good": ("green", "#1a7f37"), "warning": ("yellow", "#946000"), "bad": ("red", "#c62f3a")}
