"""`qd.init(check=...)` and QL_CHECK=1: faults in scripts are told where they happen, without a cell."""

import re
import runpy
import sys
import warnings

import pytest
from child import run
from sessions import ended  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsAssertionError, QuadrantsRuntimeTypeError

HEAD = """\
import numpy as np
import quadrants_lab as qd

qd.init(arch=qd.cpu, offline_cache=False{})
x = qd.field(qd.f32, 4, needs_grad=True)
h = qd.field(qd.f32, 4, needs_grad=True)
plain = qd.field(qd.f32, 4)
to = qd.field(qd.i32, 4)
y = qd.field(qd.f32, (), needs_grad=True)
x.from_numpy(np.array([0.0, 1.0, 2.0, 3.0], np.float32))

"""
TAPE = "with qd.ad.Tape(y):\n    "

# name -> (body of the kernel, how it is launched, what is said of the line that ends with "# HERE")
FAULTS = {
    "root of zero": ("y[None] += qd.sqrt(x[i])  # HERE", TAPE + "k()", "the root has no finite slope at 0"),
    "zero by zero": ("h[i] = x[i] / x[i]  # HERE", "k()", "a division by 0"),
    "logarithm": ("h[i] = qd.log(x[i] - 1.0)  # HERE", "k()", "the logarithm of what is not above 0"),
    "power by hand": ("y[None] += x[i] ** 0.5  # HERE", "k(); y.grad[None] = 1; k.grad()", "a power that has no"),
    "read beyond the end": ("h[i] = x[to[i] + 4]  # HERE", "k()", "index 4 is out of bounds for axis 0 of x"),
    "write before the start": ("h[to[i] - 1] = x[i]  # HERE", "k()", "index -1 is out of bounds for axis 0 of h"),
    "a race that the source shows": ("h[0] = h[0] + x[i]  # HERE", "k()", "race for h"),
    "a race that the data make": ("h[to[i]] = x[i]  # HERE", "k()", "race for h"),
    "an assert": ("assert x[i] < 2.5  # HERE", "k()", "x[i] < 2.5"),
    "no gradient on the way": (
        "plain[i] = x[i] * 2.0  # HERE\n    for i in x:\n        y[None] += plain[i]", TAPE + "k()",
        "the gradient of x is zero: the gradient stops at plain",
    ),
    "a floor": ("y[None] += qd.floor(x[i])  # HERE", TAPE + "k()", "gradient of x is zero: floor has no derivative"),
    "overwritten": (
        "h[i] = x[i] * 2.0\n    for i in h:\n        h[i] = 1.0  # HERE\n    for i in h:\n        y[None] += h[i]",
        TAPE + "k()", "the gradient of x is zero: what came from x is written over",
    ),
}  # fmt: skip


