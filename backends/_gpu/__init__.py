"""All GPU backends share this code: the launch frame, the programs of a kernel, and the host's side of a launch."""
