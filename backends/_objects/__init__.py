"""Object files: what ELF ones are made of, and a linker for the CPU's."""

from __future__ import annotations


def require(holds: object, what: str) -> None:
    """ValueError that names what is missing or wrong in an object file."""
    if not holds:
        raise ValueError(f"an object file is wrong about {what}")
