"""Elements of a vector by letters: ``v.x``, ``v.zyx``, ``v.rgb``, ``v.st``."""

SETS = ("xyzw", "rgba", "stpq")
_POSITION = {name: {letter: k for k, letter in enumerate(name)} for name in SETS}


def swizzle(name: str) -> tuple[int, ...] | None:
    """The positions that ``name`` means if it is one to four letters of one set, else None."""
    if not 1 <= len(name) <= 4:
        return None
    for letters in _POSITION.values():
        if name[0] in letters:
            return tuple(letters[c] for c in name) if all(c in letters for c in name) else None
    return None


def letters(name: str, n: int) -> str:
    """The letters that a vector of ``n`` elements has in the set of the first letter of ``name``."""
    return next(s for s in SETS if name[0] in s)[:n]
