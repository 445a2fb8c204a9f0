"""The output of one stage of code generation, as every backend's ``stages`` returns it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """``ids`` holds, for each line of ``text``, the id of the IR statement that it came from, or -1. ``code_bytes`` is
    the size of the machine code (0 in other stages). ``instructions`` does not count labels, directives, comments and
    declarations; ``phis`` are those of them that merge values. ``registers``: the most registers of each kind that a
    program takes, where the stage knows."""

    name: str
    text: str
    ids: tuple[int, ...]
    instructions: int
    code_bytes: int = 0
    phis: int = 0
    registers: tuple[tuple[str, int], ...] = ()

    @property
    def bytes(self) -> int:
        return len(self.text.encode())

    @property
    def lines(self) -> int:
        return len(self.ids)
