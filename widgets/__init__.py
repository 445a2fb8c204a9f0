"""Draws the inspector's panes."""

if not __name__.startswith("quadrants_lab."):
    raise ImportError("this folder is the package quadrants_lab.widgets: import it by that name")
