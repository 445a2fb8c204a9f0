"""What a device does with each task of a kernel, in one sentence a task (`ir.traits.Scheduled`)."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.compile.compile import lowering_of
from quadrants_lab.runtime.launch.plan import Plan


def sentences(plan: Plan) -> list[tuple[str, str]]:
    """For each task of the code that the plan launched last: where it stands, and what the device does with it and
    why."""
    kernel, backend = plan.last_code[0], plan.session.backend
    steps = lowering_of(plan.compiled, kernel, plan.last_code[1], backend).steps
    scheduled = next((s.after for s in steps if s.name.endswith("schedule")), kernel)
    plain = "one thread, one iteration after the other" if backend.CAPABILITIES.on_host else "an iteration at a time"
    rows = enumerate(scheduled.tasks)
    return [(f"line {t.span.line}" if t.span else f"task {n}", _sentence(t, plain)) for n, t in rows]


def _sentence(task: N.Offload, plain: str) -> str:
    """``plain``: the sentence if the schedule says nothing. Only devices with lanes decide about grains."""
    if task.kind == "serial":
        return "one thread"
    reasons = [task.why] if task.why else []
    if not task.grain:
        lanes = 0 if "lanes" in task.why else task.lanes  # of a device without grains, which a reason is about
        asked = ", ".join(f"{name}={n}" for name, n in (("lanes", lanes), ("colours", task.colours)) if n)
        plain = "; ".join(reasons) or plain
        return f"{plain}; qd.loop_config({asked}) has no effect on this device" if asked else plain
    if task.wait:
        reasons.append("a group of iterations that would wait for few of them runs alone")
    if task.grain and not task.lanes:
        reasons.append("LLVM's vectors, if it finds that they pay" if task.vectorise else "one iteration at a time")
    if task.fission:
        reasons.append(f"each row in {task.fission} loops")
    if task.sums == "serial":
        reasons.append(f"one thread adds to {_names(task.copies)}")
    elif task.copies:
        reasons.append(f"each thread may add to a copy of {_names(task.copies)}")
    if task.aggregate:
        reasons.append(f"groups of {task.aggregate} iterations first test whether all add to one element")
    if task.shares:
        reasons.append(f"each thread reduces its share of {_names([name for name, _ in task.shares])}")
    if task.brief:
        reasons.append("the launch takes a few microseconds at most")
    elif task.timed:
        reasons.append("timing finds how many iterations a thread takes at a time")
    elif task.grain:
        reasons.append(f"a thread takes {task.grain} iterations or more")
    return "; ".join(reasons) or plain


def _names(buffers: tuple[str, ...] | list[str]) -> str:
    return ", ".join(buffers)
