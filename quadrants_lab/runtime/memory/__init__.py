"""Holds the arrays of a session: where their data is, and versions, which count how often it was written."""
