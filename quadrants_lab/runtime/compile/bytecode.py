"""Writes and reads one file with the bytecode of all modules that compiling a first kernel imports; it lies beside
Python's own bytecode.

About a hundred modules are needed. For each, Python searches folders, compares the ages of source and bytecode, and
reads names that the other modules have too, which takes a part of the time of a first kernel. The file holds the code
of all of them, and the `disk_cache.stamp` of each folder that they come from. If a stamp differs now, or if there is no
such file, Python imports the modules as usual, and the process writes the file when it ends.
"""

import atexit
import marshal
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from quadrants_lab.backends import disk_cache
from quadrants_lab.ir.importing import importing

# name of a module that is still to be imported -> its source file, bytecode file, folders if it is a package, and code
_modules: dict[str, tuple[str, str, list[str] | None, Any]] = {}
_registered: list[bool] = []


class _Loader(SourceFileLoader):
    """Imports a module with the code from the file. If the module is loaded again, its source is used."""

    def get_code(self, fullname: str) -> Any:
        found = _modules.pop(fullname, None)
        return super().get_code(fullname) if found is None else found[-1]


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _modules:
            return None
        source, bytecode, folders, _ = _modules[name]
        spec = ModuleSpec(name, _Loader(name, source), origin=source)
        spec.has_location, spec.cached, spec.submodule_search_locations = True, bytecode, folders
        return spec


@contextmanager
def imported_together(backend: str) -> Iterator[None]:
    """Makes a ``with`` for the compilation of a kernel. A new file will hold the modules that are imported within
    the first one of a process."""
    keep, known = _fetched(backend)
    yield
    if keep is not None and not _registered:
        _registered.append(True)
        atexit.register(_write, keep, [name for name in sys.modules if name not in known])


@cache
def _fetched(backend: str) -> tuple[disk_cache.Keep | None, frozenset[str]]:
    """Makes the modules of the file available to Python's import, if the file is valid. Otherwise returns a function
    that stores another file, and the names of the modules that do not belong in it because they are imported already.
    """
    folder = disk_cache.beside_bytecode(__file__)
    if folder is None or _modules:
        return None, frozenset()
    name = disk_cache.key("modules", backend, sys.version, cache_from_source(__file__))
    kept = folder.get(name)
    with importing():
        stamps, modules = ({}, {}) if kept is None else marshal.loads(kept)
    if not modules or any(disk_cache.stamp(Path(place)) != stamp for place, stamp in stamps.items()):
        return folder.keeper(name), frozenset(sys.modules)
    _modules.update(modules)
    sys.meta_path.insert(0, _Finder)
    return None, frozenset()


def _write(keep: disk_cache.Keep, names: Collection[str]) -> None:
    """Stores the code of the modules ``names``, unless a source has changed since this process began."""
    ours = [name for name in names if name.startswith("quadrants_lab.") and name in sys.modules]
    specs: list[Any] = [sys.modules[name].__spec__ for name in ours]
    modules = {s.name: (s.origin, s.cached, s.submodule_search_locations, s.loader.get_code(s.name)) for s in specs}
    stamps = {str(place): disk_cache.stamp(place) for place in {Path(s.origin).resolve().parent for s in specs}}
    if all(stamps.values()):
        keep(marshal.dumps((stamps, modules)))
