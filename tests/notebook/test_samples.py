"""The inspector on the sample kernels: every pane of each answers, with and without recorded launches."""

from __future__ import annotations

import pytest

import quadrants_lab as qd
from quadrants_lab.kernels import chain, heat, kepler, lorenz, nbody, recurrent
from quadrants_lab.notebook.collect import cell_view, last_view
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.runtime.records import recording
from quadrants_lab.widgets.export import answers
from quadrants_lab.widgets.model import CellView
from quadrants_lab.widgets.static import static_html

RUNS = {
    "chain": (lambda: chain.main(2, 3, 1), chain.reach),
    "heat": (lambda: heat.main(6, 3, 1), heat.step),
    "kepler": (lambda: kepler.main(3), kepler.solve),
    "lorenz": (lambda: lorenz.main(2, (0, 4)), lorenz.trajectory),
    "nbody": (lambda: nbody.main(3, 2), nbody.potential),
    "recurrent": (lambda: recurrent.main(2, 3, 1), recurrent.unroll),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_pane_of_the_samples(name, capsys):
    main, kernel = RUNS[name]
    qd.init(arch=qd.cpu)
    main()
    unrecorded = last_view(kernel)
    assert unrecorded is not None
    assert not unrecorded.launches
    qd.init(arch=qd.cpu)
    with recording() as recorder:
        main()
    view = cell_view(name, recorder)
    for shown in (view, CellView(name, [unrecorded])):
        found = answers(shown)
        assert len(found) > 7
        assert not any("failed" in html or "nothing is known" in html for html in found.values())
        assert "this pane failed" not in static_html(shown)
        assert kernel.name in Inspection(shown).text()
    recorded = next(k for k in view.kernels if k.name == kernel.name)
    assert {"forward", "gradient"} <= set(recorded.traces)
    assert all(s.size is None or s.size.value == s.depth for s in recorded.stacks)
