"""Object files: the parts of ELF, and a linker for the CPU's objects."""


def require(holds: object, what: str) -> None:
    """Raises ValueError, which says what is wrong in an object file, unless ``holds``."""
    if not holds:
        raise ValueError(f"an object file is wrong about {what}")
