"""Wherever Python code comes from, a kernel that it defines is found, with the lines of its errors: here, in a thread,
in another process, and on a worker that gets the function which defines it."""

import code
import functools
import importlib.util
import linecache
import os
import pickle
import sys
import threading
import zipfile
import zipimport
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child import run

import quadrants_lab as qd
from quadrants_lab.distributed.sending import packed

TEXT = '''\
import functools
import quadrants_lab as qd

class Made:
    @qd.kernel
    def doubled(x: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            x[i] = 2.0 * i

def made(by):
    @qd.kernel
    def k(x: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            x[i] = by * i
    return k

def wrong():
    @qd.kernel
    def k(x: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            x[i] = mistaken
    return k

def numbers(kernel):
    x = qd.ndarray(qd.f32, shape=(3,))
    kernel(x)
    return x.to_numpy().tolist()

def program():
    """What three kernels compute, and the message of a fourth."""
    thrice = functools.partial(made, 3.0)()
    try:
        wrong()(qd.ndarray(qd.f32, shape=(3,)))
    except qd.QuadrantsNameError as error:
        said = str(error)
    return [numbers(Made.doubled), numbers(made(1.0)), numbers(thrice), said]
'''
NUMBERS = [[0, 2, 4], [0, 1, 2], [0, 3, 6]]
LINE = "21 |             x[i] = mistaken"


def module_of_a_file(folder: Path, name: str = "made_here.py") -> dict[str, Any]:
    path = folder / name
    path.write_text(TEXT)
    return loaded(importlib.util.spec_from_file_location("made_here", path))


def file_whose_name_is_no_text(folder: Path) -> dict[str, Any]:
    return module_of_a_file(folder, os.fsdecode(b"\xff.py"))


def loaded(spec: Any) -> dict[str, Any]:
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def module_of_a_zip(folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(folder / "made.zip", "w") as archive:
        archive.writestr("made_in_a_zip.py", TEXT)
    return loaded(zipimport.zipimporter(str(folder / "made.zip")).find_spec("made_in_a_zip"))


def executed(name: str, text: str = TEXT) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space


def text_of_a_file(folder: Path) -> dict[str, Any]:
    path = folder / "executed.py"
    path.write_text(TEXT)
    return executed(str(path))


def text_without_a_file(folder: Path, name: str = "<made up>") -> dict[str, Any]:
    linecache.cache[name] = len(TEXT), None, TEXT.splitlines(keepends=True), name
    return executed(name)


def cell_of_a_notebook(folder: Path) -> dict[str, Any]:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_cell(TEXT).raise_error()
    return dict(shell.user_ns)


def cell_of_marimo(folder: Path) -> dict[str, Any]:
    return text_without_a_file(folder, str(folder / "marimo_1" / "__marimo__cell_Hbol_.py"))


def input_of_the_console(folder: Path) -> dict[str, Any]:
    """The source of a console's input, as Python 3.13 keeps it."""
    if sys.version_info < (3, 13):
        return text_without_a_file(folder, "<python-input-7>")
    console = code.InteractiveConsole(filename="<python-input-7>")
    console.runsource(TEXT, symbol="exec", filename="<python-input-7>")
    return console.locals  # type: ignore[return-value]


def called_in_a_thread(folder: Path) -> dict[str, Any]:
    space = text_of_a_file(folder)
    answers: list[Any] = []

    def program() -> Any:
        thread = threading.Thread(target=lambda: answers.append(space["program"]()))
        thread.start()
        thread.join(60)
        return answers.pop()

    return {"program": program}


@pytest.fixture
def in_a_fixture() -> Callable[[], Any]:
    scale = 2.0

    @qd.kernel
    def k(x: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            x[i] = scale * i

    return k


WAYS = (
    module_of_a_file, file_whose_name_is_no_text, module_of_a_zip, text_of_a_file, text_without_a_file,
    cell_of_a_notebook, cell_of_marimo, input_of_the_console, called_in_a_thread,
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_kernel_is_found(way: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    """The kernel may be defined in a class or closure, too."""
    qd.init(arch=qd.cpu)
    *numbers, said = way(tmp_path)["program"]()
    assert numbers == NUMBERS
    assert LINE in said


def test_a_kernel_of_a_fixture_is_found(in_a_fixture: Any) -> None:
    qd.init(arch=qd.cpu)
    x = qd.ndarray(qd.f32, shape=(3,))
    functools.partial(in_a_fixture, x)()
    assert x.to_numpy().tolist() == NUMBERS[0]


@pytest.mark.parametrize("before", [[], ["-X", "dev"]], ids=["", "dev"])
@pytest.mark.parametrize("after", [[], ["a", "b"]], ids=["", "arguments"])
def test_a_kernel_of_a_command_is_found(before: list[str], after: list[str]) -> None:
    text = TEXT + "qd.init(arch=qd.cpu)\nprint(*program())\n"
    done = run(sys.executable, *before, "-c", text, *after).stdout
    assert done.startswith(" ".join(str([float(v) for v in of]) for of in NUMBERS))
    assert LINE in done


def test_a_text_that_a_command_executes_is_not_taken_for_it() -> None:
    """This must hold although the same line contains a definition of the same name."""
    done = run(sys.executable, "-c", f"{TEXT}exec({TEXT.replace('2.0', '3.0')!r})", status=1)
    assert "error[QL1102]" in done.stderr


WORKER = """\
import pickle, sys
import quadrants_lab as qd
from quadrants_lab.distributed.sending import unpacked
qd.init(arch=qd.cpu)
answers = []
for raw in pickle.load(open(sys.argv[1], "rb")):
    try:
        answers.append(unpacked(raw)())
    except Exception as error:
        answers.append([str(error)])
pickle.dump(answers, open(sys.argv[2], "wb"))
"""


def test_a_kernel_that_is_made_on_a_worker_is_found(tmp_path: Path) -> None:
    """The worker has no file that the function came from; another process is one that runs a file."""
    qd.init(arch=qd.cpu)
    ways, sent = [way for way in WAYS if way is not called_in_a_thread], []
    for n, way in enumerate(ways):
        folder = tmp_path / str(n)
        folder.mkdir()
        sent.append(packed(way(folder)["program"], way.__name__))
        for path in folder.iterdir():
            path.unlink()
    (tmp_path / "in").write_bytes(pickle.dumps(sent))
    (tmp_path / "worker.py").write_text(WORKER)
    run(sys.executable, tmp_path / "worker.py", tmp_path / "in", tmp_path / "out")
    answers = dict(zip(ways, pickle.loads((tmp_path / "out").read_bytes()), strict=True))
    wrong = {way.__name__: a for way, a in answers.items() if a[:-1] != NUMBERS or LINE not in a[-1]}
    assert wrong == {}


def test_text_that_nobody_keeps_is_an_error_that_says_so() -> None:
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"QL1102.*'doubled' cannot be found \(<nowhere>\)"):
        executed("<nowhere>")
