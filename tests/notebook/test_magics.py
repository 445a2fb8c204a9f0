"""The magics in a shell: what a cell leaves behind, what it says when it goes wrong, and that the next one works."""

import itertools
import re

import numpy as np
import pytest
from oracle.sines import slopes

import quadrants_lab as qd
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.notebook import collect, experiment, show

SETUP = """
import numpy as np
import quadrants_lab as qd
qd.init(arch=qd.cpu)
x = qd.field(qd.f64, shape=4, needs_grad=True)
n = qd.field(qd.i32, shape=())
y = qd.field(qd.f64, shape=(), needs_grad=True)
x.from_numpy(np.array([0.1, 0.2, 0.3, 0.4]))
n[None] = 5
"""
WAVE = """
@qd.kernel
def wave():
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = qd.sin(v)
        y[None] += v

"""


class Ran:
    def __init__(self, shell, capsys, cell: str) -> None:
        capsys.readouterr()
        self.result = shell.run_cell(cell, store_history=True)
        out, err = capsys.readouterr()
        self.text = re.sub(r"\x1b\[[0-9;]*m", "", out + err)
        self.ok = self.result.success


@pytest.fixture
def cell(shell, capsys):
    assert shell.run_cell(SETUP).success
    return lambda text: Ran(shell, capsys, text)


@pytest.mark.parametrize("last", ["wave()", "wave()\nx.grad.to_numpy()"], ids=["the only launch", "an expression"])
def test_grad_runs_before_the_last_expression_or_after_the_only_launch(cell, shell, last):
    assert cell("%%qdkernel --grad y --quiet" + WAVE + last).ok
    got = shell.user_ns["_"] if "grad" in last else shell.user_ns["x"].grad.to_numpy()
    np.testing.assert_allclose(got, slopes([0.1, 0.2, 0.3, 0.4], 5), rtol=1e-12)


def test_running_a_cell_again_does_not_add_to_the_gradients(cell, shell):
    assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").ok
    first = shell.user_ns["x"].grad.to_numpy()
    assert cell("%%qdkernel --grad y --quiet\nwave()").ok
    np.testing.assert_array_equal(shell.user_ns["x"].grad.to_numpy(), first)


def test_a_last_expression_does_not_launch_behind_the_gradients_back(cell, shell):
    ran = cell("%%qdkernel --grad y --quiet" + CHAIN + "def both():\n    second()\n\nfirst()\nboth()")
    assert not ran.ok
    assert "error[QL0705]: the cell's last expression launched second" in ran.text
    assert cell("%%qdkernel --grad y --quiet\nfirst()\nboth();").ok
    assert shell.user_ns["x"].grad.to_numpy().all()


