"""Programs that are deep: they compile on every backend, and endless recursion is an error."""

import functools
import signal
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
from child import Child
from conftest import ROOT
from programs.deep import PROGRAMS, define, made
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsCompilationError, QuadrantsSyntaxError, QuadrantsWarning
from quadrants_lab.ir.deep_recursion import run_deep
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.verify import verify
from quadrants_lab.runtime.backend import all_stages


@pytest.fixture(autouse=True)
def usual_limit() -> Iterator[None]:
    """Python's own: what other tests import may have raised it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


session = session_of(sessions("cpu"))


# --- what compiles --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", PROGRAMS)
def test_code_of_every_backend_and_ir_as_text_and_back(name: str) -> None:
    make, n = PROGRAMS[name]
    kernel, _, y = made(make(n))
    y.grad.fill(1.0)
    kernel()
    kernel.grad()
    stages = {"cpu": "llvm", "cuda": "ptx", "amdgpu": "isa", "metal": "msl", "vulkan": "spirv", "c": "c", "wasm": "wat"}
    assert set(stages) == set(all_stages().values())
    for launchable, some in ((kernel, [*stages.values()]), (kernel.grad, ["llvm", "spirv"])):
        assert all(launchable.code(stage) for stage in some)
        text = print_kernel(launchable.dispatcher.last.compiled.kernel, links=True)
        again = parse_kernel(text)
        verify(again)
        assert print_kernel(again, links=True) == text
    assert "offload" in kernel.ir("front end")
    assert "adstack" in kernel.grad.ir("reverse") or name != "loops"
    assert kernel.sizes() is not None


def test_calls_that_qd_static_ends() -> None:
    """Such calls were an error if they were nested more than 64 levels deep."""
    y = qd.field(qd.i32, shape=())
    text = """
@qd.func
def down(n: qd.template()):
    total = n
    if qd.static(n > 0):
        total += down(n - 1)
    return total

@qd.kernel
def k():
    y[None] = down(300)
"""
    define(text, y=y)["k"]()
    assert y[None] == 300 * 301 // 2


def test_calls_over_the_parts_of_a_tuple() -> None:
    """Tuples of other lengths and other fields are other arguments."""
    a, b = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=())
    text = """
@qd.func
def fill(into: qd.template(), v: qd.template()):
    into[None] = v
    if qd.static(into is a):
        fill(b, v)

@qd.kernel
def k():
    fill(a, 7)
"""
    define(text, a=a, b=b)["k"]()
    assert (a[None], b[None]) == (7, 7)


# --- what does not end ----------------------------------------------------------------------------------------------

def refused(text: str, **names: object) -> str:
    with pytest.raises(QuadrantsSyntaxError) as caught:
        define(text, **names)["k"]()
    return str(caught.value)


def test_an_error_of_recursion_shows_the_calls() -> None:
    text = "".join(f"@qd.func\ndef f{j}(a):\n    return f{(j + 1) % 3}(a - 1)\n" for j in range(3))
    said = refused(f"{text}@qd.kernel\ndef k(v: qd.i32 = 3) -> qd.i32:\n    return f0(v)\n")
    assert "QL1603" in said
    assert "'f0' calls itself through 'f1', 'f2'" in said
    assert "return f0(a - 1)" in said


def test_an_error_of_recursion_after_many_calls_is_short() -> None:
    text = "".join(f"@qd.func\ndef f{j}(a):\n    return f{j + 1}(a - 1)\n" for j in range(150))
    text += "@qd.func\ndef f150(a):\n    return f150(a)\n"
    said = refused(f"{text}@qd.kernel\ndef k() -> qd.i32:\n    return f0(3)\n")
    assert "'f150' calls itself\n" in said
    assert "more calls" in said
    assert len(said.splitlines()) < 30


def test_an_object_that_is_passed_on_ends_no_recursion() -> None:
    text = "@qd.func\ndef f(a, how: qd.template()):\n    return f(a, 'fast')\n"
    said = refused(f"{text}@qd.kernel\ndef k() -> qd.i32:\n    return f(3, 'fast')\n")
    assert "QL1603" in said
    assert "'f' calls itself\n" in said


def test_static_arguments_without_end() -> None:
    text = "@qd.func\ndef up(n: qd.template()):\n    return up(n + 1)\n"
    said = refused(f"{text}@qd.kernel\ndef k() -> qd.i32:\n    return up(0)\n")
    assert "QL1613" in said
    assert "'up' calls itself 1000 times" in said
    assert "n = 1000" in said


def test_too_deep_for_any_stack_is_an_error() -> None:
    def forever(n: int) -> int:
        return max(map(forever, [n + 1]))
    with pytest.raises(QuadrantsCompilationError, match="QL1211"):
        run_deep(lambda: forever(0))
    assert sys.getrecursionlimit() < 10_000


# --- the thread -----------------------------------------------------------------------------------------------------

def deep(n: int) -> threading.Thread:
    return deep(n - 1) if n else threading.current_thread()


def test_only_deep_work_has_a_thread() -> None:
    assert run_deep(lambda: deep(10)) is threading.current_thread()
    assert run_deep(lambda: deep(5000)) is not threading.current_thread()


def test_errors_come_through() -> None:
    def fail() -> None:
        deep(5000)
        raise KeyError("this")
    with pytest.raises(KeyError, match="this"):
        run_deep(fail)


def test_a_static_expression_of_a_deep_program_reads_fields() -> None:
    """Reading a field takes the session's lock, which the thread that launches holds."""
    n = qd.field(qd.i32, shape=())
    y = qd.field(qd.i32, shape=())
    n[None] = 3
    def now() -> int:
        return int(n[None])
    text = "@qd.kernel\ndef k():\n    y[None] = qd.static(now())" + " + 1" * 500 + "\n"
    define(text, y=y, now=now)["k"]()
    assert y[None] == 503


