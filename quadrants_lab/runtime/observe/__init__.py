"""Watches launches: observers, recordings, and numbers that remember where they came from."""
