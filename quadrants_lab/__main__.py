"""`python -m quadrants_lab`: backends, kernels and gradients, from a shell."""

import argparse
import io
import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.ir.temporary import holding
from quadrants_lab.lang.kernel import KERNELS_MADE, Kernel, Launchable
from quadrants_lab.runtime.backend import names
from quadrants_lab.runtime.observe.observers import KEEPS_LAST, unwatched, watch

T = TypeVar("T")
_HERE = Path(__file__).parent


def _json(value: Any) -> None:
    from quadrants_lab.notebook.plain import plain

    print(json.dumps(plain(value), indent=1))


def backends(as_json: bool = False) -> int:
    """Prints each backend with its devices, or why it cannot be used here; returns 1 if none can."""
    from quadrants_lab.notebook.backends import Backends

    found = Backends()
    if as_json:
        _json(found.rows)
    else:
        print(found)
    return 0 if any(not b.why_not for b in found.rows) else 1


def inspect(given: argparse.Namespace) -> int:
    """Runs a Python file and prints the IR, sizes or code of its kernels and of the gradients that it launched. With
    ``arch`` it also repeats their last launches on these backends and compares the results. With ``html`` it writes all
    of this to a file instead, and with ``dot`` it prints a graph of each kernel instead."""
    from quadrants_lab.notebook.compare import compare, tables
    from quadrants_lab.runtime.record.recorder import recording

    file, kernel, stage, code, page = given.file, given.kernel, given.stage, given.code, given.html
    arches = [a for a in (*given.arch.split(","), given.beside) if a and (a != given.beside or a in names())]
    for name in arches:
        if name not in names():
            return _fail(f"no backend {name!r}: there are {', '.join(names())}")
    made: list[Kernel] = []
    keeps = arches or page or given.beside or given.dot == "program"
    with holding(KEEPS_LAST, True), holding(KERNELS_MADE, made):  # records stay although the file's fields have ended
        with recording() if keeps else nullcontext() as recorder:
            ran = _run(file, given.words, aside=given.json or bool(given.dot))
        found = dict.fromkeys(v for v in ran.values() if isinstance(v, Kernel))
        # others are methods, local to a function, or in a module that the file imports
        launched = (k for k in made if k.source.file == file or k.dispatcher.last is not None)
        found |= dict.fromkeys(k for k in launched if not Path(k.source.file).is_relative_to(_HERE))
    kernels = [k for k in found if kernel in (None, k.name) and (kernel or k.name != given.beside)]
    if not kernels:
        what = f"no kernel {kernel!r}" if kernel else "no kernel"
        return _fail(f"{what} in {file}: there are {', '.join(k.name for k in found) or 'none'}")
    if given.beside:
        return _beside(kernels, {k.name: k for k in found}.get(given.beside, given.beside), recorder, arches)
    if page:
        return _write(kernels, recorder, arches, file, page)
    try:
        if given.dot:
            return _graphs(kernels, recorder, given.dot)
        shown = _of_each(kernels, lambda k: _compiled(k, stage, code))
    except (QuadrantsError, KeyError) as e:
        return _fail(e.args[0])
    wanted = {k.name for k in kernels}
    records = [r for r in recorder.records() if r.kernel in wanted] if recorder is not None else []
    compared = compare(records, arches)
    if given.json:
        runs = {f"{r.kernel}, {r.mode}": compared[r.number] for r in records if r.number in compared}
        _json({"kernels": shown, "backends": runs})
        return 0
    for of in shown:
        for mode, text in of["text"].items():
            print(f"# {'gradient of ' * (mode != 'forward')}{of['name']}", text, sep="\n")
        if of["sizes"] is not None:
            print(of["sizes"], end="\n\n")
    print(tables(records, compared), end="")
    return 0


def _of_each(kernels: list[Kernel], work: Callable[[Kernel], T]) -> list[T]:
    """The results for the kernels. One that was not launched and has none for that reason, if others have one, is told
    on standard error."""
    done: list[T] = []
    why: list[QuadrantsError] = []
    for k in kernels:
        try:
            done.append(work(k))
        except QuadrantsError as e:
            if k.dispatcher.last is not None:
                raise
            why.append(e)
    if not done:
        raise why[0]
    for missing in why:
        print(missing.args[0], file=sys.stderr)
    return done


