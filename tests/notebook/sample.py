"""A cell's view made from hand-written IR, so that panes are tested without front end, runtime or notebook."""

from dataclasses import replace

import numpy as np

from quadrants_lab.adstack.evaluate_sizes import evaluate, values_of_parts
from quadrants_lab.adstack.report import report, stack_allocas
from quadrants_lab.adstack.size import determine_ad_stack_size
from quadrants_lab.autodiff.explain import explain
from quadrants_lab.autodiff.reverse import reverse
from quadrants_lab.backends import Stage
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import DTYPES
from quadrants_lab.ir.walk import walk
from quadrants_lab.notebook.values import array_view
from quadrants_lab.notebook.views import code_view, pass_views, stack_views, task_graphs
from quadrants_lab.passes.pipeline import Step
from quadrants_lab.runtime.tape.report import Report
from quadrants_lab.runtime.tape.step import StepRow, Uses
from quadrants_lab.runtime.tape.timeline import FORWARD, GRADIENT, Ran
from quadrants_lab.widgets.model import (
    ArrayView,
    BackendRun,
    CellView,
    CodeView,
    KernelView,
    LaunchView,
    Line,
    StageView,
    span_line,
)

SOURCE = """\
%%qdkernel --grad y
import quadrants_lab as qd

@qd.kernel
def k():
    for i in x:
        v = x[i]
        w = x[i]
        for _ in range(n[None]):
            v = qd.sin(v) + 0.1
            w = w * 0.95 + 0.01
        y[None] += v * w

k()
y[None]
"""

TEXT = """kernel k() forward next %40 {
  buffer @x: field f32[16] grad @x.grad
  buffer @x.grad: field f32[16]
  buffer @n: field i32[]
  buffer @y: field f32[] grad @y.grad
  buffer @y.grad: field f32[]
  offload range_for bounds {  !6:4-12:24
    %1: i32 = const 0
    %2: i32 = const 16
    yield %1, %2
  } do (%3: i32 'i') {
    %4: f32 'v' = load @x[%3]  !7:8-7:16
    %20: f32 'w' = load @x[%3]  !8:8-8:16
    %5: i32 = const 0  !9:17-9:30
    %6: i32 = load @n[]  !9:23-9:30
    for %7: i32 in %5..%6 carry (%8: f32 'v' = %4, %21: f32 'w' = %20) {  !9:8-11:30
      %9: f32 = sin %8  !10:16-10:25
      %10: f32 = const 0.1  !10:28-10:30
      %11: f32 'v' = add %9, %10  !10:16-10:30
      %22: f32 = const 0.95  !11:20-11:23
      %23: f32 = mul %21, %22  !11:16-11:23
      %24: f32 = const 0.01  !11:26-11:30
      %25: f32 'w' = add %23, %24  !11:16-11:30
      yield %11, %25
    } -> (%12: f32 'v', %26: f32 'w')
    %27: f32 = mul %12, %26  !12:19-12:24
    %13: f32 = atomic add @y[], %27  !12:8-12:24
    yield
  }
}
"""

ASM = """\
k_task0:
        movl    %edi, %ecx
        vmovss  (%rsi,%rcx,4), %xmm0
.LBB0_1:
        callq   sinf@PLT
        vaddss  .LCPI0_0(%rip), %xmm0, %xmm0
        decl    %ebx
        jne     .LBB0_1
        retq
"""

MSL = """\
kernel void task0(device Frame& f [[buffer(0)]]) {
  v_8 = precise::sin(v_8);
}
"""

NO_MSL = "error[QL3001]: variable 'v' of kernel 'k' is f64, which this test does not have"


def compared(value: str, lane: int = 0) -> list[BackendRun]:
    """Home, one that agrees but for a bit, one that does not run."""

    def array(difference: str = "") -> list[ArrayView]:
        return [ArrayView("y", "f32", (), value, difference=difference)]

    return [
        BackendRun("cpu", 9e-5, 1.2e-5, lane, 16 * lane, array()),
        BackendRun(
            "metal, simulated", 3e-3, 2e-4, lane, 64 * lane, array("3e-08 of 0.43"), "3e-08 in y", "a simulation"
        ),
        BackendRun("vulkan", problem="no device: this is a test"),
    ]


