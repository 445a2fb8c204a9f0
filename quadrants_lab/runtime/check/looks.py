"""The badges of verdicts and their colours, for terminals and pages."""

# how bad it is -> the colour of its badge: in a terminal, and on pages, where white letters on it are readable
LEVELS = {"good": ("green", "#1a7f37"), "warning": ("yellow", "#946000"), "bad": ("red", "#c62f3a")}
# what was found -> the word on its badge, and how bad it is
LOOKS = {
    "right": ("right", "good"), "right, zero": ("zero", "good"),
    "wrong": ("wrong", "bad"), "wrong, zero": ("zero", "bad"), "nonfinite": ("NaN", "bad"),
    "kink": ("not differentiable", "warning"), "jumps": ("not differentiable", "warning"),
    "noisy": ("noisy", "warning"), "noisy, forward mode agrees": ("right", "good"),
    "fault of the program": ("wrong", "bad"), "error": ("error", "bad"), "unchecked": ("unchecked", "bad"),
}  # fmt: skip