def told_here(script) -> str:
    """The warnings and the error of a program that runs in this process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            runpy.run_path(str(script), run_name="__main__")
            error = ""
        except Exception as e:
            error = str(e)
    return "\n".join([*(str(w.message) for w in caught), error])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_script_is_told_with_line_and_cause(name, tmp_path, monkeypatch) -> None:
    """A script in a process of its own prints the fault on stderr."""
    body, call, says = FAULTS[name]
    by_variable = len(name) % 2 == 0
    script = tmp_path / "script.py"
    text = HEAD.format("" if by_variable else ', check="gradients"')
    script.write_text(f"{text}@qd.kernel\ndef k():\n    for i in x:\n        {body}\n\n{call}\n")
    if by_variable:
        monkeypatch.setenv("QL_CHECK", "1")
    out = run(sys.executable, script, status=None).stderr if name == "root of zero" else told_here(script)
    here = next(n for n, line in enumerate(script.read_text().splitlines(), 1) if "# HERE" in line)
    told = [block for block in re.split(r"(?=error\[|warning\[)", out) if says in block]
    assert told, out
    assert re.search(rf"--> \S+script.py, line {here}\n", told[-1]), out


def test_without_the_switch_nothing_is_told(tmp_path) -> None:
    script = tmp_path / "script.py"
    body, call, _ = FAULTS["root of zero"]
    script.write_text(f"{HEAD.format('')}@qd.kernel\ndef k():\n    for i in x:\n        {body}\n\n{call}\n")
    done = run(sys.executable, str(script), cwd=tmp_path, env={"QL_CHECK": None})
    assert done.output == ""


@pytest.mark.parametrize(("level", "bounds", "races", "nan"), [
    ("bounds", True, False, False), ("races", True, True, False), ("nan", True, True, True),
    ("gradients", True, True, True), (True, True, True, True), (False, False, False, False),
])  # fmt: skip
def test_each_value_has_the_checks_of_those_before_it(level, bounds, races, nan) -> None:
    def fails(kernel) -> bool:
        try:
            kernel()
        except QuadrantsAssertionError:
            return True
        return False

    qd.init(arch=qd.cpu, offline_cache=False, check=level)
    x, to = qd.field(qd.f32, 4), qd.field(qd.i32, 4)
    to.fill(3)

    @qd.kernel
    def out_of_bounds():
        for i in x:
            if x[i + to[i]] > 5.0:
                x[i] = 0.0

    @qd.kernel
    def race():
        for i in x:
            x[to[i]] = i

    @qd.kernel
    def no_number():
        for i in x:
            x[i] = 0.0 / x[i]

    x.fill(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if bounds:
            assert fails(out_of_bounds)
        assert fails(race) is races
        x.fill(0.0)
        assert fails(no_number) is nan


def test_a_right_program_is_left_alone() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, check=True)
    x, y = qd.field(qd.f32, 8, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def k():
        for i in x:
            y[None] += qd.max(qd.sin(x[i]), 0.1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            with qd.ad.Tape(y):
                k()
            assert x.grad[0] == pytest.approx(0.87758, rel=1e-4)
        x.fill(-0.5)  # max takes the other operand: a gradient of zero that is right
        with qd.ad.Tape(y):
            k()
    assert not x.grad.to_numpy().any()


def test_infinities_of_the_program_are_no_fault() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, check=True)
    x = qd.field(qd.f32, 8)

    @qd.kernel
    def k():
        for i in x:
            x[i] = 1.0 / x[i]

    k()
    k()
    assert not x.to_numpy().any()


def test_a_lost_gradient_is_told_once() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, check="gradients")
    x, y = qd.field(qd.f32, 8, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def k():
        for i in x:
            y[None] += qd.floor(x[i])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with qd.ad.Tape(y):
                k()
    assert sum("QL0423" in str(w.message) for w in caught) == 1


# bodies of kernels that keep steps in between in the field h, of which no kernel reads what it held before
BETWEEN = {
    "a loop stores": "h[i] = x[i] ** 2\n    for i in x:\n        y[None] += h[i]",
    "a loop stores a constant and adds": "h[i] = 0.0\n        h[i] += x[i]\n        y[None] += h[i]",
    "a part": "if i > 1:\n            h[i] = x[i]\n            y[None] += h[i] * h[i]",
    "in turn": "h[i] = x[i]\n        for j in range(3):\n            h[i] = h[i] * 0.5\n        y[None] += h[i]",
}


@pytest.mark.parametrize("body", BETWEEN.values(), ids=BETWEEN)
def test_a_field_that_is_written_before_it_is_read_is_no_lost_input(body, tmp_path) -> None:
    script = tmp_path / "script.py"
    text = HEAD.format(', check="gradients"')
    script.write_text(f"{text}@qd.kernel\ndef k():\n    for i in x:\n        {body}\n\n{TAPE}k()\n")
    assert told_here(script) == ""


def test_another_value_is_an_error() -> None:
    with pytest.raises(QuadrantsRuntimeTypeError, match="check must be True, False or one of 'bounds', 'races', 'nan'"):
        qd.init(arch=qd.cpu, check="everything")


def test_sessions_change() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, check=True)
    with qd.another_session(arch=qd.cpu, offline_cache=False):
        x = qd.field(qd.f32, 4)

        @qd.kernel
        def k():
            for i in x:
                x[i] = x[i] / x[i]

        k()  # this session has no checks
    qd.init(arch=qd.cpu, offline_cache=False)
    z = qd.field(qd.f32, 4)

    @qd.kernel
    def again():
        for i in z:
            z[i] = z[i] / z[i]

    again()
