"""Records launches, describes compiled kernels as text, and repeats a recorded launch in another session."""