def test_a_warning_of_a_deep_program_is_given_once() -> None:
    y = qd.field(qd.i32, shape=())
    text = "@qd.kernel\ndef k():\n    y[None] = 1.5" + " + 1.0" * 500 + "\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        define(text, y=y)["k"]()
    assert [w.category for w in caught] == [QuadrantsWarning]
    assert "QL1903" in str(caught[0].message)


INTERRUPTED = """
import sys, threading
from quadrants_lab.ir.deep_recursion import run_deep

def deep(n):
    if n:
        return deep(n - 1)
    print("deep", flush=True)
    while True:
        pass

try:
    run_deep(lambda: deep(3000))
except KeyboardInterrupt:
    for thread in threading.enumerate()[1:]:
        thread.join(30)  # it has been told to end
    print("interrupted", threading.active_count(), sys.getrecursionlimit(), flush=True)
"""


def test_ctrl_c_ends_the_work_of_the_thread() -> None:
    with Child(sys.executable, "-c", INTERRUPTED, cwd=ROOT) as child:
        assert child.line() == "deep\n"
        child.send(signal.SIGINT)
        assert child.line().split() == ["interrupted", "1", "1000"]
        child.finish()


# --- functools ------------------------------------------------------------------------------------------------------

def logged(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner


def one(v: qd.f32) -> qd.f32:
    return v + 1.0


@pytest.mark.parametrize("decorated, says", [
    (logged(one), "write @qd.kernel directly above def"),
    (functools.partial(one, 3.0), r"functools.partial\(qd.kernel\(one\), ...\)"),
    (functools.lru_cache(one), "would write nothing"),
    (functools.singledispatch(one), "the wrapper of one is Python"),
], ids=["wraps", "partial", "cache", "singledispatch"])
def test_wrapped_kernels(decorated, says: str) -> None:
    with pytest.raises(QuadrantsSyntaxError, match=f"(?s)QL2067.*{says}") as caught:
        qd.kernel(decorated)
    assert "def one(v" in str(caught.value)


def test_the_other_way_round_is_python() -> None:
    kernel = qd.kernel(one)
    assert functools.partial(kernel, 2.0)() == 3.0
    assert logged(kernel)(4.0) == 5.0


def test_a_cached_func_is_a_func() -> None:
    cached = qd.func(functools.lru_cache(one))
    @qd.kernel
    def k(v: qd.f32) -> qd.f32:
        return cached(v) * 2.0
    assert k(3.0) == 8.0
