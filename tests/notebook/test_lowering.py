"""The Passes pane shows an adstack as pushes and pops, and then, for each backend, as the counter, slots and stores
that these become; each line leads to the source."""

import html
import re

import pytest

import quadrants_lab as qd
from quadrants_lab.notebook import show
from quadrants_lab.widgets import source
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import ONLY_READY, KernelView, NotReady, view_lines
from quadrants_lab.widgets.passes import pane

MEMORY = ("store @v$", "load @v$", "overflow %")
COUNTS = (*MEMORY, ".count[], %")
BECOMES = {
    "cpu": MEMORY,  # here and below the trips of the loop number the slots
    "cuda": (*COUNTS, ": u32 = add"),
    "amdgpu": (*COUNTS, ": u32 = add"),
    "metal": MEMORY,
    "vulkan": MEMORY,
}


@pytest.fixture(scope="module")
def view() -> KernelView:
    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = qd.field(qd.f32, 64, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def some(n: qd.i32):
        for i in x:
            v = x[i]
            for _ in range(n):
                if v < 0.5:
                    v = qd.sin(v) * v
            y[None] += v

    some(5)
    y.grad[None] = 1
    some.grad(5)
    assert "@v$" in some.grad.ir("after lower adstacks")
    return show(some).view.kernels[0]


@pytest.mark.parametrize("backend", BECOMES)
def test_an_adstack_is_seen_to_become_memory(view: KernelView, backend: str) -> None:
    steps = view.trace(f"gradient on {backend}")
    (step,) = [s for s in steps if s.name == "lower adstacks"]
    assert step.doc.startswith("Guarantees that no adstack statement is left")
    before, after = (view_lines(view, k) for k in (step.before, step.after))
    assert any("adstack_push" in line.text for line in before)
    assert not any("adstack" in line.text for line in after)
    for what in BECOMES[backend]:
        assert any(what in line.text for line in after), what
    nowhere = [{line.stmt for line in lines if not line.span_line} for lines in (before, after)]
    assert nowhere[1] <= nowhere[0]
    asked = [f"gradient on {backend}", str(steps.index(step))]
    assert "adstack_push" in html.unescape(write(pane(view, "passes", [*asked, "given"])))
    assert "@v$" in re.sub("<[^>]*>", "", html.unescape(html.unescape(write(pane(view, "passes", [*asked, "ir"])))))


def test_linked_opens_on_the_last_ir_before_it_is_lowered(view: KernelView) -> None:
    for mode in ("forward", "gradient"):
        opened = view.traces[mode][source.last_unlowered(view, mode)]
        assert not any(line.text.endswith("lanes 8") for line in view_lines(view, opened.after))
        assert opened.name not in ("cpu schedule", "lower lanes", "lower adstacks")
    assert view.traces["forward"][-1].lowering


def test_what_other_backends_make_of_a_stack_is_made_when_somebody_looks() -> None:
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def some(n: qd.i32):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v)
            y[None] += v

    some(5)
    some.grad(5)
    view = show(some).view.kernels[0]
    later = view.lowered["gradient on metal"]
    assert "gradient on cpu" in view.traces
    token = ONLY_READY.set(True)
    try:
        assert "passes/gradient on metal/0/ir" in write(source.pane(view, "0/source", ()))
        for rest in (["gradient on metal"], ["gradient on metal", "0", "ir"]):
            with pytest.raises(NotReady, match="lower adstacks of metal"):
                pane(view, "0/passes", rest)
    finally:
        ONLY_READY.reset(token)
    assert later.known is None
    assert "lower adstacks" in write(pane(view, "0/passes", ["gradient on metal"]))
    assert later.known is not None


def test_lines_of_code_lead_to_the_source(view: KernelView) -> None:
    for stage in view.code["gradient"]:
        if stage.name in ("llvm", "msl", "spirv"):
            lines = [line for line in stage.make().lines if line.stmt >= 0]
            assert lines
            assert all(line.span_line for line in lines), stage.backend