def _compiled(k: Kernel, stage: str, code: str | None) -> dict[str, Any]:
    """For a kernel, and for its gradient if that was launched, the text that the compiler made: IR at ``stage``, or
    code."""
    launched: dict[str, Launchable] = {"forward": k}
    if k.grad.dispatcher.last is not None:
        launched["gradient"] = k.grad
    text = {mode: x.code(code) if code else x.ir(stage) for mode, x in launched.items()}
    return {"name": k.name, "text": text, "sizes": k.sizes() if "gradient" in launched else None}


def _beside(kernels: list[Kernel], other: Any, recorder: Any, arches: list[str]) -> int:
    """Prints each kernel beside another one, or beside itself on a backend."""
    from quadrants_lab.notebook.collect import cell_view
    from quadrants_lab.notebook.compare import compare

    cell_view("", recorder, compare(recorder.records(), arches))  # records what is printed below
    try:
        print(*_of_each(kernels, lambda k: k.beside(other)), sep="\n", end="")
    except QuadrantsError as e:
        return _fail(e.args[0])
    return 0


def _graphs(kernels: list[Kernel], recorder: Any, name: str) -> int:
    """Prints the graph ``name`` of each kernel that has one, as DOT text; the graph "program" is printed once."""
    from quadrants_lab.notebook.collect import cell_view

    if recorder is not None:
        cell_view("", recorder)  # records what the graph needs
    drawn, why = [], ""
    for k in kernels:
        try:
            drawn.append(k.graph(name).source)
        except QuadrantsError as e:
            why = e.args[0]
    if not drawn:
        return _fail(why)
    print(*dict.fromkeys(drawn), sep="\n", end="")
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


def check(file: str, grad: str, as_json: bool = False, steps: bool = False, words: Sequence[str] = ()) -> int:
    """Runs ``file`` with the arguments ``words``, differentiates the field that it calls ``grad`` through all its
    launches, and compares the gradients with finite differences and forward mode; returns 1 if one of them
    disagrees."""
    from rich.console import Console

    from quadrants_lab.lang.doctor import showing
    from quadrants_lab.notebook import experiment
    from quadrants_lab.runtime.check.by_hand import Forward

    launches = Forward(repeatable=True)
    with watch(launches):
        ran = _run(file, words, as_json)
    try:
        loss = experiment.loss(grad, ran)
        experiment.differentiate(loss, launches)
        with unwatched(), showing(None) as say:
            found = experiment.check(launches, loss, ran, say)
    except QuadrantsError as e:
        return _fail(e.args[0])
    if as_json:
        _json(found)
    elif sys.stdout.isatty():
        Console().print(found.card(steps))
    else:
        print(found)
    return int(not found.right)


class _FileError(Exception):
    """The exception that a file raised, as text."""


def _run(file: str, words: Sequence[str] = (), aside: bool = False) -> dict[str, Any]:
    """Runs a Python file as the main program, with the arguments ``words``, and returns its global names. ``aside``:
    the file's output goes to standard error. If the file raises an exception, a _FileError has its text, without the
    frames of this package."""
    sys.path.insert(0, str(Path(file).resolve().parent))
    ours, sys.argv = sys.argv, [file, *words]
    try:
        with redirect_stdout(sys.stderr) if aside else nullcontext():
            return runpy.run_path(file, run_name="__main__")
    except SystemExit as e:
        if e.code in (None, 0):  # the end of many programs: sys.exit(main())
            ran = (frame for frame, _ in traceback.walk_tb(e.__traceback__) if frame.f_code.co_filename == file)
            return dict(next(ran).f_globals)
        raise _FileError(f"{file} ended itself: sys.exit({e.code!r})") from None
    except BrokenPipeError:  # whoever read what it prints has gone
        raise
    except Exception as e:
        frames = traceback.extract_tb(e.__traceback__)
        own = [n for n, frame in enumerate(frames) if frame.filename == file]
        if isinstance(e, QuadrantsError):  # no traceback: its text says it all
            shown = [frames[n] for n in own]
        else:
            shown = frames[own[0] :] if own else []
        text = "".join((*traceback.format_list(shown), *traceback.format_exception_only(e))).rstrip()
        raise _FileError(text if own or getattr(e, "filename", None) else f"{file}: {text}") from None
    finally:
        sys.argv = ours


