"""`python -m quadrants_lab`: backends, kernels and gradients, from a shell."""

from __future__ import annotations

import argparse
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any


def backends() -> int:
    """Prints each backend with its devices, or why it has none here; 1 where none has."""
    from quadrants_lab.notebook.backends import Backends

    found = Backends()
    print(found)
    return 0 if any(not b.why_not for b in found.rows) else 1


def inspect(file: str, kernel: str | None, stage: str, code: str | None, arches: list[str], page: str) -> int:
    """Runs ``file`` and prints what its kernels, and those gradients that it launched, were compiled to, and how their
    last launches on other backends compare; or writes all of it to ``page``."""
    from quadrants_lab.errors import QuadrantsError
    from quadrants_lab.lang.kernel import Kernel, Launchable
    from quadrants_lab.notebook.compare import compare, tables
    from quadrants_lab.runtime.backend import names
    from quadrants_lab.runtime.record.records import recording

    for name in arches:
        if name not in names():
            print(f"no backend {name!r}: there are {', '.join(names())}", file=sys.stderr)
            return 1
    sys.path.insert(0, str(Path(file).resolve().parent))
    with recording() if arches or page else nullcontext() as recorder:
        ran = runpy.run_path(file, run_name="__main__")
    found = [v for v in ran.values() if isinstance(v, Kernel)]
    kernels = [k for k in dict.fromkeys(found) if kernel in (None, k.name)]
    if not kernels:
        what = f"no kernel {kernel!r}" if kernel else "no kernel"
        print(f"{what} in {file}: there are {', '.join(k.name for k in found) or 'none'}", file=sys.stderr)
        return 1
    if page:
        return _write(kernels, recorder, arches, file, page)
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
    if recorder is not None:
        wanted = {k.name for k in kernels}
        records = [r for r in recorder.records() if r.kernel in wanted]
        print(tables(records, compare(records, arches)), end="")
    return 0


def _write(kernels: list[Any], recorder: Any, arches: list[str], file: str, page: str) -> int:
    """Writes the inspector of the kernels; 1 where the name is not that of a page, or none was launched."""
    from quadrants_lab.errors import QuadrantsError
    from quadrants_lab.notebook.collect import cell_view
    from quadrants_lab.notebook.compare import compare
    from quadrants_lab.notebook.saved import export

    view = cell_view(Path(file).name, recorder, compare(recorder.records(), arches))
    view.kernels = [k for k in view.kernels if k.name in {x.name for x in kernels}]
    try:
        print(export(view, page))
    except QuadrantsError as e:
        print(e.args[0], file=sys.stderr)
        return 1
    return 0


def check(file: str, grad: str) -> int:
    """Runs ``file``, takes the gradients of the field that it calls ``grad`` by all its launches, and compares them
    with finite differences and forward mode; 1 where something speaks against one."""
    from quadrants_lab.errors import QuadrantsError
    from quadrants_lab.lang.doctor import showing
    from quadrants_lab.notebook import experiment
    from quadrants_lab.runtime.check.recording import Forward
    from quadrants_lab.runtime.launch.observe import unwatched, watch

    sys.path.insert(0, str(Path(file).resolve().parent))
    launches = Forward(repeatable=True)
    try:
        with watch(launches):
            ran = runpy.run_path(file, run_name="__main__")
    except SystemExit as e:
        print(f"{file} ended itself (sys.exit({e.code!r})), so nobody can look at its fields", file=sys.stderr)
        return 1
    try:
        loss = experiment.loss(grad, ran)
        experiment.differentiate(loss, launches)
        with unwatched(), showing(None) as say:
            found = experiment.check(launches, loss, ran, say)
    except QuadrantsError as e:
        print(e.args[0], file=sys.stderr)
        return 1
    print(experiment.check_text(found))
    return int(not found.right)


def opt(passes: str, file: str, verify: bool) -> int:
    """Prints the IR in ``file`` after the passes; 2 where the text, a name or a kernel is wrong."""
    from quadrants_lab.opt import opt

    return opt(passes, file, verify)


def unreadable(file: str) -> str:
    """Why the file cannot be read, in a line; "" where it can."""
    try:
        with open(file, "rb"):
            return ""
    except OSError as e:
        return f"{file}: {e.strerror}"


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
    show.add_argument("--code", help="the backend's code instead of IR: llvm, llvm-opt, asm, c, msl, spirv")
    show.add_argument(
        "--arch", default="", help="backends, with commas: repeat the last launches on each, and compare"
    )
    show.add_argument("--html", default="", metavar="PAGE", help="write the whole inspector to this .html or .json")
    passes = commands.add_parser("opt", help="run passes over a kernel's IR text and print the result")
    passes.add_argument("-p", "--passes", default="", help="names, with commas between; 'help' lists them")
    passes.add_argument("--verify", action="store_true", help="run the verifier before the first pass and after each")
    passes.add_argument("file", nargs="?", default="-", help="IR text; '-' (the default): standard input")
    compare = commands.add_parser(
        "check", help="run a Python file and compare its gradients with finite differences and forward mode"
    )
    compare.add_argument("file")
    compare.add_argument("--grad", required=True, help="the field to differentiate: 0-d, floating, with a gradient")
    given = parser.parse_args(argv)
    if given.command == "backends":
        return backends()
    if given.command == "opt" and (given.file == "-" or given.passes == "help"):
        return opt(given.passes, "-", given.verify)
    if why := unreadable(given.file):
        print(why, file=sys.stderr)
        return 2
    if given.command == "opt":
        return opt(given.passes, given.file, given.verify)
    if given.command == "check":
        return check(given.file, given.grad)
    arches = [a for a in given.arch.split(",") if a]
    return inspect(given.file, given.kernel, given.stage, given.code, arches, given.html)


if __name__ == "__main__":
    sys.exit(main())
