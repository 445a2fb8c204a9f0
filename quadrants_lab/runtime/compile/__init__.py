"""From a function's source to loaded code."""
