"""Names of variables: the user's own where the language allows them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

WORDS = """
auto bool break case char const continue default do double else enum extern false float for goto if inline int long
register return short signed sizeof static struct switch true typedef union unsigned void volatile while
"""  # keywords of all these languages


class Names:
    """Gives out identifiers that are unique in their scope and do not match ``avoid``. None ends in an underscore, as
    those of `_clike.control` do."""

    def __init__(self, avoid: re.Pattern[str]) -> None:
        self.known: dict[object, str] = {}
        self._avoid = avoid
        self._taken: dict[str, int] = {}  # name -> how often it was wanted

    def of(self, key: object, wanted: str) -> str:
        """The name of something that is visible everywhere."""
        if key not in self.known:
            self.known[key] = self.local(wanted)
        return self.known[key]

    def local(self, wanted: str) -> str:
        """A new name for something that is visible until the end of the open `scope`."""
        base = re.sub(r"[\W_]+", "_", wanted, flags=re.ASCII).strip("_")
        unnamed = not base
        name = base = "t" if unnamed else f"v_{base}" if self._avoid.fullmatch(base) or base[0].isdigit() else base
        while name in self._taken:
            self._taken[base] += 1
            name = f"{base}{'' if unnamed else '_'}{self._taken[base]}"
        self._taken[name] = 1
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        taken = dict(self._taken)
        yield
        self._taken = {**dict.fromkeys(self.known.values(), 1), **taken}
