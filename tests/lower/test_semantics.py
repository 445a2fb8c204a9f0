"""Lowerings keep what a kernel means: random IR, interpreted before and after each pass of each backend."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from programs import random_ir

from quadrants_lab.backends.lower.casts import LowerFormulas
from quadrants_lab.backends.lower.math import MATH
from quadrants_lab.backends.lower.rewrite import rewrite
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.prims import PRIMS, RENAMED
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import DTYPES, f16, f32, i32, i64, u1, u8, u32
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.pipeline import run
from quadrants_lab.pipelines.launch import front
from quadrants_lab.runtime.backend import backend, names
from quadrants_lab.runtime.interpret.interpreter import interpret

EXACT = CompileOptions(fast_math=False)
DRAWN = (12345, 7)  # seed and number of the launch


def outcome(kernel: N.Kernel, seed: int) -> dict[str, np.ndarray]:
    """The memory after a run of the kernel."""
    memory = random_ir.arrays(seed)
    interpret(kernel, {"s": 3}, memory, random=DRAWN)
    return memory


@pytest.fixture(autouse=True)
def exact_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the elementary functions, which lowerings compute in their own way: see `test_functions`."""
    monkeypatch.setattr(random_ir, "PRIMS", {name: p for name, p in PRIMS.items() if name not in MATH})


@pytest.mark.parametrize("name", names())
@given(seed=st.integers(0, 2**32))
def test_each_pass_keeps_the_meaning(name: str, seed: int) -> None:
    kernel = run(random_ir.random_kernel(seed, draws=True), front(EXACT))
    want = outcome(kernel, seed)
    for fn in backend(name).lowering(EXACT):
        kernel = run(kernel, (fn,), verify=True)
        for buffer, got in outcome(kernel, seed).items():
            np.testing.assert_array_equal(got, want[buffer], err_msg=f"{buffer} after {fn.__name__}")
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    statements = [fn for fn in backend(name).lowering(EXACT) if "schedule" not in fn.__name__]
    assert print_kernel(run(kernel, statements)) == text, "what is lowered stays as it is"


SPELLED = {
    "cpu": {"round"}, "cuda": {"round"}, "amdgpu": {"round"},
    "c": {"round"}, "metal": {"round", "isnan", "isinf", "abs"}, "vulkan": {"isnan", "isinf"}, "wasm": set(),
}  # fmt: skip


@pytest.mark.parametrize("options", [EXACT, CompileOptions()], ids=["exact", "fast"])
@pytest.mark.parametrize("name", names())
def test_what_is_gone(name: str, options: CompileOptions) -> None:
    """Of all primitives on all dtypes, those are gone that a pass's docstring says are gone."""
    kernel = everything()
    left = run(kernel, backend(name).lowering(options), verify=True)
    types = {i: t for s in walk(left.body) for i, t in s.defs()}
    found = {s.prim for s in walk(left.body) if isinstance(s, N.Op)}
    assert found.isdisjoint({"floordiv", "mod", *RENAMED})
    assert found & {"round", "isnan", "isinf"} == SPELLED[name] & {"round", "isnan", "isinf"}
    for s in walk(left.body):
        if isinstance(s, N.Op):
            t = types[s.args[0]]
            assert s.prim not in ("raw_div", "raw_mod", "pow") or t.is_float
            assert s.prim not in MATH or t is not f16
            assert s.prim != "rsqrt" or (name == "vulkan" and options.fast_math and t is f32)
            if s.prim == "cast":
                assert u1 not in (t, s.type)
                assert t is not s.type


def everything() -> N.Kernel:
    """A kernel with each row of the table on each dtype that it takes, of values from memory."""
    b = Builder(0)
    kinds = {"num": "fiu", "float": "f", "int": "iu", "cmp": "bfiu", "select": "bfiu", "test": "f", "count": "iu"}
    with b.block() as body:
        for t in DTYPES.values():
            x = b.load(N.Buffer(f"x_{t}", "field", t, 0, ()), ())
            for p in PRIMS.values():
                if t.kind in kinds.get(p.rule, ""):
                    b.op(p.name, *(b.const(True, u1) if p.rule == "select" and not n else x for n in range(p.arity)))
            for to in DTYPES.values():
                b.op("cast", x, type=to)
        b.yield_()
    with b.block() as bounds:
        b.yield_()
    buffers = {f"x_{t}": N.Buffer(f"x_{t}", "field", t, 0, ()) for t in DTYPES.values()}
    return N.Kernel("all", (), buffers, (N.Offload(b.fresh(), "serial", tuple(bounds), (), tuple(body)),), b.next_id)


@pytest.mark.parametrize(("prim", "t", "a", "b", "want"), [
    ("quot", i32, -(2**31), -1, None), ("quot", i32, 7, 0, None), ("rem", i64, 7, 0, None), ("rem", u8, 9, 4, 1),
    ("quot", i32, -7, 2, -3), ("rem", i32, -7, 2, -1), ("quot", u32, 2**32 - 1, 2, 2**31 - 1),
])  # fmt: skip
def test_what_devices_leave_open_is_an_error_of_the_interpreter(prim, t, a, b, want) -> None:  # type: ignore[no-untyped-def]
    if want is None:
        with pytest.raises(ArithmeticError, match="devices leave open"):
            PRIMS[prim].evaluate(t, t.numpy(a), t.numpy(b))
    else:
        assert PRIMS[prim].evaluate(t, t.numpy(a), t.numpy(b)) == want


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_roots_are_rounded_to_the_nearest(off: int) -> None:
    """The device's roots are off by a unit in the last place."""
    kernel = LowerFormulas(("sqrt",))(parse_kernel("""kernel k() forward {
  buffer @x: field f32[600]
  offload range_for bounds {
    %0: i32 = const 0
    %1: i32 = const 600
    yield %0, %1
  } do (%2: i32 'i') {
    %3: f32 = load @x[%2]
    %4: f32 = sqrt %3
    store @x[%2], %4
    yield
  }
}"""))
    device = rewrite(kernel, {"sqrt": lambda s, a: (a.sqrt().bitcast(i32) + off).bitcast(f32)})
    random = np.exp(np.random.default_rng(0).uniform(-85, 85, 300))
    edges = [np.ldexp(m, e) for m in (1 - 2.0**-24, 1.0, 1 + 2.0**-23) for e in range(-50, 50)]
    x = np.array([*random, *edges], np.float32)
    memory = {"x": x.copy()}
    interpret(device, {}, memory)
    np.testing.assert_array_equal(memory["x"], np.sqrt(x))
