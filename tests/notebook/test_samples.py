"""The inspector on the sample kernels: every pane of each answers, with and without recorded launches."""

import pytest

import quadrants_lab as qd
from quadrants_lab.kernels import arm, billiards, chain, crawler, kepler, lorenz, mpm, nbody, raymarch, ripple
from quadrants_lab.notebook.collect import cell_view, last_view
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.runtime.observe.observers import KEEPS_LAST
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets.model import CellView
from quadrants_lab.widgets.pack import answers
from quadrants_lab.widgets.static import static_html

RUNS = {
    "arm": (lambda: arm.main(2, 3, 1), arm.reach),
    "billiards": (lambda: billiards.main(2, 2, 1), billiards.Table.touch),
    "chain": (lambda: chain.main(2, 3, 1), chain.reach),
    "crawler": (lambda: crawler.main(1, 2, 1), crawler.Crawler.pull),
    "kepler": (lambda: kepler.main(3), kepler.solve),
    "lorenz": (lambda: lorenz.main(2, (0, 4)), lorenz.trajectory),
    "mpm": (lambda: mpm.main(2, 12, 2, 1), mpm.Jelly.scatter),
    "nbody": (lambda: nbody.main(3, 2), nbody.potential),
    "raymarch": (lambda: raymarch.main(4, 3, 1), raymarch.draw),
    "ripple": (lambda: ripple.main(16, 3, 1), ripple.Pond.step),
}

BY_DAY = {"ripple"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in BY_DAY else [pytest.mark.slow]) for n in RUNS])
def test_every_pane_of_the_samples(name, capsys):
    main, kernel = RUNS[name]
    qd.init(arch=qd.cpu)
    token = KEEPS_LAST.set(True)  # fields and objects of a sample end with its `main`
    try:
        main()
    finally:
        KEEPS_LAST.reset(token)
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
        assert not any("pane failed" in html or "nothing is known" in html for html in found.values())
        assert "this pane failed" not in static_html(shown)
        assert kernel.name in Inspection(shown).text()
    recorded = next(k for k in view.kernels if k.name == kernel.name)
    assert {"forward", "gradient"} <= set(recorded.traces)
    for s in recorded.stacks:
        known = s.size and (s.size.text if s.size.value is None else str(s.size.value))  # a constant is its own text
        assert known in (None, str(s.depth))
