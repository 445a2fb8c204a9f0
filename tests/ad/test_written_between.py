"""What Python writes between launches is warned of where a later launch reads it, and nowhere else."""

from __future__ import annotations

import pytest
from sessions import session_of, sessions

import quadrants_lab as qd

session = session_of(sessions("cpu"), default_fp=qd.f64)
pytestmark = pytest.mark.filterwarnings("error")  # what is not expected


@pytest.fixture(params=["Tape", "FwdMode"])
def under(request):
    """x, y, a kernel that reads x, one that does not, one that overwrites x, and a with to launch them in."""
    x, w = (qd.field(qd.f64, shape=3, needs_grad=True, needs_dual=True) for _ in range(2))
    y = qd.field(qd.f64, shape=(), needs_grad=True, needs_dual=True)

    @qd.kernel
    def read():
        for i in x:
            y[None] += x[i]

    @qd.kernel
    def other():
        for i in w:
            y[None] += w[i]

    @qd.kernel
    def overwrite():
        for i in x:
            x[i] = w[i]

    def derivatives():
        return qd.ad.Tape(y) if request.param == "Tape" else qd.ad.FwdMode(y, w, [1.0] * 3)

    return x, read, other, overwrite, derivatives


def test_no_later_launch_reads_it(under) -> None:
    x, read, other, overwrite, derivatives = under
    with derivatives():
        read()
        other()
        x.fill(1.0)
        other()
        overwrite()
        read()
        x.fill(2.0)


def test_a_later_launch_reads_it(under) -> None:
    x, read, other, _, derivatives = under
    with derivatives():
        read()
        other()
        x.fill(1.0)
        other()
        with pytest.warns(qd.QuadrantsWarning, match="QL0415.*x was written from Python between two launches"):
            read()
        x.fill(2.0)
        read()
