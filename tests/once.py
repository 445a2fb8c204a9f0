"""A cache that the processes of one test run share: compiled objects by their text, verdicts by module."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path


class Once:
    """A file in ``folder`` for each thing made, named by a hash of the parts that it is made of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, make: Callable[[], bytes], *parts: str | bytes) -> bytes:
        """The result of ``make``, which must depend on the parts alone."""
        raw = [part if isinstance(part, bytes) else part.encode() for part in parts]
        name = sha256(b"".join(len(part).to_bytes(8, "little") + part for part in raw)).hexdigest()
        with suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        made = make()
        new = self.folder / f"{name}.{os.getpid()}.{threading.get_ident()}"
        new.write_bytes(made)
        new.replace(self.folder / name)  # atomic, for processes that read at the same time
        return made