class Live:
    """The data of a launch in which n is 50."""

    def arg(self, name: str) -> int:
        raise KeyError(name)

    def shape(self, buffer: str, axis: int) -> int:
        return 16

    def array(self, buffer: str) -> np.ndarray:
        return np.array(50, np.int32)


def tape(turns: int = 6) -> Report:
    """Of a program of ``turns`` times two launches, each of 10 µs, with a pause in the middle, and one more."""
    x, w, y = Uses(0, "x", True, True, True), Uses(1, "w", True, False, True), Uses(2, "y", False, True, True)
    step = StepRow("step", 64, -1, 0, "it overwrites x", (replace(x, kept=64), w))
    steps = [step, StepRow("damp", 0, -1, 0, "", (x,))] * turns
    steps.append(StepRow("total", 0, -1, 0, "", (replace(x, writes=False), y)))
    n = len(steps)
    order = [(k, FORWARD) for k in range(n)] + [(k, GRADIENT) for k in reversed(range(n))]
    ran = []
    for at, (k, track) in enumerate(order):
        begin, kept = at * 1.2e-5 + (track == GRADIENT) * 1.0, 64 * (k // 2 + 1)
        ran.append(Ran(steps[k].what, track, begin, begin + 1e-5, kept, k, "cell, line 5"))
    return Report(None, 64 * turns, 0, steps, [], False, ran)


def kernel_view() -> KernelView:
    forward = parse_kernel(TEXT, "cell")
    back = reverse(forward)
    sized = determine_ad_stack_size(back)
    live = Live()

    def values(e):
        return values_of_parts(e, live)

    depths = [evaluate(s.size, live) for s in stack_allocas(sized)]
    ids = tuple(9 if "sinf" in x else 4 if "(%rsi" in x else -1 for x in ASM.splitlines())
    stage = Stage("asm", ASM, ids, 7, 42)
    steps = [Step("lower", forward, forward, 2e-3), Step("simplify", forward, forward, 3e-4)]
    back_steps = [Step("reverse", forward, back, 1.4e-3), Step("simplify", back, back, 2e-4),
                  Step("determine ad stack size", back, sized, 8e-4)]  # fmt: skip
    docs = {"reverse": "The adjoint of each task, in opposite order.", "lower": "Python to IR."}
    lines = {s.id: (span_line(s.span, "cell"), s.adjoint_of) for s in walk(forward.body)}
    msl = Stage("msl", MSL, (-1, 9, -1), 2, 0, 1)
    stages = [
        StageView("asm", "cpu", lambda: code_view(stage, lines), language="gas"),
        StageView("msl", "metal", lambda: code_view(msl, lines), language="cpp"),
    ]
    gradient = [stages[0], StageView("msl", "metal", lambda: CodeView([], [], NO_MSL), language="cpp")]
    for made in (*stages, *gradient):
        made.make()
    notes = [x for x in explain(forward) if not x.stacked]
    return KernelView(
        name="k",
        file="cell",
        source=[Line(t, n) for n, t in enumerate(SOURCE.splitlines(), 1)],
        traces={"forward": pass_views(steps, docs), "gradient": pass_views(back_steps, docs)},
        graphs=task_graphs(sized, "cell", values),
        stacks=stack_views(sized, report(sized, depths), "cell", values, {}),
        free=notes,
        tapes=[tape()],
        code={"forward": stages, "gradient": gradient},
        launches=[
            LaunchView("forward", 1.2e-5, [("n", "50")],
                       [ArrayView("y", "f32", (), "0.4301", "0.43", "0.43")],
                       place="cpu", compared=compared("0.4301"), schedule=[("line 4", "8 lanes: sin")]),
            LaunchView("gradient", 3.1e-5, [("n", "50")],
                       [array_view("x.grad", DTYPES["f32"], np.linspace(3e-4, 1.2e-3, 16, dtype=np.float32)),
                        array_view("u", DTYPES["f32"], np.sin(np.arange(3 * 5 * 4.0)).reshape(3, 5, 4))],
                       "threads add in any order", "cpu", compared("0.4301", 200)),
        ],
    )  # fmt: skip


def cell_view() -> CellView:
    return CellView("cell 1", [kernel_view()])
