"""Makes the table of all public names of the pip package `quadrants`, which says whether each is the same,
different or absent in quadrants_lab.

    python scripts/names.py                        prints the table, for people who come from Quadrants
    python scripts/names.py --walk quadrants       lists the names of a package that this interpreter imports

`docs/quadrants_names.txt` holds the list, which a test compares with the package itself where that is installed.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "quadrants_names.txt"
HOMES = (
    "", "ad", "algorithms", "experimental", "graph", "interop", "linalg", "math", "profiler", "simt", "simt.block",
    "simt.grid", "simt.subgroup", "simt.warp", "sparse", "tools", "types", "types.quant",
)  # fmt: skip
LANG = (  # names that programs use, although Quadrants does not make them public
    "lang.exception.QuadrantsIndexError", "lang.impl.current_cfg", "lang.impl.get_runtime", "lang.matrix.MatrixType",
    "lang.matrix.VectorType", "lang.struct.StructType", "outer",
)  # fmt: skip
TWICE = ("math", "types")  # modules that repeat names of qd on purpose; in other modules imports left such names
MADE = (  # classes whose objects other calls make
    "Event", "Field", "MatrixField", "MatrixNdarray", "MatrixTensor", "SNode", "ScalarField", "ScalarNdarray", "Stream",
    "StructField", "Tensor", "VectorNdarray", "VectorTensor", "linalg.SparseMatrix", "types.NDArray",
)  # fmt: skip
INTERNAL = (  # names without an underscore that are of no use to programs
    "qd.QuadrantsRuntimeTypeError.", "qd.ad.FwdMode.", "qd.ad.Tape.insert", "qd.types.NDArray.", "qd.types.ndarray.",
    "qd.BufferView.subscript", "qd.tools.PLYWriter.print_header", "qd.simt.block.SharedArray.subscript",
)  # fmt: skip
SWIZZLES = ("xyzw", "rgba", "stpq")


class Row(NamedTuple):
    """One row. ``name``: the name with its parameters; ``verdict``: same, different or absent; ``note``: in what way it
    differs, or why it is absent."""

    name: str
    verdict: str
    note: str


def started(name: str) -> Any:
    """Imports the package and starts a session, because some names exist only then."""
    package = importlib.import_module(name)
    package.init(arch=package.cpu, log_level=package.ERROR)
    return package


def names(package: Any) -> list[str]:
    """The names that `walk` finds, without internal names."""
    return [line for line in walk(package) if not line.startswith(INTERNAL)]


def walk(package: Any) -> Iterator[str]:
    """The public names of a package, of the members of its classes, and of its options. Functions have their
    parameters."""
    for home in HOMES:
        module = found(package, home)
        for name in public(module):
            value = getattr(module, name)
            path = f"{home}.{name}".lstrip(".")
            ours = getattr(value, "__module__", None) or package.__name__
            known = home and home not in TWICE and getattr(package, name, None) is value
            inside = module.__name__.rpartition(".")[0] if "simt." in path else package.__name__
            if known or not ours.startswith(inside):
                continue
            if not inspect.ismodule(value):
                yield f"qd.{path}{'' if path in MADE else parameters(value)}"
            elif path in HOMES and value.__name__ != f"{package.__name__}.{path}":  # `submodules` lists those
                yield f"qd.{path}"
            if inspect.isclass(value):
                yield from (f"qd.{path}.{m}{parameters(getattr(value, m))}" for m in members(value, package.__name__))
    yield from (f"qd.{name}" for name in LANG)
    yield from (f"qd.cfg.{name}" for name in public(package.cfg))
    yield from submodules(package)


def public(value: Any) -> list[str]:
    """The names of a module or class that do not begin with an underscore, also those that are made on demand."""
    return sorted(name for name in {*dir(value), *getattr(value, "__all__", ())} if not name.startswith("_"))


def submodules(package: Any) -> Iterator[str]:
    """A line "from ... import ..." for each submodule that declares public names, or a line that imports the submodule
    alone, if its names have lines of their own."""
    homes = [found(package, home) for home in HOMES]
    for at in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if re.search(r"\._|\.lang\.ast\b", at.name):
            continue
        module, path = importlib.import_module(at.name), at.name.partition(".")[2]
        names = [name for name in getattr(module, "__all__", ()) if not name.startswith("_")]
        if module in homes or path == "lang":
            yield f"import qd.{path}"
        elif names:
            yield f"from qd.{path} import {', '.join(sorted(names))}"


def members(kind: type, package: str) -> list[str]:
    if isinstance(kind, enum.EnumMeta):
        return sorted(kind.__members__)
    said = {m for c in kind.__mro__ if c.__module__.startswith(package) for m in vars(c) if not m.startswith("_")}
    return sorted(m for m in said if not any(set(m) <= set(letters) for letters in SWIZZLES))


def found(package: Any, path: str) -> Any:
    for name in filter(None, path.split(".")):
        package = getattr(package, name)
    return package


def parameters(value: Any) -> str:
    """The parameters of a callable object as text, without the object itself: "(a, b, *c)"; "" if Python does not know
    them."""
    if type(value).__name__ == "Operation":  # of quadrants_lab: the docstring's first line has them
        return "(" + str(value.__doc__).partition("\n")[0].partition("(")[2].replace("=None", "")
    try:
        taken = inspect.signature(value).parameters.values() if callable(value) else None
    except (TypeError, ValueError):
        return ""
    if taken is None or enum.Enum in getattr(value, "__mro__", ()):
        return ""
    itself = {"self", "a"} if "." in getattr(value, "__qualname__", "") else set()  # Quadrants' determinant says a
    said = [str(p.replace(annotation=p.empty, default=p.empty)) for p in taken if p.name not in itself]
    return f"({', '.join(said)})"


def compare(line: str, package: Any) -> Row:
    """The `Row` for a line of the list: whether ``package`` has the name, with the same parameters."""
    if " " in line.partition("(")[0]:
        return imported(line, package)
    path, _, given = line.removesuffix(")").partition("(")
    try:
        value = found(package, path.removeprefix("qd."))
    except AttributeError as error:
        known = re.search(r"supported: (.*) are outside", str(error))
        return Row(line, "absent", known[1] if known else WHY.get(path.rpartition(".")[2], ""))
    theirs = [p for p in given.split(", ") if p and p[0] not in "*_"]
    ours = parameters(value).strip("()").split(", ")
    if path in DIFFERENT:
        return Row(line, "different", DIFFERENT[path])
    taken = any(p.startswith("*") for p in ours) or not parameters(value)
    if missing := [p for p in theirs if p not in ours and not taken]:
        return Row(line, "different", f"takes ({', '.join(ours)}): no {', '.join(missing)}")
    return Row(line, "same", "")


def imported(line: str, package: Any) -> Row:
    """The `Row` for a line of the list that is an import of a submodule."""
    _, path, *rest = line.replace(",", "").split(" ")
    names = rest[1:]
    try:
        module = importlib.import_module(package.__name__ + path.removeprefix("qd"))
    except ModuleNotFoundError:
        return Row(line, "absent", compare(f"qd.{names[0]}" if names else path, package).note)
    missing = [name for name in names if not hasattr(module, name)]
    return Row(line, "different" if missing else "same", f"no {', '.join(missing)}" if missing else "")


# name of a method -> why no class here has it
WHY = {
    **dict.fromkeys(("dtype", "layout", "to_dlpack"), "each member of a field of structs has its own"),
}
DIFFERENT = {
    "qd.ad.clear_all_gradients": "clears gradients, not duals: takes no gradient_type",
    "qd.Struct.to_dict": "has members alone: takes no include_methods, include_ndim",
    "qd.types.ndarray": "takes no field_dim, which is an error in Quadrants",
    "qd.tools.write_vtk": "writes NAME.vtk, and needs no other package",
    "qd.abs": "|INT_MIN| wraps to itself",
}


@cache
def table() -> list[Row]:
    """The rows for all lines of the list."""
    sys.path.insert(0, str(ROOT))
    package = started("quadrants_lab")
    return [compare(line, package) for line in LIST.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walk", metavar="PACKAGE", help="list the names of this package instead")
    given = parser.parse_args()
    if given.walk:
        print("\n".join(names(started(given.walk))))
        return
    rows = table()
    for row in rows:
        print(f"{row.verdict:10}{row.name}{'  # ' + row.note if row.note else ''}")
    count = Counter(row.verdict for row in rows)
    print(", ".join(f"{n} {verdict} ({n / len(rows):.1%})" for verdict, n in count.most_common()))


if __name__ == "__main__":
    main()
