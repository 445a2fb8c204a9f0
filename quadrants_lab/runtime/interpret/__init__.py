"""The reference interpreter, and observers of what it runs."""
