"""What a call's arguments mean: which specialisation serves them, and what its launch gets."""
