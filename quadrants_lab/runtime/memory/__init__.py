"""Arrays of a session: where their data is, and versions that count writes."""
