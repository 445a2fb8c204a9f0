"""What every GPU backend shares, whatever its API and its language: frame, programs, the host's side of a launch."""
