"""What a backend shows of one stage of its code generation; every backend's ``stages`` returns these."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage's output.

    ``ids`` holds, for each line of ``text``, the id of the IR statement that it came from, or -1.
    ``code_bytes`` is the size of the machine code (0 where the stage is none), ``instructions`` counts
    instructions, without labels, directives, comments and declarations, and ``phis`` those of them that merge values.
    ``registers``: how many of each kind the program has that has most, where the stage knows.
    """

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