CHECKED = {
    "right": ("wave()\n", "right   the gradient of x agrees with finite differences "),
    "jumps": (
        "@qd.kernel\ndef steps():\n    for i in x:\n        y[None] += qd.floor(x[i] * 64) + 0.0 * x[i]\n\nsteps()\n",
        "not differentiable  the gradient of x",
    ),
    "not read": (
        "@qd.kernel\ndef none():\n    for i in x:\n        y[None] += x[i] * 0.0 + 1.0\n\nnone()\n",
        "it is zero, and the loss does not move",
    ),
    "wrong": (
        """h = qd.field(qd.f64, shape=4)

@qd.kernel
def kept():
    for i in x:
        h[i] = x[i] * x[i]

@qd.kernel
def used():
    for i in x:
        y[None] += h[i] * x[i]

kept()
used()
""",
        "it is WRONG at [3]: it is 0.16 there, by finite differences it is 0.48",
    ),
    "kink": (
        """@qd.kernel
def sizes():
    for i in x:
        y[None] += abs(x[i] * 10 - (i + 1))

sizes()
""",
        ", at a kink: the loss has another slope to each side",
    ),
    "near a kink": (
        """@qd.kernel
def sizes():
    for i in x:
        y[None] += abs(x[i] - 0.1 * (i + 1))  # the constant is rounded to f32

sizes()
""",
        "agrees with forward mode; the loss bends sharply close by",
    ),
    "Python writes": ("wave()\nx[2] = 0.9\nwave()\n", "right   the gradient of x agrees"),
    "unseen writes": (
        """c = qd.field(qd.f64, shape=())

@qd.kernel
def sums():
    for i in x:
        y[None] += x[i] + c[None]

sums()
c[None] = 1.0
sums()
""",
        "making the launches again gives",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("body", "says"), CHECKED.values(), ids=CHECKED)
def test_check_says_what_speaks_against_a_gradient(cell, shell, body, says):
    ran = cell("%%qdkernel --grad y --check --quiet" + WAVE + body + "x.grad.to_numpy()")
    assert ran.ok
    assert says in ran.text
    at_hand = shell.user_ns["x"].to_numpy()
    assert at_hand[0] == 0.1  # fields are as the cell left them


def test_check_compares_with_forward_mode(cell, shell):
    ran = cell("%%qdkernel --grad y --check --quiet" + WAVE + "wave()\nx.grad.to_numpy()")
    assert re.search(r"agrees with .* and with forward mode to the last digits", ran.text)
    ran = cell("%%qdkernel --grad y --check --quiet" + WAVE + CHECKED["wrong"][0] + "x.grad.to_numpy()")
    found = re.search(r"forward mode: along that direction (\S+), by the gradient it is (\S+)\n", ran.text)
    assert abs(float(found[1]) - float(found[2])) < 1e-9  # what has no gradient has no tangent


MEMBERS = """
@qd.data_oriented
class Rope:
    def __init__(self):
        self.p = qd.field(qd.f64, shape=4, needs_grad=True)
        self.p.fill(0.3)
    @qd.kernel
    def pull(self):
        for i in self.p:
            y[None] += qd.sin(self.p[i])

S = qd.types.struct(a=qd.f64, b=qd.types.vector(2, qd.f64))
s = S.field(shape=3, needs_grad=True)

@qd.kernel
def members():
    for i in s:
        y[None] += qd.exp(s[i].a) + s[i].b[1]

one, two = Rope(), Rope()
members()
one.pull()
two.pull()
"""


def test_check_looks_at_what_is_in_structs_and_objects(cell):
    ran = cell("%%qdkernel --grad y --check --quiet" + MEMBERS)
    assert ran.ok
    found = re.findall(r"right   the gradient of (.+) agrees with finite differences", ran.text)
    assert found == ["s.a", "s.b", "self.p", "self.p (2)"]


def test_equal_elements_of_a_gradient_do_not_cancel_out(cell, shell):
    sums = "\n@qd.kernel\ndef sums():\n    for i in range(2):\n        y[None] += z[i]\n\n"
    field = "\nz = qd.field(qd.f64, shape=2, needs_grad=True)"
    ran = cell("%%qdkernel --grad y --check --quiet" + field + sums + "sums()")
    assert "right   the gradient of z agrees with finite differences" in ran.text


def test_check_prints_nothing_again(cell):
    says = "\n@qd.kernel\ndef says():\n    for i in x:\n        print(x[i])\n        y[None] += x[i]\n\n"
    ran = cell("%%qdkernel --grad y --check --quiet" + says + "says()")
    assert ran.text.count("0.4") == 1


def test_gradients_of_tensors_are_cleared_before_and_checked(cell, shell):
    pytest.importorskip("torch")
    body = """
import torch
t = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)

@qd.kernel
def cosines(a: qd.types.ndarray(dtype=qd.f64, ndim=1)):
    for i in a:
        y[None] += qd.cos(a[i])

"""
    for text in (body, "\n"):
        ran = cell("%%qdkernel --grad y --check --quiet" + text + "cosines(t)\n")
        assert "right   the gradient of a agrees" in ran.text
        np.testing.assert_allclose(shell.user_ns["t"].grad.numpy(), -np.sin([0.1, 0.2]), rtol=1e-12)


@pytest.mark.parametrize(("root", "says"), [
    ("x[i] - x[0]", "NaN     the gradient of x"),
    ("x[i] - 0.2", "the loss is nan"),
])
def test_check_of_what_is_not_a_number(cell, root, says):
    roots = f"\n@qd.kernel\ndef roots():\n    for i in x:\n        y[None] += qd.sqrt({root})\n\n"
    assert says in cell("%%qdkernel --grad y --check --quiet" + roots + "roots()").text


def test_a_gradient_that_differences_cannot_see_is_not_called_zero(cell):
    tiny = "\n@qd.kernel\ndef tiny():\n    for i in x:\n        y[None] += 1.0 + 1e-17 * qd.sin(x[i])\n\n"
    ran = cell("%%qdkernel --grad y --check --quiet" + tiny + "tiny()")
    assert "right   the gradient of x is too small to be seen in the loss, but agrees with forward mode" in ran.text


def test_check_sees_by_forward_mode_what_differences_of_f32_cannot(cell, shell, monkeypatch):
    differentiate = experiment.differentiate
    def a_little_wrong(target, launches):
        differentiate(target, launches)
        for field in launches.tracked.values():
            if field.grad is not None and field.name == "x":
                field.grad.array[...] *= 1.004
    monkeypatch.setattr(experiment, "differentiate", a_little_wrong)
    single = SETUP.replace("qd.f64", "qd.f32") + WAVE
    assert cell(single).ok
    ran = cell("%%qdkernel --grad y --check --quiet\nwave()\nx.grad.to_numpy()")
    assert "wrong   the gradient of x differs from forward mode" in ran.text


@pytest.mark.filterwarnings("error")
def test_check_judges_gradients_of_ones_own_like_others(cell):
    own = """
def ahead():
    wave()

ahead = qd.ad.grad_replaced(ahead)

@qd.ad.grad_for(ahead)
def back():
    wave.grad()

"""
    ran = cell("%%qdkernel --grad y --check --quiet" + WAVE + own + "ahead()\nx.grad.to_numpy()")
    assert ran.ok
    assert re.search(r"right   the gradient of x agrees with finite differences .* and with forward mode", ran.text)


@pytest.mark.parametrize("factor", [1.05, 1.2, 1.5, 1.8, 2.5])
def test_rounding_does_not_hide_a_wrong_gradient_of_ones_own(cell, factor):
    own = f"""
y[None] = 0

@qd.kernel
def squares():
    for i in x:
        y[None] += x[i] * x[i]

@qd.kernel
def wrong():
    for i in x:
        x.grad[i] += {2 * factor} * x[i] * y.grad[None]

ahead = qd.ad.grad_replaced(lambda: squares())

@qd.ad.grad_for(ahead)
def back():
    wrong()

"""
    assert cell(SETUP.replace("qd.f64", "qd.f32")).ok
    ran = cell("%%qdkernel --grad y --check --quiet" + own + "ahead()\nx.grad.to_numpy()")
    assert "wrong   the gradient of x: back, which is given as the gradient" in ran.text


def test_nothing_but_the_loss_has_a_gradient(cell):
    plain = "x = qd.field(qd.f64, shape=4)\n"
    with pytest.warns(qd.QuadrantsWarning, match="QL0706"):
        assert cell("%%qdkernel --grad y --quiet\n" + plain + WAVE + "wave()").ok


def test_a_printed_diagnostic_names_the_cell(cell):
    ran = cell("@qd.kernel\ndef bad():\n    q = nothing_known\n\ntry:\n    bad()\nexcept Exception as e:\n    print(e)")
    assert re.search(r"--> Cell In\[\d+\]( \(\d+\))?, line 3", ran.text)


def test_check_wants_a_loss(cell):
    assert "--check compares the gradients of --grad LOSS" in cell("%%qdkernel --check\nwave()").text


CHAIN = """
w = qd.field(qd.f64, shape=4, needs_grad=True)

@qd.kernel
def first():
    for i in x:
        w[i] = qd.sin(x[i])

@qd.kernel
def second():
    for i in x:
        y[None] += w[i] * w[i]

"""


@pytest.mark.parametrize("after", ["", "\nNone"], ids=["a launch in the last line", "launches before the last line"])
def test_launches_are_differentiated_last_first(cell, shell, after):
    assert cell("%%qdkernel --grad y --quiet" + CHAIN + "first()\nsecond()" + after).ok
    start = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(shell.user_ns["x"].grad.to_numpy(), 2 * np.sin(start) * np.cos(start), rtol=1e-12)


def test_every_kernel_of_a_cell_has_its_view(cell):
    text = cell("%%qdkernel --grad y" + CHAIN + "first()\nsecond()\nNone").text
    assert "─ first ─" in text
    assert "─ second ─" in text


def test_the_inspector_prints_in_a_terminal(cell):
    ran = cell("%%qdkernel --grad y" + WAVE + "wave()\nNone")
    assert ran.ok
    for part in ("wave", "reverse", "operand of sin", "max(n[None], 0) = 5", "0.9", "gradient"):
        assert part in ran.text


def test_qdinspect_shows_the_recorded_launches(cell):
    assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").ok
    assert "max(n[None], 0)" in cell("%qdinspect wave").text


def test_show_needs_no_shell(shell, cell):
    assert cell(WAVE + "wave()\ny.grad[None] = 1\nwave.grad()").ok
    shown = show(shell.user_ns["wave"])
    assert "operand of sin" in str(shown)
    assert set(shown._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_a_launch_and_its_gradient_in_one_kernel_are_shown(shell, cell):
    assert cell(WAVE.replace("n[None]", "5") + "y.grad[None] = 1\nwave.value_and_grad()").ok
    wave = shell.user_ns["wave"]
    (view,) = show(wave).view.kernels
    assert list(view.code) == ["value and gradient"]
    shown = [line.text for line in view.code["value and gradient"][0].make().lines]
    assert "\n".join(shown) == wave.value_and_grad.code("llvm")
    assert "value and gradient on cpu" in view.traces
    assert [row.depth for row in wave.sizes()] == [5]
    assert "operand of sin" in str(show(wave))


TANGENT = """
u = qd.field(qd.f64, shape=3, needs_dual=True)
z = qd.field(qd.f64, shape=(), needs_dual=True)

@qd.kernel
def sines():
    for i in u:
        z[None] += qd.sin(u[i])

sines()
with qd.ad.FwdMode(loss=z, param=u, seed=[1, 1, 1]):
    sines()
z.dual[None]
"""


def test_a_launch_in_forward_mode_is_shown_beside_that_of_values(cell, shell):
    ran = cell("%%qdkernel --time" + TANGENT)
    assert ran.ok
    assert "cannot be shown" not in ran.text
    assert re.search(r"sines +forward mode +[\d.]+ .s", ran.text)
    (view,) = show(shell.user_ns["sines"]).view.kernels
    assert list(view.code) == list(view.traces) == [x.mode for x in view.launches] == ["forward", "forward mode"]
    assert "forward mode of sines, iteration 1" in cell("%qdstep sines 1 --launch 2").text


def test_what_is_shown_of_launches_outside_of_a_cell_is_what_ran(shell, cell):
    """The passes run again for it, and those of a counting slice are none of the gradient."""
    body = "\n        for _ in range(3):\n            if v > 0.9:\n                break\n            v = qd.sin(v)"
    text = "@qd.kernel\ndef k():\n    for i in x:\n        v = x[i]" + body + "\n        y[None] += v\n"
    assert cell(text + "k()\ny.grad[None] = 1\nk.grad()").ok
    (view,) = show(shell.user_ns["k"]).view.kernels
    assert "counting" in view.traces
    for passes in view.traces.values():
        for a, b in itertools.pairwise(passes):
            assert print_kernel(a.after) == print_kernel(b.before)


def test_times_are_those_of_one_specialisation(shell, cell):
    text = "@qd.kernel\ndef fill(a: qd.types.ndarray()):\n    for i in a:\n        a[i] += 1.0\n"
    assert cell("%%qdkernel\n" + text + "for d in (np.float32, np.float32, np.float64):\n    fill(np.zeros(3, d))").ok
    (view,) = show(shell.user_ns["fill"]).view.kernels
    assert "warm launch" not in dict(view.launches[0].times)


@pytest.mark.parametrize("magic", ["%%qdkernel --quiet", "%%qdkernel", ""], ids=["quiet", "shown", "not in a cell"])
def test_a_kernel_that_ran_only_without_derivatives_is_inspected(cell, magic):
    assert cell(f"{magic}\n{WAVE}@qd.ad.no_grad\ndef run():\n    wave()\n\nwith qd.ad.Tape(y):\n    run()").ok
    assert "code of forward" in cell("%qdinspect wave").text


def test_a_kernel_without_launch_has_nothing_to_show(shell, cell):
    assert cell("@qd.kernel\ndef idle():\n    for i in x:\n        x[i] = 1.0\n").ok
    with pytest.raises(qd.QuadrantsRuntimeError, match="not launched yet"):
        show(shell.user_ns["idle"])


def test_time_puts_back_what_the_launches_wrote(cell, shell):
    ran = cell("%%qdkernel --time --quiet" + WAVE + "y[None] = 0\nwave()\ny[None]")
    assert ran.ok
    assert re.search(r"wave +forward +[\d.]+ .s +median of \d+ launches", ran.text)
    assert shell.user_ns["y"][None] == shell.user_ns["_"]


def test_a_numpy_argument_is_timed_too(cell):
    head = "@qd.kernel\ndef fill(a: qd.types.ndarray(dtype=qd.f64, ndim=1)):\n"
    text = head + "    for i in range(3):\n        a[i] += 1.0\n"
    ran = cell("%%qdkernel --time\n" + text + "data = np.zeros(3)\nfill(data)\ndata")
    assert ran.ok, ran.text
    assert "median of" in ran.text
    assert "array([1., 1., 1.])" in ran.text


def test_a_tape_in_a_cell_with_grad_is_named(cell):
    """The message spoke of a call of wave.grad() too many, although there was none."""
    ran = cell("%%qdkernel --grad y --quiet" + WAVE + "with qd.ad.Tape(y):\n    wave()")
    assert "error[QL0704]: the gradient of wave ran in a cell with --grad" in ran.text
    assert "drop the call of wave.grad(), or the qd.ad.Tape that makes it" in ran.text


def test_a_quiet_cell_makes_no_view(cell, shell, monkeypatch):
    """The data of its launches are kept nevertheless."""
    def refused(*args: object) -> None:
        raise AssertionError("a view was made")

    with monkeypatch.context() as patch:
        for name in ("results", "kernel_view", "array_view"):
            patch.setattr(collect, name, refused)
        assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()\nNone").ok
    forward, gradient = show(shell.user_ns["wave"]).view.kernels[0].launches
    assert [a.name for a in forward.arrays] == ["y", "x"]
    assert [a.name for a in gradient.arrays] == ["x.grad", "x"]
