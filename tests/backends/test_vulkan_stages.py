"""The stage of the Vulkan backend: source lines, the listing, and the size of pushes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from child import run
from conformance.tasks import CHECKED, nested, seven, stacked
from rigs import parallel
from rigs.vulkan_rig import EXACT, FAST, bind, load, validate

from quadrants_lab.backends import vulkan
from quadrants_lab.backends._spirv import opcodes, ops
from quadrants_lab.backends._spirv.kernel import module
from quadrants_lab.backends._spirv.target import GENERIC, missing
from quadrants_lab.backends.launch import Overflow, Status
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.lower.math import MATH
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.device import Device
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.prims import PRIMS, RENAMED
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk

KERNEL = parse_kernel(stacked("f32", 64).replace("{OP}", "sin %9"))


def test_a_push_is_straight_code() -> None:
    stage = vulkan.stages(KERNEL, EXACT)["spirv"]()
    assert 3 <= stage.phis < stage.instructions
    assert stage.code_bytes % 4 == 0
    pushes = [s.id for s in walk(KERNEL.body) if isinstance(s, N.AdStackPush)]
    of_push = [line for line, i in zip(stage.text.split("\n"), stage.ids, strict=True) if i in pushes]
    assert any("OpStore" in line for line in of_push)
    assert not any("OpBranch" in line for line in of_push)


def test_lines_of_the_source() -> None:
    span = Span("cell 3", 7, 4, 7, 9)
    task = KERNEL.body[0]
    assert isinstance(task, N.Offload)
    body = tuple(replace(s, span=span) if isinstance(s, N.Load) else s for s in task.body)
    kernel = replace(KERNEL, body=(replace(task, body=body),))
    text = vulkan.stages(kernel, EXACT)["spirv"]().text
    assert 'OpString "cell 3"' in text
    assert re.search(r"OpLine %\d+ 7 5", text)
    made = module(kernel, EXACT, GENERIC, lines=True)
    validate(made.words())
    assert len(made.words()) > len(module(kernel, EXACT, GENERIC).words())


@pytest.mark.needs("spirv-val")
def test_listing_agrees_with_spirv_dis() -> None:
    """Our listing has the same instructions in the same order."""
    kernel = parse_kernel(CHECKED)
    options = replace(EXACT, debug=True)
    stage = vulkan.stages(kernel, options)["spirv"]()
    code = module(kernel, options, vulkan.target()).words()
    dis = run("spirv-dis", "--no-color", "-", given=code).stdout
    op = re.compile(r"Op[A-Z]\w+")
    ours = [op.search(line)[0] for line in stage.text.splitlines() if line.strip()]  # type: ignore[index]
    theirs = [op.search(line)[0] for line in dis.splitlines() if line and not line.startswith(";")]  # type: ignore[index]
    assert [o for o in ours if o not in ("OpLine", "OpString")] == theirs


def pushing(n: int) -> N.Kernel:
    """Pushes n values and pops them, one after the other."""
    lines = [f"%{10 + k}: f32 = mul %{9 + k}, %9\nadstack_push $4, %{10 + k}" for k in range(n)]
    back = [
        f"%{1000 + 3 * k}: f32 = adstack_load_top $4\nadstack_pop $4\n"
        f"%{1001 + 3 * k}: f32 = add %{1000 + 3 * k}, %{998 + 3 * k}"
        for k in range(n)
    ]
    return parse_kernel(parallel(
        "const 64",
        f"""adstack_alloca $4: f32 'v' primal %9 reason "test"
        %9: f32 = load @x[%3]
        {chr(10).join(lines)}
        adstack_guard {{
          %998: f32 = const 0.0
          {chr(10).join(back)}
          store @x[%3], %{998 + 3 * n}
          yield
        }}""",
        "buffer @x: field f32[64]",
        head="pushing() reverse",
    ))


@pytest.mark.parametrize(("n", "own", "nbytes"), [(10, 301, 4716), (100, 2461, 28116), (300, 7261, 80116)])
def test_straight_pushes_are_short(n: int, own: int, nbytes: int) -> None:
    """``own``: the words of all code for adstacks. With a branch for each push and a counter for each stack, 300 pushes
    would take 24,905 words, and the module 121,040 bytes."""
    kernel = pushing(n)
    ids = {s.id for s in walk(kernel.body) if isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop))}
    ids |= {s.id for s in walk(lower(kernel, vulkan.lowering(EXACT)[:1], EXACT).body) if s.id >= kernel.next_id}
    made = module(kernel, EXACT, GENERIC)
    validate(made.words())
    instructions, owners = made.instructions()
    assert sum(len(i) for i, owner in zip(instructions, owners, strict=True) if owner in ids) <= own
    assert len(made.words()) <= nbytes


def sines(n: int) -> N.Kernel:
    """A kernel of n nested sines."""
    body = "\n".join(f"%{11 + k}: f32 = sin %{10 + k}" for k in range(n))
    return parse_kernel(parallel(
        "const 64", f"%10: f32 = load @x[%3]\n{body}\nstore @x[%3], %{10 + n}", "buffer @x: field f32[64]",
    ))  # fmt: skip


@pytest.mark.parametrize("n", [3, 32, 33, pytest.param(300, marks=pytest.mark.slow)])
def test_a_function_with_many_calls_is_not_inlined(n: int) -> None:
    made = module(sines(n), EXACT, GENERIC)
    validate(made.words())
    controls = {i[3] for i in made.instructions()[0] if i[0] == opcodes.OPS["Function"][0]}
    assert controls == ({0, opcodes.DONT_INLINE} if n > 32 else {0})
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    bound = bind(load(sines(n)), {"x": x})
    assert bound.launch() == 0
    want = np.linspace(-1, 1, 64, dtype=np.float32).astype(np.float64)
    for _ in range(n):
        want = np.sin(want)
    np.testing.assert_allclose(x, want, rtol=0, atol=1e-5)


def in_turn(t: str, n: int, count: int) -> str:
    """Pushes n values of count stacks, x[i] + k or, of truth values, x[i] > k, in turn; y[i, k] is the k-th that is
    popped, with a constant between its load and its pop."""
    forth, back = [], []
    for k in range(n):
        a, stack = 20 + 5 * k, 4 + k % count
        value = f"cast %{a + 1}" if t != "u1" else f"gt %9, %{a}"
        forth.append(f"%{a}: i32 = const {k}\n%{a + 1}: i32 = add %9, %{a}\n%{a + 2}: {t} = {value}")
        forth.append(f"adstack_push ${stack}, %{a + 2}")
        b, stack = 1000 + 5 * k, 4 + (n - 1 - k) % count
        back.append(f"%{b}: {t} = adstack_load_top ${stack}\n%{b + 1}: i32 = const {k}\nadstack_pop ${stack}")
        back.append(f"store @y[%3, %{b + 1}], %{b}")
    lines = "\n".join(f"adstack_alloca ${4 + k}: {t} 's{k}' primal %22 reason \"test\"" for k in range(count))
    return parallel(
        "const 100",
        f"""{lines}
        %9: i32 = load @x[%3]
        {chr(10).join(forth)}
        adstack_guard {{
          {chr(10).join(back)}
          yield
        }}""",
        f"buffer @x: field i32[100]\nbuffer @y: field {t}[100x{n}]",
        head="in_turn() reverse",
    )


def test_pushes_of_constants() -> None:
    source, n = in_turn("i32", 40, 3), 40
    for k in range(n):
        pushed = f"%{22 + 5 * k}: i32 = "
        source = source.replace(f"{pushed}cast %{21 + 5 * k}\n", f"{pushed}const {n if k % 2 else 100}\n")
    y = np.zeros((100, n), np.int32)
    assert bind(load(source), {"x": np.zeros(100, np.int32), "y": y}, stacks=[14, 13, 13]).launch() == 0
    assert (y == np.where(np.arange(n)[::-1] % 2, n, 100)).all()


@pytest.mark.parametrize("t", ["f32", "f16", "u1", "i8", "i32", "i64"])
def test_pushes_and_pops_of_stacks_in_turn(t: str) -> None:
    n, count = 40, 3
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}", "u": "bool"}[t[0]]
    x, y = np.arange(100, dtype=np.int32) % 50, np.zeros((100, n), dtype)
    frame = bind(load(in_turn(t, n, count)), {"x": x, "y": y}, stacks=[14, 13, 13])
    assert frame.launch() == 0
    k = np.arange(n)[::-1]
    assert np.array_equal(y, x[:, None] > k if t == "u1" else (x[:, None] + k).astype(dtype))
    frame.set_stacks([14, 12, 13])
    assert frame.launch() == Status.OVERFLOW
    assert isinstance(failed := frame.failure(), Overflow)
    assert (failed.stack.id, failed.capacity, failed.depth) == (5, 12, 13)


def test_what_is_known_ahead_to_be_too_much_is_not_pushed() -> None:
    """The loop, of two billion trips, does not run either; three times its trips does not fit 32 bits."""
    arrays = {"x": np.ones(2, np.float32), "count": np.array([2, 2**31 - 1], np.int32)}
    arrays |= {"y": np.zeros((2, 6), np.float32), "z": np.zeros((2, 6, 3), np.float32)}
    frame = bind(load(nested(2)), arrays, stacks=[6, 6])
    assert frame.launch() == Status.OVERFLOW
    assert isinstance(failed := frame.failure(), Overflow)
    assert failed.capacity == 6
    assert (arrays["z"][0, :2] == [[1, 2, 3], [2, 3, 4]]).all()
    assert not arrays["y"][1].any()


def test_every_primitive_has_a_spelling() -> None:
    lowered = {"isqrt", "floordiv", "mod", "round", *RENAMED, *MATH} - {"sin", "cos"}
    assert set().union(*ops.SPELLINGS.values()) == PRIMS.keys() - lowered
    for row in (column.values() for column in ops.SPELLINGS.values()):
        for spelling in row:
            head = spelling.split(" ")[0]
            assert not head or head == "glsl" or head in ops.SEQUENCES or head in opcodes.OPS


@pytest.mark.parametrize(("t", "options", "single"), [("f32", FAST, True), ("f32", EXACT, False), ("f64", FAST, False)])
def test_one_over_a_root(t: str, options: object, single: bool) -> None:
    """With fast math, one over a square root is a single operation."""
    root = f"sqrt %9\n          %20: {t} = const 1.0\n          %21: {t} = div %20, %10"
    kernel = parse_kernel(stacked(t, 64).replace("{OP}", root).replace("yield %10", "yield %21"))
    text = vulkan.stages(kernel, options)["spirv"]().text  # type: ignore[arg-type]
    assert ("InverseSqrt" in text) is single
    assert ("OpFDiv" in text) is not single


def test_missing_features_are_named() -> None:
    made = module(parse_kernel(stacked("f64", 4).replace("{OP}", "add %9, %9")), EXACT, GENERIC)
    assert missing(list(made.capabilities), GENERIC) == ""
    assert missing(list(made.capabilities), replace(GENERIC, f64=False)) == "values of dtype f64"


@pytest.mark.parametrize("block", [32, 64, 1])
@pytest.mark.parametrize("t", ["f32", "f16", "i8", "i64"])
def test_slots_as_other_devices_have_them(block: int, t: str) -> None:
    chosen = api.choose()
    other = Device(replace(chosen, target=replace(chosen.target, block=block)))
    n = 300
    dtype = {"f": f"float{t[1:]}", "i": f"int{t[1:]}"}[t[0]]
    x, y = (np.arange(n) % 3).astype(dtype), np.zeros((n, 4, 7), dtype)
    assert bind(load(seven(t, n)), {"x": x, "y": y}, stacks=[4] * 7, on=other).launch() == 0
    want = (x[:, None, None] + np.arange(7)) * 2 ** np.arange(4)[None, :, None]
    assert np.array_equal(y, want.astype(dtype))
