"""Matrix algebra forward beside the peer (the pip package `quadrants`, as a black box): the kernels of test_linalg."""

from __future__ import annotations

import json

import numpy as np
import pytest
from child import run
from conftest import peer_python
from test_factorisations import polar, spd
from test_linalg import CASES, V2, V3, launch, text_of, wide

MORE = {
    "polar2": ("a: qd.polar_decompose(a)", polar, [wide(2)]),
    "polar3": ("a: qd.polar_decompose(a)", polar, [wide(3)]),
    "spd3": ("a: qd.make_spd(a + a.transpose())", lambda a: spd(a + a.T), [wide(3)]),
    "eigenvalues4": ("a: qd.sym_eig(a + a.transpose())[0]", lambda a: np.linalg.eigvalsh(a + a.T), [wide(4)]),
    "normalized_zeros": ("a: (0.0 * a).normalized()", lambda a: 0 * a, [V3]),
    "row_slice": ("a: a[1, :]", lambda a: a[1], [wide(2)]),
    "bits": ("a: qd.Vector([qd.math.ffs(12), qd.math.popcnt(7)]) * a", lambda a: np.array([3, 3]) * a, [V2]),
}
REFUSED = {"solve5": "the peer solves systems of 2 and 3 rows"}
LOOSE = {"atan2": 1e-6}  # the peer's has the precision of f32

SCRIPT = """
import os, sys, json, linecache
answers = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
import numpy as np, quadrants as qd
qd.init(arch=qd.cpu, default_fp=qd.f64, log_level=qd.ERROR, offline_cache=False)

def element(shape, count):
    if not shape:
        return qd.field(qd.f64, shape=count)
    home = (qd.Vector, qd.Matrix)[len(shape) - 1]
    return home.field(*shape, qd.f64, shape=count)

for number, job in enumerate(json.load(sys.stdin)):
    space = {"qd": qd}
    xs = [np.array(x) for x in job["inputs"]]
    for k, x in enumerate(xs):
        space[f"x{k}"] = f = element(x.shape[1:], len(x))
        f.from_numpy(x)
    for k, s in enumerate(job["outs"]):
        space[f"y{k}"] = element(s, len(xs[0]))
    name = f"<job {number}>"
    linecache.cache[name] = (len(job["text"]), None, job["text"].splitlines(True), name)
    try:
        exec(compile(job["text"], name, "exec"), space)
        space["f"] = qd.func(space["f"])
        qd.kernel(space["kernel"])()
        out = [space[f"y{k}"].to_numpy().tolist() for k in range(len(job["outs"]))]
    except Exception as e:
        out = f"{type(e).__name__}: {e}"[-300:]
    answers.write(json.dumps(out) + "\\n"); answers.flush()
"""


def jobs():
    for name, (fn, meaning, inputs) in {**CASES, **MORE}.items():
        first = meaning(*(a[0] for a in inputs))
        outs = [list(np.shape(p)) for p in (first if isinstance(first, tuple) else (first,))]
        text = text_of(fn, len(inputs[0]), len(inputs), len(outs))
        yield name, {"text": text, "inputs": [a.tolist() for a in inputs], "outs": outs}, (fn, inputs, outs)


@pytest.mark.slow  # numpy judges the same functions by day
@pytest.mark.peer
def test_values_are_the_peers():
    python = peer_python()
    if not python:
        pytest.skip("the peer is not installed")
    names, asked, ours = zip(*jobs(), strict=True)
    done = run(python, "-c", SCRIPT, given=json.dumps(asked), status=None)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(names), done.stderr[-2000:]
    wrong = {}
    for name, theirs, (fn, inputs, outs) in zip(names, answers, ours, strict=True):
        if isinstance(theirs, str):
            if name not in REFUSED:
                wrong[name] = theirs
            continue
        got, _ = launch(fn, inputs, [tuple(s) for s in outs])
        for a, b in zip(got, theirs, strict=True):
            tol = LOOSE.get(name, 1e-9)
            if not np.allclose(a, np.array(b), rtol=tol, atol=tol):
                wrong[name] = f"{a} is not {b}"
    assert not wrong, wrong
