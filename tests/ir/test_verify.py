"""The verifier: a row of broken IR for each of its rules, and IR that passes."""

from dataclasses import replace

import pytest

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import f32, i32
from quadrants_lab.ir.verify import VerifyError, verify
from quadrants_lab.passes.pipeline import Trace, run

HEAD = """\
kernel k(n: i32) {mode} {{
  buffer @x: field f32[4] grad @x.grad
  buffer @x.grad: field f32[4]
  buffer @c: field i32[2x3]
  buffer @y: field f32[]
  buffer @a: ndarray f32[?]
  buffer @w: ndarray f32[?x?] wide
  buffer @flag: field u1[]
  %0: i32 = const 0
  %1: f32 = const 1.0
  %2: u1 = const True
{body}
}}
"""


def kernel(body, mode="forward"):
    return parse_kernel(HEAD.format(mode=mode, body=body))


TASK = """\
  offload range_for bounds {{
    %10: i32 = const 0
    yield %10, %10
  }} do (%11: i32) {{
    {body}
    yield
  }}"""

RIGHT = {
    "values": "%3: f32 = load @x[%0]\n%4: f32 = mul %3, %1\nstore @x[%0], %4",
    "wide index": "%3: i64 = cast %0\n%4: f32 = load @a[%3]",
    "wide array": "%3: i64 = shape @w 0\n%4: f32 = load @w[%3, %0]",
    "task of 64 bits": TASK.replace("i32", "i64").format(body="%12: f32 = load @a[%11]"),
    "isqrt of 64 bits": "%3: i64 = cast %0\n%4: i64 = isqrt %3",
    "compare truth values": "%3: u1 = eq %2, %2\n%4: u1 = and %2, %3",
    "continue in a task": TASK.format(body="if %2 {\ncontinue\n} else {\nyield\n}"),
    "break in both arms": """
      for %3: i32 in %0..%0 carry (%4: f32 = %1) {
        if %2 {
          break %4
        } else {
          continue %1
        } -> (%5: f32)
        yield %5
      } -> (%6: f32)
      store @y[], %6""",
    "loop in a condition": """
      while {
        for %3: i32 in %0..%0 {
          break
        }
        yield %2
      } do {
        yield
      }""",
    "a schedule": TASK.format(body="").replace(
        " bounds", ' lanes 8 colour_rows 2 shares @y add copies @x, @a grain 7 timed vectorise why "because" bounds', 1
    ),
    "names shadow nothing": "if %2 {\n%3: i32 = const 1\nyield\n} else {\n%4: i32 = const 1\nyield\n}",
    "stacks": TASK.format(
        body="""adstack_alloca $20: f32 primal %1 reason "r"
    adstack_push $20, %1
    adstack_guard {
      %21: f32 = adstack_load_top $20
      adstack_pop $20
      yield
    }"""
    ),
    "stacks in loops": TASK.format(
        body="""adstack_alloca $20: f32 primal %1 reason "r"
    for %22: i32 in %11..%11 {
      adstack_push $20, %1
      yield
    }
    adstack_guard {
      for reversed %23: i32 in %11..%11 {
        %24: f32 = adstack_load_top $20
        adstack_pop $20
        yield
      }
      yield
    }"""
    ),
    "a stack that only counts": TASK.format(
        body="""adstack_alloca $20: f32 primal %1 count_only reason "r"
    adstack_push $20, %1
    %21: i64 = adstack_depth $20"""
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    verify(kernel(RIGHT[name]))
    verify(kernel(RIGHT[name], "reverse" if "counts" not in name else "count"))


WRONG = {
    # values and scopes
    "undefined": ("store @y[], %3", "%3 is read where it is not visible"),
    "defined later": ("%3: f32 = sin %4\n%4: f32 = const 0.0", "%4 is read where it is not visible"),
    "out of an arm": (
        "if %2 {\n%3: f32 = sin %1\nyield\n} else {\nyield\n}\nstore @y[], %3", "%3 is read where it is not"
    ),
    "result inside": ("if %2 {\nyield %1\n} else {\nyield %3\n} -> (%3: f32)", "%3 is read where it is not visible"),
    "cond in body": (
        "while {\n%3: u1 = not %2\nyield %3\n} do {\n%4: u1 = not %3\nyield\n}", "%3 is read where it is not"
    ),
    "carried behind": (
        "for %3: i32 in %0..%0 carry (%4: f32 = %1) {\nyield %4\n} -> (%5: f32)\nstore @y[], %4", "%4 is read"
    ),
    "index behind": ("for %3: i32 in %0..%0 {\nyield\n}\nstore @c[%3, %0], %0", "%3 is read where it is not visible"),
    "bounds in body": (TASK.format(body="%12: i32 = neg %10"), "%10 is read where it is not visible"),
    "defined twice": ("%1: i32 = const 3", "id 1 is defined twice"),
    "twice in arms": (
        "if %2 {\n%3: i32 = const 1\nyield\n} else {\n%3: i32 = const 1\nyield\n}", "id 3 is defined twice"
    ),
    # types
    "mixed dtypes": ("%3: f32 = add %0, %1", "add cannot be applied to i32, f32"),
    "truth values added": ("%3: u1 = add %2, %2", "add cannot be applied to u1, u1"),
    "sine of an integer": ("%3: i32 = sin %0", "sin cannot be applied to i32"),
    "bits of a float": ("%3: f32 = xor %1, %1", "xor cannot be applied to f32, f32"),
    "shifted truth value": ("%3: u1 = shl %2, %2", "shl cannot be applied to u1, u1"),
    "isnan of an integer": ("%3: u1 = isnan %0", "isnan cannot be applied to i32"),
    "select by a number": ("%3: f32 = select %0, %1, %1", "select cannot be applied"),
    "select of two dtypes": ("%3: i32 = select %2, %0, %1", "select cannot be applied"),
    "bitcast of other width": ("%3: f64 = bitcast %1", "bitcast cannot be applied to f32"),
    "result dtype": ("%3: i32 = lt %1, %1", "the result of lt is u1, not i32"),
    "too few operands": ("%3: f32 = add %1", "add takes 2 operands"),
    "constant too large": ("%3: u8 = const 256", "256 is no constant of u8"),
    "negative unsigned": ("%3: u32 = const -1", "-1 is no constant of u32"),
    "argument unknown": ("%3: i32 = arg q", "there is no argument 'q'"),
    "argument dtype": ("%3: f32 = arg n", "argument 'n' is i32"),
    "random dtype": ("%3: f16 = random 0", "there is no random f16"),
    "assert of a number": ('assert assert %0, "m" ()', "the condition is not u1"),
    # memory
    "no such buffer": ("%3: f32 = load @z[]", "there is no buffer 'z'"),
    "too many indices": ("%3: f32 = load @x[%0, %0]", "'x' takes 1 indices"),
    "too few indices": ("%3: i32 = load @c[%0]", "'c' takes 2 indices"),
    "index of a 0-d buffer": ("store @y[%0], %1", "'y' takes 0 indices"),
    "float index": ("%3: f32 = load @x[%1]", "an index is not an integer"),
    "truth value as index": ("%3: f32 = load @x[%2]", "an index is not an integer"),
    "load dtype": ("%3: i32 = load @x[%0]", "'x' holds f32"),
    "store dtype": ("store @x[%0], %0", "'x' holds f32"),
    "atomic dtype": ("%3: f32 = atomic add @c[%0, %0], %1", "'c' holds i32"),
    "atomic unknown": ("%3: f32 = atomic nand @y[], %1", "there is no atomic 'nand'"),
    "atomic bits of floats": ("%3: f32 = atomic and @y[], %1", "there is no atomic and of f32"),
    "atomic sum of truth values": ("%3: u1 = atomic add @flag[], %2", "there is no atomic add of u1"),
    "axis": ("%3: i32 = shape @a 1", "'a' has 1 axes"),
    "extent of a field": ("%3: i32 = shape @x 0", "the extents of 'x' are constants"),
    "extent dtype": ("%3: u32 = shape @a 0", "an extent of 'a' is i32"),
    "extent dtype of a wide array": ("%3: i32 = shape @w 1", "an extent of 'w' is i64"),
    # structure
    "terminator at top": ("yield", "the body of a kernel has no terminator"),
    "no terminator": ("if %2 {\nstore @y[], %1\n} else {\nyield\n}", "a block does not end in a terminator"),
    "empty block": ("if %2 {\n} else {\nyield\n}", "a block is empty"),
    "two terminators": ("if %2 {\nyield\nyield\n} else {\nyield\n}", "a terminator stands before the end of its block"),
    "arity of an arm": ("if %2 {\nyield %1\n} else {\nyield\n} -> (%3: f32)", "carries 0 values where 1 are expected"),
    "dtype of an arm": ("if %2 {\nyield %1\n} else {\nyield %0\n} -> (%3: f32)", "is i32 where f32 is expected"),
    "condition": ("if %0 {\nyield\n} else {\nyield\n}", "the condition is not u1"),
    "init dtype": (
        "for %3: i32 in %0..%0 carry (%4: f32 = %0) {\nyield %4\n} -> (%5: f32)", "value 0 of the loop's inits is i32"
    ),
    "result of a loop": (
        "for %3: i32 in %0..%0 carry (%4: f32 = %1) {\nyield %4\n} -> (%5: i32)", "carried values and results"
    ),
    "no result": ("for %3: i32 in %0..%0 carry (%4: f32 = %1) {\nyield %4\n}", "carried values and results"),
    "step dtype": ("for %3: i32 in %0..%0 step %1 {\nyield\n}", "loop bounds and index differ in dtype"),
    "step backwards": ("for reversed %3: i32 in %0..%0 step %0 {\nyield\n}", "a loop with a step runs backwards"),
    "sum of threads": ("%3: i32 = group_reduce add %1", "a sum has the dtype of what is added"),
    "bounds dtype": ("for %3: i64 in %0..%0 {\nyield\n}", "loop bounds and index differ in dtype"),
    "float index of a loop": ("for %3: f32 in %1..%1 {\nyield\n}", "a loop index is not an integer"),
    "cond of a while": ("while {\nyield %0\n} do {\nyield\n}", "is i32 where u1 is expected"),
    "break outside": ("if %2 {\nbreak\n} else {\nyield\n}", "break outside of a loop"),
    "continue outside": ("if %2 {\ncontinue\n} else {\nyield\n}", "continue outside of a loop"),
    "break of a task": (TASK.format(body="if %2 {\nbreak\n} else {\nyield\n}"), "break outside of a loop"),
    "break in a condition": (
        "while {\nif %2 {\nbreak\n} else {\nyield\n}\nyield %2\n} do {\nyield\n}", "break outside"
    ),
    "break carries": (
        "for %3: i32 in %0..%0 carry (%4: f32 = %1) {\nbreak\n} -> (%5: f32)", "carries 0 values where 1"
    ),
    "task in a branch": (
        f"if %2 {{\n{TASK.format(body='')}\nyield\n}} else {{\nyield\n}}", "Offload cannot stand here"
    ),
    "kind of task": (TASK.format(body="").replace("range_for", "mesh_for"), "'mesh_for' is not a kind of task"),
    "serial with an index": (TASK.format(body="").replace("range_for", "serial"), "only a serial task has no indices"),
    **{f"schedule: {text}": (TASK.format(body="").replace(" bounds", f" {text} bounds", 1), rule) for text, rule in {
        "lanes -8": "a count of the schedule is negative",
        "copies @x, @gone": "the schedule names a buffer that there is not",
        "shares @gone add": "the schedule names a buffer that there is not",
        "shares @y sub": "the schedule reduces by no such operation",
        "copies @x sums sideways": "'sideways' is no way in which sums run",
        "sums serial": "the schedule says how sums run, and names no buffer of them",
        "aggregate 32": "the schedule aggregates sums, and there are none",
        "lanes 8 copies @x aggregate 32": "a task runs in lanes and in another way, too",
        "fission 2": "the body of a task is split into loops without colours",
    }.items()},
    "a serial task in lanes": ("offload serial lanes 8 bounds {\nyield\n} do () {\nyield\n}", "a serial task has the"),
    "index of a task": (
        TASK.replace("(%11: i32)", "(%11: u32)").format(body=""), "a task's index is neither i32 nor i64"
    ),
    "bounds and index of a task": (
        TASK.replace("(%11: i32)", "(%11: i64)").format(body=""),
        "value 0 of the terminator is i32 where i64 is expected",
    ),
    "bounds of a task": (TASK.format(body="").replace("yield %10, %10", "yield %10"), "carries 1 values where 2"),
    # adstacks
    "push outside": ("adstack_push $3, %1", "$3 is no adstack of this task"),
    "alloca outside": ('adstack_alloca $3: f32 primal %1 reason ""', "adstack_alloca does not stand at the top level"),
    "alloca in a branch": (
        TASK.format(body='if %2 {\nadstack_alloca $3: f32 primal %1 reason ""\nyield\n} else {\nyield\n}'),
        "adstack_alloca does not stand at the top level",
    ),
    "guard in a branch": (
        TASK.format(body="if %2 {\nadstack_guard {\nyield\n}\nyield\n} else {\nyield\n}"),
        "adstack_guard does not stand at the top level",
    ),
    "another task's stack": (
        TASK.format(body='adstack_alloca $3: f32 primal %1 reason ""')
        + "\n"
        + TASK.format(body="adstack_push $3, %1").replace("%10", "%20").replace("%11", "%21"),
        "$3 is no adstack of this task",
    ),
}
STACK_BODIES = {
    "pushed dtype": ("adstack_push $3, %0", "$3 holds f32"),
    "dtype of the top": ("adstack_push $3, %1\n%4: i32 = adstack_load_top $3", "$3 holds f32"),
    "dtype of a depth": ("%4: i32 = adstack_depth $3", "a depth is i64"),
    "never pushed": ("adstack_pop $3", "nothing in this task pushes on $3"),
    "pop of nothing": ("adstack_pop $3\nadstack_push $3, %1", "$3 is empty here"),
    "two pops of one": ("adstack_push $3, %1\nadstack_pop $3\nadstack_pop $3", "$3 is empty here"),
    "pop in both arms": (
        "adstack_push $3, %1\nif %2 {\nadstack_pop $3\nyield\n} else {\nadstack_pop $3\nyield\n}\nadstack_pop $3",
        "$3 is empty here",
    ),
    "left over": ("adstack_push $3, %1", "1 values are left on $3 at the end of the task"),
}
for name, (body, rule) in STACK_BODIES.items():
    WRONG[name] = (TASK.format(body=f'adstack_alloca $3: f32 primal %1 reason ""\n{body}'), rule)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    body, rule = WRONG[name]
    with pytest.raises(VerifyError) as e:
        verify(kernel(body, "reverse"))
    assert rule in e.value.rule


@pytest.mark.filterwarnings("ignore:overflow")
def test_wrong_kernels():
    """Kernels that cannot be written as text, or whose fault is not in a body."""
    k = kernel("")
    x = k.buffers["x"]
    const, cast = k.body[0], N.Op(20, f32, "cast", (0,))
    for broken, rule in (
        (replace(k, next_id=2), "id 2 is not below next_id 2"),
        (replace(k, mode="sideways"), "'sideways' is not a mode"),
        (replace(k, args=(*k.args, N.Arg("n", f32))), "two arguments have the same name"),
        (replace(k, buffers={"y": x}), "buffer 'x' is listed as 'y'"),
        (replace(k, buffers={"x": replace(x, kind="tape")}), "unknown kind 'tape'"),
        (replace(k, buffers={"x": replace(x, shape=(4, 4))}), "shape and ndim of buffer 'x' differ"),
        (replace(k, buffers={"x": replace(x, kind="temp")}), "temp buffer 'x' is not 0-d"),
        (replace(k, buffers={"x": replace(x, kind="ndarray")}), "ndarray 'x' has a static shape"),
        (replace(k, buffers={**k.buffers, "x": replace(x, dtype=i32)}), "and its adjoint 'x.grad' differ"),
        (replace(k, body=(const, replace(const, id=19, value=1.5))), "1.5 is no constant of i32"),
        (replace(k, body=(const, replace(const, id=19, value=True))), "True is no constant of i32"),
        (replace(k, body=(N.Const(0, f32, 0.1),)), "0.1 is no constant of f32"),
        (replace(k, body=(N.Const(0, f32, 1e300),)), "1e+300 is no constant of f32"),
        (replace(k, body=(const, replace(cast, prim="frobnicate"))), "no primitive 'frobnicate'"),
    ):
        broken = replace(broken, next_id=max(broken.next_id, 30) if "next_id" not in rule else 2)
        with pytest.raises(VerifyError) as e:
            verify(broken)
        assert rule in e.value.rule


def test_the_error_shows_statement_span_and_pass():
    k = kernel("%3: f32 = sin %1\nstore @y[], %3")
    span = Span("cell 4", 9, 4, 9, 20)
    def break_it(k):
        return replace(k, body=(*k.body[:-2], replace(k.body[-1], span=span)))
    with pytest.raises(VerifyError) as e:
        run(k, (lambda k: k, break_it), verify=True)
    assert str(e.value) == (
        "invalid IR in kernel 'k' after pass 'break it': %3 is read where it is not visible\n"
        "    store @y[], %3\n"
        "  --> cell 4, line 9"
    )
    with pytest.raises(VerifyError, match="before the first pass"):
        run(break_it(k), (), verify=True)


def test_the_trace_keeps_what_each_pass_did():
    k = kernel("store @y[], %1")

    def drop_all(k):
        return replace(k, body=())

    trace = Trace()
    after = run(k, (lambda k: k, drop_all), trace=trace)
    assert [s.name for s in trace.steps] == ["<lambda>", "drop all"]
    assert trace.steps[0].before is trace.steps[0].after is k
    assert trace.steps[1].before is k
    assert trace.steps[1].after is after
    assert all(s.seconds >= 0 for s in trace.steps)
    run(k, (drop_all,))
    assert len(trace.steps) == 2
