"""Pages that compute: in a headless Chromium, from a file, what the reader's numbers give is what the oracle, numpy and
closed forms say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright")

from notebook.browser import CHROMIUM  # after the skip: it imports playwright
from playwright.sync_api import Browser, Page, sync_playwright
from programs import PROGRAMS
from running import Bench, differences, each, f64, job_of

from quadrants_lab.notebook.live_page import of_launches
from quadrants_lab.runtime.observe.observers import watch
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.widgets.live_page import machine

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]

COMPUTE = """({program, seeds}) => {
  const m = new Machine(program), out = m.compute({id: 1, values: {}, scalars: {}, seeds, eps: 0});
  return {returned: out.returned, depths: out.depths, values: program.arrays.map((_, n) => [...m.read(n)]),
    after: program.arrays.map((_, n) => [...(out.values[n] ?? m.arrays[n].start)])};
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def engine(chromium: Browser) -> Page:
    """A page with the machine alone."""
    page = chromium.new_page()
    page.add_script_tag(content=machine() + "\nObject.assign(window, {Machine, toHalf, fromHalf});")
    return page


# --- what it computes -----------------------------------------------------------------------------------------------


@each(PROGRAMS.values(), every=8)
def test_every_program_of_the_table(program: Any, engine: Page) -> None:
    """Values, gradients that add up to what was there, and returned values are the oracle's."""
    bench = Bench(f64)
    for case in program.cases:
        job = job_of(program, case)
        kernel, args, placed = bench.kernel(job)
        launches = Launches(repeatable=True)
        with watch(launches):
            kernel(*args)
        made = of_launches(launches, program.name)
        data = made.data()
        numbers = {name: made.numbers.get(f._memory.serial) for name, f in placed.items()}
        known = {k: n for k, n in numbers.items() if n is not None and data["arrays"][n]["grad"] >= 0}
        seeds = {n: np.ravel(job.seeds[k]).tolist() for k, n in known.items() if k in job.seeds}
        found = engine.evaluate(COMPUTE, {"program": json.loads(json.dumps(data)), "seeds": seeds})
        outcome = job.oracle()
        got = job.arrays(f64)
        for name, n in numbers.items():
            if n is not None:
                got[name] = np.reshape(found["after"][n], got[name].shape)
                if name in known and name in job.seeds and program.grad:
                    grad = data["arrays"][n]["grad"]
                    got[f"{name}.grad"] = np.reshape(found["values"][grad], got[name].shape)
        assert not differences(job, outcome, got, 1e-11, gradient=False), case
        if program.grad:
            assert not differences(job, outcome, got, 1e-11, gradient=True), case
        if outcome.returned is not None:
            np.testing.assert_allclose(np.squeeze(found["returned"]), outcome.returned, rtol=1e-11)