def _fail(why: object, status: int = 1) -> int:
    print(why, file=sys.stderr)
    return status


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m quadrants_lab", description=__doc__)
    version = sys.modules["quadrants_lab"].__version__
    parser.add_argument("--version", action="version", version=f"quadrants_lab {version}")
    commands = parser.add_subparsers(dest="command")
    table = commands.add_parser("backends", help="list the backends and whether they can be used here")
    show = commands.add_parser("inspect", help="run a Python file and print the IR, sizes or code of its kernels")
    show.add_argument("file", metavar="FILE[:KERNEL]")
    show.add_argument("--kernel", help="only this one")
    show.add_argument("--stage", default="", help="IR at this stage: 'front end' or the name of a pass; default: last")
    show.add_argument("--code", help="the backend's code instead of IR: llvm, asm, c, ptx, ...")
    show.add_argument("--arch", default="", help="backends, with commas: repeat the last launches on each, and compare")
    show.add_argument("--html", default="", metavar="PAGE", help="write the whole inspector to this .html or .json")
    show.add_argument("--beside", default="", metavar="OTHER", help="print each beside this kernel or backend")
    show.add_argument("--dot", default="", metavar="GRAPH", help="print this graph as DOT: cfg, scc, sizes or program")
    passes = commands.add_parser("opt", help="run passes over a kernel's IR text and print the result")
    passes.add_argument("-p", "--passes", default="", help="names, with commas between; 'help' lists them")
    passes.add_argument("--verify", action="store_true", help="run the verifier before the first pass and after each")
    passes.add_argument("file", nargs="?", default="-", help="IR text; '-' (the default): standard input")
    compare = commands.add_parser(
        "check", help="run a Python file and compare its gradients with finite differences and forward mode"
    )
    compare.add_argument("file")
    compare.add_argument("--grad", required=True, help="the field to differentiate: 0-d, floating, with a gradient")
    compare.add_argument("--steps", action="store_true", help="in a terminal: show the table of step sizes")
    for command in (show, compare):
        command.epilog = "After -- stand the program's own arguments: %(prog)s program.py -- --steps 100"
    for command in (table, show, compare):
        command.add_argument("--json", action="store_true", help="print JSON; what the program prints goes to stderr")
    ours = list(sys.argv[1:] if argv is None else argv)
    end = ours.index("--") if "--" in ours and ours[0] in ("inspect", "check") else len(ours)
    given, unknown = parser.parse_known_args(ours[:end])
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; a program's own arguments stand after --")
    given.words = ours[end + 1 :]
    if given.command is None:
        parser.print_help(sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every encoding has all signs of a table
    try:
        status = _command(given)
        sys.stdout.flush()
    except BrokenPipeError:  # as under `| head`: nobody reads any more, and Python's last flush must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13  # what a shell reports of a program that SIGPIPE ended
    return status


def _command(given: argparse.Namespace) -> int:
    if given.command == "backends":
        return backends(given.json)
    if given.command == "inspect" and ":" in given.file and not os.path.exists(given.file):
        given.file, _, given.kernel = given.file.rpartition(":")
    if given.command != "opt" or (given.file != "-" and given.passes != "help"):
        try:
            open(given.file, "rb").close()  # raises an OSError if the file cannot be read
        except OSError as e:
            return _fail(f"{given.file}: {e.strerror}", 2)
    if given.command == "opt":
        from quadrants_lab.opt import opt

        return opt(given.passes, given.file, given.verify)
    try:
        if given.command == "inspect":
            return inspect(given)
        return check(given.file, given.grad, given.json, given.steps, given.words)
    except _FileError as e:
        return _fail(e)


if __name__ == "__main__":
    sys.exit(main())
