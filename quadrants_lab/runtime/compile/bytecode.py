"""The bytecode of the modules that compile a first kernel, in one file beside Python's own bytecode.

These are a hundred modules. For each, Python searches folders, compares the ages of source and bytecode, and reads
names that the others have, too, which takes a part of the time of a first kernel. The file holds all their code, and
the `disk_cache.stamp` of each folder that they come from. If a stamp differs now, or if there is no such file, Python
imports the modules as usual, and the process writes the file when it ends.
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

# by name, for modules that are still to be imported: source, bytecode file, folders of a package or None, and code
_modules: dict[str, tuple[str, str, list[str] | None, Any]] = {}
_registered: list[bool] = []


class _Loader(SourceFileLoader):
    """A module's code comes from the file once; if the module is loaded again, it comes from its source."""

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
    """For a ``with`` around the compilation of a kernel. The first one in a process decides which modules go
    together."""
    keep, known = _fetched(backend)
    yield
    if keep is not None and not _registered:
        _registered.append(True)
        atexit.register(_write, keep, [name for name in sys.modules if name not in known])


@cache
def _fetched(backend: str) -> tuple[disk_cache.Keep | None, frozenset[str]]:
    """Takes the modules of the file, if it is valid. Otherwise returns what writes another one, and which modules do
    not belong to it because they are imported already."""
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
    """Nothing if a source has changed since this process began."""
    ours = [name for name in names if name.startswith("quadrants_lab.") and name in sys.modules]
    specs: list[Any] = [sys.modules[name].__spec__ for name in ours]
    modules = {s.name: (s.origin, s.cached, s.submodule_search_locations, s.loader.get_code(s.name)) for s in specs}
    stamps = {str(place): disk_cache.stamp(place) for place in {Path(s.origin).resolve().parent for s in specs}}
    if all(stamps.values()):
        keep(marshal.dumps((stamps, modules)))
