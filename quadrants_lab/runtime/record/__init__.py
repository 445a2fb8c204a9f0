"""Records of launches, text about compiled kernels, and repeating a recorded launch in another session."""
