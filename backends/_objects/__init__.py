"""Whether bytes are an object file that can be given to a linker or loader.

Linkers believe what a file says of itself: LLVM's ends the process, or writes anywhere, where a size or a reference is
wrong, and the system's loader reads beyond the end of a file that was cut. So what comes from a disk is looked at
before. What passes is what LLVM writes for kernels; what its instructions do when they run is not looked at.
"""

from __future__ import annotations


def require(holds: object, what: str) -> None:
    """ValueError that names what is missing or wrong in an object file."""
    if not holds:
        raise ValueError(f"an object file is wrong about {what}")
