"""The picture of a check: what it draws is what the check measured."""

import re
from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
from IPython.utils.capture import capture_output

import quadrants_lab as qd
from quadrants_lab.widgets.static import static
from quadrants_lab.widgets.verdict import verdict

SVG = "{http://www.w3.org/2000/svg}"
CELL = """%%qdkernel --grad loss --check --quiet
x = qd.field(qd.f64, shape=8, needs_grad=True)
loss = qd.field(qd.f64, shape=(), needs_grad=True)
x.fill(0.5)

@qd.kernel
def cubes():
    for i in x:
        loss[None] += x[i] ** 3

@qd.kernel
def slopes():
    for i in x:
        x.grad[i] += FACTOR * x[i] ** 2 * loss.grad[None]

@qd.ad.grad_replaced
def run():
    cubes()

@qd.ad.grad_for(run)
def back():
    slopes()

run()
"""


def shown(shell, factor: str) -> list[str]:
    shell.run_cell("import quadrants_lab as qd\nqd.init(arch=qd.cpu, default_fp=qd.f64)")
    shell.kernel = "a notebook's"
    with capture_output() as seen:
        assert shell.run_cell(CELL.replace("FACTOR", factor)).success
    del shell.kernel
    return [x.data["text/html"] for x in seen.outputs if "step size" in drawing(x.data.get("text/html", ""))]


def drawing(html: str) -> str:
    found = re.search(r"data:image/svg\+xml;base64,([^\"]+)", html)
    return b64decode(found[1]).decode() if found else ""


def test_a_wrong_gradient_is_drawn_beside_the_noise(shell) -> None:
    (html,) = shown(shell, "3.03")
    tree = ElementTree.fromstring(drawing(html))
    heights = [float(dot.get("cy")) for dot in tree.iter(f"{SVG}circle")]
    assert len(heights) >= 6
    assert np.ptp(heights[1:]) < 1  # 1 % off at every step size
    assert re.findall(r"1e-02 at step", html)
    lines = [p.get("points") for p in tree.iter(f"{SVG}polyline") if p.get("stroke-dasharray")]
    floor = [float(point.split(",")[1]) for point in lines[0].split()]
    assert all(at > dot + 10 for at, dot in zip(floor, heights, strict=True))  # below: less
    assert not re.search(r"<script|href|src=\"(?!data:)", html)


def test_a_right_gradient_has_no_picture(shell) -> None:
    assert shown(shell, "3.0") == []


def test_a_report_shows_itself(shell) -> None:
    shown(shell, "3.03")
    found = qd.ad.check(shell.user_ns["run"], shell.user_ns["loss"])
    html = shell.display_formatter.formatters["text/html"](found)
    assert ">wrong</span> the gradient of x: " in html
    assert "step size" in drawing(html)
    assert html == static(verdict(found))
