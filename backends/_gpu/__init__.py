"""What all GPU backends share: the launch frame, the programs of a kernel, and the host's side of a launch."""
