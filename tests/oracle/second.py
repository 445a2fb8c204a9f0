"""Second derivatives of a job by the gradient of its tangents, interpreted."""

from dataclasses import replace

import numpy as np
from running import Arrays, Interpreted, Job, f64

from oracle import Outcome
from oracle.tangents import OPTIONS
from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate
from quadrants_lab.autodiff.second import with_tangents
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.compile.compile import make_ir, tasks_ir
from quadrants_lab.runtime.compile.derivatives import counting_ir
from quadrants_lab.runtime.compile.specialisation import FORWARD, REVERSE
from quadrants_lab.runtime.interpret.interpreter import interpret


def hessian_vector(run: Interpreted, way: Arrays) -> tuple[Arrays, Arrays]:
    """(gradients, Hessian times ``way``) of the sum of the job's results, weighted by its seeds; by the job's names."""
    job = run.job
    made = with_tangents(run.forward[0].kernel, adjoints=True)
    forward, reverse = make_ir(made, FORWARD, OPTIONS), make_ir(made, REVERSE, OPTIONS)
    counting = counting_ir(reverse, tasks_ir(made, OPTIONS), OPTIONS)
    arrays = job.arrays(f64)
    found = {name: np.zeros_like(job.floats[name]) for name in job.grads}
    named = {buffer: arrays[name] for buffer, name in run.names.items() if name in arrays}
    for buffer, name in run.names.items():
        if made.buffers[buffer].dual:
            named[f"{buffer}.tangent"] = np.array(way[name])
            named[made.buffers[buffer].grad] = found[name]
    named |= interpret(forward, job.scalars, named).scratch
    counted = {} if counting is None else interpret(counting, job.scalars, named).rets
    depths = {int(name.removeprefix("depth")): int(n) for name, n in counted.items()}
    live = LiveData(dict(job.scalars), named)
    stacks = [s for s in walk(reverse.body) if isinstance(s, N.AdStackAlloca)]
    interpret(reverse, job.scalars, named, caps={s.id: evaluate(s.size, live, depths) for s in stacks})
    return {name: arrays[f"{name}.grad"] for name in job.grads}, found


def ways_of(job: Job) -> list[Arrays]:
    """Two directions."""
    rng = np.random.default_rng(7)
    return [{name: rng.uniform(-1, 1, job.floats[name].shape) for name in job.grads} for _ in range(2)]


def moved(job: Job, way: Arrays, h: float) -> Outcome:
    """The oracle's result at inputs that are moved by ``h`` along ``way``."""
    floats = {name: a + h * way[name] if name in way else a for name, a in job.floats.items()}
    return replace(job, floats=floats).oracle()


def disagreement(run: Interpreted, outcome: Outcome, step: float = 1e-5, tol: float = 1e-6) -> str:
    """"" where the gradients are the oracle's, the Hessian is symmetric, and its product with a direction is the
    central difference of the oracle's gradients to ``tol``; else what is wrong. A ``step`` of 0: no differences."""
    job, (v, w) = run.job, ways_of(run.job)
    gradients, along_v = hessian_vector(run, v)
    _, along_w = hessian_vector(run, w)
    for name in job.grads:
        if not (abs(gradients[name] - outcome.grads[name]) <= 1e-9 * (outcome.scales[name] + 1e-3)).all():
            return f"{name}.grad is {gradients[name]}, should be {outcome.grads[name]}"
    sizes = [abs(a[name]).max(initial=0) for a in (along_v, along_w, outcome.scales) for name in job.grads]
    scale = max(1.0, *sizes)
    crossed = [sum((a[name] * b[name]).sum() for name in job.grads) for a, b in ((along_v, w), (along_w, v))]
    if not abs(crossed[0] - crossed[1]) <= 1e-9 * scale:
        return f"w'Hv is {crossed[0]}, v'Hw is {crossed[1]}"
    if step:
        up, down = moved(job, v, step), moved(job, v, -step)
        for name in job.grads:
            want = (up.grads[name] - down.grads[name]) / (2 * step)
            if not (abs(along_v[name] - want) <= tol * max(scale, abs(want).max(initial=0))).all():
                return f"Hv of {name} is {along_v[name]}, differences of gradients are {want}"
    return ""
