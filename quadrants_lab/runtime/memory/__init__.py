"""The arrays of a session: where their data is, and versions that count how often it was written."""
