"""`python -m quadrants_lab`: backends and kernels, from a shell."""

from __future__ import annotations

import argparse
import runpy
import sys
from importlib import import_module
from pathlib import Path


def backends() -> int:
    """Prints each backend and whether it can be used here; 1 where none can."""
    import quadrants_lab.backends as package

    usable = 0
    for folder in sorted(Path(next(iter(package.__path__))).iterdir()):
        if folder.name.startswith("_") or not (folder / "__init__.py").exists():
            continue
        why_not = import_module(f"quadrants_lab.backends.{folder.name}").probe()
        usable += not why_not
        print(f"{folder.name:8} {why_not or 'available'}")
    return 0 if usable else 1


def inspect(file: str, kernel: str | None, stage: str, code: str | None) -> int:
    """Runs ``file`` and prints what its kernels, and those gradients that it launched, were compiled to."""
    from quadrants_lab.errors import QuadrantsError
    from quadrants_lab.lang.kernel import Kernel, Launchable

    sys.path.insert(0, str(Path(file).resolve().parent))
    found = [v for v in runpy.run_path(file, run_name="__main__").values() if isinstance(v, Kernel)]
    kernels = [k for k in dict.fromkeys(found) if kernel in (None, k.name)]
    if not kernels:
        what = f"no kernel {kernel!r}" if kernel else "no kernel"
        print(f"{what} in {file}: there are {', '.join(k.name for k in found) or 'none'}", file=sys.stderr)
        return 1
    for k in kernels:
        launched: list[tuple[str, Launchable]] = [(k.name, k)]
        if k.grad.dispatcher.last is not None:
            launched.append((f"gradient of {k.name}", k.grad))
        for title, it in launched:
            print(f"# {title}")
            try:
                print(it.code(code) if code else it.ir(stage))
                if it is k.grad:
                    print(k.sizes(), end="\n\n")
            except (QuadrantsError, KeyError) as e:
                print(e.args[0], file=sys.stderr)
                return 1
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m quadrants_lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("backends", help="list the backends and whether they can be used here")
    show = commands.add_parser(
        "inspect", help="run a Python file and print the IR, sizes or code of its kernels"
    )
    show.add_argument("file")
    show.add_argument("--kernel", help="only this one")
    show.add_argument(
        "--stage", default="", help="IR at this stage: 'front end' or the name of a pass; default: last"
    )
    show.add_argument("--code", help="the backend's code instead of IR: llvm, llvm-opt or asm")
    given = parser.parse_args(argv)
    if given.command == "backends":
        return backends()
    return inspect(given.file, given.kernel, given.stage, given.code)


if __name__ == "__main__":
    sys.exit(main())
