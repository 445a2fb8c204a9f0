"""What watches launches: observers, recordings, and numbers that know where they came from."""
