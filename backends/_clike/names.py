"""Names of variables: as the user has them where the language can."""

from __future__ import annotations

import re


class Names:
    """Identifiers by key, none of them twice and none that ``avoid`` matches. None ends in an underscore, as those of
    `_clike.control` do."""

    def __init__(self, avoid: re.Pattern[str]) -> None:
        self.known: dict[object, str] = {}
        self._avoid = avoid
        self._taken: dict[str, int] = {}  # how many were asked for

    def of(self, key: object, wanted: str) -> str:
        if key not in self.known:
            base = re.sub(r"[\W_]+", "_", wanted, flags=re.ASCII).strip("_") or "t"
            name = base = f"v_{base}" if self._avoid.fullmatch(base) or base[0].isdigit() else base
            while name in self._taken:
                self._taken[base] += 1
                name = f"{base}_{self._taken[base]}"
            self.known[key], self._taken[name] = name, 1
        return self.known[key]
