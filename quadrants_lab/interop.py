"""`qd.interop`: other frameworks on the same device."""


def get_mps_command_queue() -> int:
    """A pointer to the command queue of PyTorch's MPS as an integer, or 0 where there is none to be had. PyTorch hands
    out none to Python, so it is 0; kernels on Metal have a queue of their own."""
    return 0
