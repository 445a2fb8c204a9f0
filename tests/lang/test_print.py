"""print and assert: f-strings, format specifications, separators; the interpreter shows what the CPU shows."""

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.specs import ScalarSpec
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import f32, i32
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.specialisation import FORWARD
from quadrants_lab.runtime.interpret.interpreter import interpret

WIDTH = 7

session = session_of(EVERYWHERE, debug=True)


@qd.kernel
def separators(a: qd.f32, b: qd.i32):
    print(a, b, sep="|", end="$")
    print(a, b, sep=None, end="")
    print()
    print("x", "y", sep="")
    print(*qd.Vector([b, 2]), *(a, "z"), sep=",")

@qd.kernel
def f_strings(a: qd.f32, b: qd.i32):
    print(f"a={a} b={b:5d}|{b:<5}|{b:>5}|{a:.3f} {{x}}")
    print(f"{a!r} {b + 1=} {a:e} {a:g} {b:05d} {b:x} {a:{WIDTH}.{1 + 1}f}|{'text':>6}")
    print(f"{a * 0.1}", f"{a * 0.1:>12}", f"{a * 0.1:.9f}")
    print(f"{(a, b)} {(a, b):.1f} {b > 1} {b > 1:d}")

@qd.kernel
def format_method(a: qd.f32, b: qd.i32):
    print("{} and {:.2f}".format(b, a), "{1} {0:03d} {c}{{}}".format(b, a, c=2))  # noqa: UP032


SHOWN = {
    separators: "1.5|30$1.5 30\nxy\n30,2,1.5,z\n",
    f_strings: (
        "a=1.5 b=   30|30   |   30|1.500 {x}\n"
        "1.5 b + 1=31 1.500000e+00 1.5 00030 1e    1.50|  text\n"
        "0.15         0.15 0.150000006\n"
        "(1.5, 30) (1.5, 30.0) True 1\n"
    ),
    format_method: "30 and 1.50 1.5 030 2{}\n",
}


@pytest.mark.parametrize("kernel", SHOWN, ids=lambda k: k.name)
def test_print(kernel, capsys):
    kernel(1.5, 30)
    qd.sync()
    assert capsys.readouterr().out == SHOWN[kernel]
    options = CompileOptions()
    ir = make_ir(lower(kernel.source, [ScalarSpec(f32), ScalarSpec(i32)], options).kernel, FORWARD, options)
    again = parse_kernel(print_kernel(ir))
    for one in (ir, again):
        assert "".join(interpret(one, {"a": np.float32(1.5), "b": np.int32(30)}, {}).prints) == SHOWN[kernel]


@qd.kernel
def checked(a: qd.f32, b: qd.i32):
    for i in range(10):
        assert i < b, f"{i} reached {b:04d} at {a:.2f}, {{as said}}"

@qd.kernel
def checked_by_format(a: qd.f32):
    assert a < 0.0, "a is {:.1f}".format(a)  # noqa: UP032


def test_assert():
    checked(0.5, 10)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"3 reached 0003 at 0\.50, \{as said\}"):
        checked(0.5, 3)
    with pytest.raises(AssertionError, match=r"a is 2\.0"):
        checked_by_format(2.0)


@qd.kernel
def at_compile_time(x: qd.template(), a: qd.f32):
    qd.static_print("shape", x.shape, (1, 2.5), {"a": 1}, qd.f32, a)


def test_static_print(capsys):
    at_compile_time(qd.field(qd.f32, (8, 2)), 1.0)
    assert capsys.readouterr().out == "shape (8, 2) (1, 2.5) {'a': 1} f32 a number of dtype f32\n"
