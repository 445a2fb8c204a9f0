"""Finding a function's text, and pointing into it."""

import enum
import functools
from typing import Any

import numpy as np
import pytest
from frontend.rig import fields, load, qd
from programs.deep import define

from quadrants_lab.errors import QuadrantsNameError, QuadrantsSyntaxError
from quadrants_lab.frontend.lower import lower
from quadrants_lab.frontend.source import FunctionSource, function_source
from quadrants_lab.frontend.specs import TemplateSpec
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk

x = fields()["x"]


def decorated(*args: Any) -> Any:
    return lambda fn: fn


def text_of(source: FunctionSource, node: Any) -> str:
    s = source.span(node)
    assert s.line == s.end_line
    return source.lines[s.line - 1][s.col : s.end_col]


class Holder:
    class Inner:
        @decorated(
            1,
            2,
        )
        def method(self):
            """Says
        something odd
    to the left."""
            x[0] = 1
            # a comment

            return (
        x[0]
)

        after = 1


def test_indented_and_odd() -> None:
    source = function_source(Holder.Inner.method)
    assert source.node.name == "method"
    assert len(source.node.body) == 3
    assert text_of(source, source.node.body[1]) == "x[0] = 1"
    assert text_of(source, source.node.body[2].value) == "x[0]"


def test_kept_with_the_function() -> None:
    def f():
        pass

    def g():
        pass

    assert function_source(f) is function_source(f)
    assert function_source(f) is not function_source(g)
    functools.update_wrapper(g, f)  # copies the attributes of f
    assert function_source(g).fn is g


def test_two_functions_on_a_line_of_conditions() -> None:
    if True:
        def f():  # fmt: skip
            x[0] = 1
    else:
        def f():  # fmt: skip
            x[0] = 2

    assert text_of(function_source(f), function_source(f).node.body[0]) == "x[0] = 1"


def test_strings_and_cells() -> None:
    text = "def f():\n    x[0] = 1\n"
    lowered = lower(function_source(define(text, x=x)["f"]), [], CompileOptions())
    spans = [str(s.span) for s in walk(lowered.kernel.body)]
    assert spans == ["2:6-2:7", "2:11-2:12", "2:4-2:12"]


F = "def f(v):\n    return v * 2.0\n"


@pytest.mark.parametrize("changed", ["y = 1\n", F.replace("2", "3"), "y = 1\n" + F, F + "def"])
def test_changed_file(changed, tmp_path) -> None:
    path = tmp_path / "m.py"
    path.write_text(F + "g = lambda v: v * 2.0\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert function_source(names["g"]).name == "<lambda>"
    path.write_text(changed)
    with pytest.raises(QuadrantsSyntaxError, match=r"QL1102.*has changed"):
        function_source(names["f"])


def test_names_are_read_when_lowering() -> None:
    speed = 1.0

    def f():
        x[0] = speed

    source = function_source(f)
    for speed in (2.0, 3.0):
        kernel = lower(source, [], CompileOptions()).kernel
        assert next(s.value for s in kernel.body if isinstance(s, N.Const) and s.type.is_float) == speed


def test_unbound_closure() -> None:
    def f():
        x[0] = later

    with pytest.raises(QuadrantsNameError, match="later"):
        lower(function_source(f), [], CompileOptions())
    later = 1


def test_inlined_spans_carry_their_calls(tmp_path) -> None:
    path = tmp_path / "calls.py"
    path.write_text(
        "@qd.func\ndef inner(v):\n    return v * 2\n\n@qd.func\ndef outer(v):\n    return inner(v) + 1\n\n"
        "def k():\n    z[0] = outer(x[1])\n"
    )
    kernel = load(path)["k"].lower().kernel
    mul = next(s for s in walk(kernel.body) if isinstance(s, N.Op) and s.prim == "mul")
    chain, span = [], mul.span
    while span is not None:
        chain.append(span.line)
        span = span.call
    assert chain == [3, 7, 10]


def test_buffers_of_one_field_under_two_names() -> None:
    p = x
    q = fields()["x"]

    def f(a):
        a[0] = p[0] + x.grad[0] + q[1]

    lowered = lower(function_source(f), [TemplateSpec(x)], CompileOptions())
    assert lowered.bindings == {"a": x, "a.grad": x.grad, "q": q, "q.grad": q.grad}
    assert lowered.kernel.buffers["a"].grad == "a.grad"


def test_attributes_and_name_clashes() -> None:
    class World:
        x = fields()["z"]

    world = World()

    def f(y):
        y[0] = world.x[0]

    def g(s):
        s = 1  # noqa: F841

    lowered = lower(function_source(f), [TemplateSpec(x)], CompileOptions())
    assert list(lowered.bindings) == ["y", "y.grad", "world.x"]


@qd.func
def clashing():
    return x[0]


def test_same_name_for_two_fields() -> None:
    def f(x):
        x[0] = clashing()

    other = fields()["z"]
    lowered = lower(function_source(f), [TemplateSpec(other)], CompileOptions())
    assert lowered.bindings == {"x": other, "x.2": x, "x.2.grad": x.grad}


def test_returns() -> None:
    def one() -> qd.f32:
        return 1

    def pair() -> (qd.f32, qd.i32):
        return 1, 2

    single, several = (lower(function_source(f), [], CompileOptions()) for f in (one, pair))
    assert (single.returns, single.returns_tuple) == ((qd.f32,), False)
    assert (several.returns, several.returns_tuple) == ((qd.f32, qd.i32), True)
    assert list(several.kernel.buffers) == ["ret0", "ret1"]


class Mode(enum.IntEnum):
    FAST = 2


def test_captured_numbers_of_other_types() -> None:
    numbers = (np.float64(2.5), np.int32(3), np.bool_(True), Mode.FAST)

    def f():
        for k in qd.static(range(4)):
            x[k] = numbers[k]

    kernel = lower(function_source(f), [], CompileOptions()).kernel
    stored = [s.value for s in kernel.body if isinstance(s, N.Const) and s.type.is_float]
    assert stored == [2.5, 3.0, 1.0, 2.0]
    assert all(type(v) is float for v in stored)
