"""`python -m quadrants_lab`: backends, kernels and gradients, from a shell."""

import argparse
import runpy
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.lang.kernel import Kernel, Launchable
from quadrants_lab.runtime.backend import names
from quadrants_lab.runtime.observe.observers import KEEPS_LAST, unwatched, watch


def backends() -> int:
    """Prints each backend with its devices, or why it cannot be used here; returns 1 if none can."""
    from quadrants_lab.notebook.backends import Backends

    found = Backends()
    print(found)
    return 0 if any(not b.why_not for b in found.rows) else 1


def inspect(file: str, kernel: str | None, stage: str, code: str | None, arches: list[str], page: str) -> int:
    """Runs ``file`` and prints what its kernels and the gradients that it launched were compiled to. With ``arches`` it
    repeats their last launches on these backends and compares the results. ``page``: writes all of it to this file
    instead."""
    from quadrants_lab.notebook.compare import compare, tables
    from quadrants_lab.runtime.record.recorder import recording

    for name in arches:
        if name not in names():
            return _fail(f"no backend {name!r}: there are {', '.join(names())}")
    token = KEEPS_LAST.set(True)  # even if the file's fields have ended
    try:
        with recording() if arches or page else nullcontext() as recorder:
            found = dict.fromkeys(v for v in _run(file).values() if isinstance(v, Kernel))
    finally:
        KEEPS_LAST.reset(token)
    kernels = [k for k in found if kernel in (None, k.name)]
    if not kernels:
        what = f"no kernel {kernel!r}" if kernel else "no kernel"
        return _fail(f"{what} in {file}: there are {', '.join(k.name for k in found) or 'none'}")
    if page:
        return _write(kernels, recorder, arches, file, page)
    for k in kernels:
        launched: list[tuple[str, Launchable]] = [(k.name, k)]
        if k.grad.dispatcher.last is not None:
            launched.append((f"gradient of {k.name}", k.grad))
        for title, launchable in launched:
            print(f"# {title}")
            try:
                print(launchable.code(code) if code else launchable.ir(stage))
                if launchable is k.grad:
                    print(k.sizes(), end="\n\n")
            except (QuadrantsError, KeyError) as e:
                return _fail(e.args[0])
    if recorder is not None:
        wanted = {k.name for k in kernels}
        records = [r for r in recorder.records() if r.kernel in wanted]
        print(tables(records, compare(records, arches)), end="")
    return 0


def _write(kernels: list[Any], recorder: Any, arches: list[str], file: str, page: str) -> int:
    """Writes the inspector of the kernels; returns 1 if ``page`` has no suitable suffix or no kernel was launched."""
    from quadrants_lab.notebook.collect import cell_view
    from quadrants_lab.notebook.compare import compare
    from quadrants_lab.notebook.saved import export

    view = cell_view(Path(file).name, recorder, compare(recorder.records(), arches))
    view.kernels = [k for k in view.kernels if k.name in {x.name for x in kernels}]
    try:
        print(export(view, page))
    except QuadrantsError as e:
        return _fail(e.args[0])
    return 0


def check(file: str, grad: str) -> int:
    """Runs ``file``, differentiates the field that it calls ``grad`` through all its launches, and compares the
    gradients with finite differences and forward mode; returns 1 if one of them disagrees."""
    from quadrants_lab.lang.doctor import showing
    from quadrants_lab.notebook import experiment
    from quadrants_lab.runtime.check.recording import Forward

    launches = Forward(repeatable=True)
    try:
        with watch(launches):
            ran = _run(file)
    except SystemExit as e:
        return _fail(f"{file} ended itself (sys.exit({e.code!r})), so its fields cannot be examined")
    try:
        loss = experiment.loss(grad, ran)
        experiment.differentiate(loss, launches)
        with unwatched(), showing(None) as say:
            found = experiment.check(launches, loss, ran, say)
    except QuadrantsError as e:
        return _fail(e.args[0])
    print(experiment.check_text(found))
    return int(not found.right)


class _FileError(Exception):
    """What a file raised, as text."""


def _run(file: str) -> dict[str, Any]:
    """Runs a Python file as the main program and returns its global names. _FileError has an exception that it raised,
    without our frames around the file's."""
    sys.path.insert(0, str(Path(file).resolve().parent))
    try:
        return runpy.run_path(file, run_name="__main__")
    except Exception as e:
        frames = traceback.extract_tb(e.__traceback__)
        own = [n for n, frame in enumerate(frames) if frame.filename == file]
        if isinstance(e, QuadrantsError):  # its text has all that matters
            shown = [frames[n] for n in own]
        else:
            shown = frames[own[0] :] if own else []
        text = "".join((*traceback.format_list(shown), *traceback.format_exception_only(e))).rstrip()
        raise _FileError(text if own or getattr(e, "filename", None) else f"{file}: {text}") from None


def _fail(why: object, status: int = 1) -> int:
    print(why, file=sys.stderr)
    return status


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m quadrants_lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("backends", help="list the backends and whether they can be used here")
    show = commands.add_parser("inspect", help="run a Python file and print the IR, sizes or code of its kernels")
    show.add_argument("file")
    show.add_argument("--kernel", help="only this one")
    show.add_argument("--stage", default="", help="IR at this stage: 'front end' or the name of a pass; default: last")
    show.add_argument("--code", help="the backend's code instead of IR: llvm, llvm-opt, asm, c, msl, spirv")
    show.add_argument("--arch", default="", help="backends, with commas: repeat the last launches on each, and compare")
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
    if given.command != "opt" or (given.file != "-" and given.passes != "help"):
        try:
            open(given.file, "rb").close()  # only a check
        except OSError as e:
            return _fail(f"{given.file}: {e.strerror}", 2)
    if given.command == "opt":
        from quadrants_lab.opt import opt

        return opt(given.passes, given.file, given.verify)
    try:
        if given.command == "check":
            return check(given.file, given.grad)
        arches = [a for a in given.arch.split(",") if a]
        return inspect(given.file, given.kernel, given.stage, given.code, arches, given.html)
    except _FileError as e:
        return _fail(e)


if __name__ == "__main__":
    sys.exit(main())
