"""Deep programs in cells, and indices out of bounds there: errors with their line, and the next cell runs."""

import re

import numpy as np
import pytest
from programs.deep import PROGRAMS, X

from quadrants_lab.notebook import show

SETUP = """
import numpy as np
import quadrants_lab as qd
qd.init(arch=qd.cpu, offline_cache=False)
x = qd.field(qd.f32, shape=4, needs_grad=True)
y = qd.field(qd.f32, shape=4, needs_grad=True)
m = qd.field(qd.i32, shape=4)
loss = qd.field(qd.f32, shape=(), needs_grad=True)
m.fill(1)
a = np.zeros(4, np.float32)
"""
TOTAL = "\n@qd.kernel\ndef total():\n    for i in y:\n        loss[None] += y[i]\n\n"


@pytest.mark.parametrize("name", ["elifs", "terms", "funcs", "loops"])
def test_a_deep_cell(shell, capsys, name):
    make, n = PROGRAMS[name]
    program = make(n)
    assert shell.run_cell(SETUP).success
    shell.user_ns["x"].from_numpy(X)
    assert shell.run_cell(f"%%qdkernel --grad loss --quiet\n{program.text}{TOTAL}k()\ntotal()\n").success
    np.testing.assert_allclose(shell.user_ns["x"].grad.to_numpy(), program.slope(X), rtol=1e-5)
    inspection = show(shell.user_ns["k"])
    assert inspection.view.kernels[0].traces["gradient"]
    if name == "loops":  # of the others the pictures take their time
        assert "Passes" in inspection._repr_mimebundle_()["text/html"]
    capsys.readouterr()


OUT = {
    "field": ("", "for i in range(9):\n        x[i] = 1.0", "k()", "index 4 is out of bounds for axis 0 of x"),
    "negative": ("", "for i in range(4):\n        y[i] = x[i - 1]", "k()", "index -1 is out of bounds for axis 0 of x"),
    "ndarray": ("b: qd.types.ndarray()", "for i in range(9):\n        b[i] = 1.0", "k(a)", "index 4 is out of bounds"),
    "gradient": (
        "", "for i in range(4):\n        y[i] = x[i + m[i] * 50000]", "k.grad()", "out of bounds for axis 0 of",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUT)
def test_an_index_out_of_bounds_is_an_error_with_its_line(shell, capsys, name):
    given, body, call, says = OUT[name]
    assert shell.run_cell(SETUP).success
    capsys.readouterr()
    assert not shell.run_cell(f"%%qdkernel --quiet\n@qd.kernel\ndef k({given}):\n    {body}\n\n{call}\n").success
    out, err = capsys.readouterr()
    text = re.sub(r"\x1b\[[0-9;]*m", "", out + err)
    assert says in text
    assert re.search(r"--> Cell In\[.*\].*, line 5", text)
    assert shell.run_cell("x[0] = 2.0").success
