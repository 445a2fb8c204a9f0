"""Gradients of every program by the peer, beside the oracle's and ours.

``make peer-gradients`` writes the table of those that differ into docs/peer_gradients.md. The judge is the oracle
(tests/oracle): a float64 tape over the kernel's Python source that shares no code with either compiler.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import numpy as np  # noqa: E402
from oracle import Outcome  # noqa: E402
from peer.process import Peer, request  # noqa: E402
from programs import PROGRAMS, Program  # noqa: E402
from programs.seeded import SEEDED  # noqa: E402
from running import Bench, differences, f64, job_of  # noqa: E402

DOCUMENT = ROOT / "docs" / "peer_gradients.md"
BEGIN, END = "<!-- make peer-gradients writes from here -->", "<!-- to here -->"
TOLERANCE = 1e-9  # of the summed absolute contributions
COARSE = 1e-6  # what is wrong by less is a matter of precision

ALL = {name: p for name, p in {**PROGRAMS, **SEEDED}.items() if p.grad}


class Row(NamedTuple):
    """A row of the table. ``kind``: a key of `SAYS`; ``words``: how; ``right``: whose gradient is right."""

    program: str
    file: str
    kind: str
    words: str
    right: str


def row(program: Program, peer: Peer) -> Row | None:
    """The row of a program in the table; None if the peer's gradients are the oracle's."""
    kind, words = _launched(program, peer)
    if kind not in ("", "refused") and len(program.cases) > 1:  # is it the program, or that it was launched before?
        alone = _launched(program, peer, apart=True)
        kind, words = alone if alone[0] else ("relaunched", words)
    if not kind:
        return None
    seeded = program.name in SEEDED
    path = Path(inspect.getfile(program.fn)).resolve()
    file = "tests/programs/seeded.py" if seeded else path.relative_to(ROOT).as_posix()
    return Row(program.name, file, kind, words, _ours(program))


def _launched(program: Program, peer: Peer, apart: bool = False) -> tuple[str, str]:
    """Kind and words for all cases of the program, launched one after the other, or ``apart``: each with fields and a
    kernel of its own. ("", "") where they are right."""
    answer = peer.ask({**request(program, gradient=True), "apart": apart})
    if refused := answer.get("refused", ""):
        return "crashed" if refused in ("the process ended", "hangs") else "refused", _short(refused)
    by_case = [_worst(program, c, a) for c, a in zip(program.cases, answer["cases"], strict=True)]
    error, words = max(by_case, key=lambda w: w[0])
    if error <= TOLERANCE:
        return "", ""
    return "kink" if program.exact else "imprecise" if error < COARSE else "wrong", words


def _worst(program: Program, case: dict[str, Any], answer: dict[str, Any]) -> tuple[float, str]:
    """The greatest error of a gradient of one launch, relative to the summed absolute contributions, and in words."""
    outcome: Outcome = job_of(program, case).oracle()
    worst = (0.0, "")
    for name, want in outcome.grads.items():
        have = np.asarray(answer["values"][f"{name}.grad"], np.float64)
        error = np.abs(have - want) / (outcome.scales[name] + 1e-3)
        error = np.where(np.isfinite(error), error, np.inf)
        at = np.unravel_index(int(np.argmax(error)), error.shape) if error.size else ()
        if error.size and error[at] > worst[0]:
            place = f"[{', '.join(map(str, at))}]" if at else "[None]"
            where = ", ".join(f"{k} = {np.asarray(v).tolist()}" for k, v in case.items() if np.ndim(v) == 0)
            words = f"`{name}.grad{place}` is {have[at]:.6g} where {want[at]:.6g} is right"
            worst = float(error[at]), words + (f" ({where})" if where else "")
    return worst


def _ours(program: Program) -> str:
    """"ours" where our gradients are the oracle's in every case, else "neither"."""
    bench = Bench(f64)
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job)
        if differences(job, job.oracle(), got, TOLERANCE, gradient=True):
            return "neither"
    return "ours"


# what refusals of many lines are about, in their own words
TOPICS = (
    "Mixed usage of for-loops and statements without looping",
    "is unresolved after Bellman-Ford + structural pre-pass",
    "could not be resolved: the structural pre-pass detected a stash data-flow cycle",
    "Return inside non-static if/for is not supported",
    "Cross-iteration read-after-write",
)


def _short(refusal: str) -> str:
    """The peer's words on one line of a table."""
    found = next((words for words in TOPICS if words in refusal), "")
    first = refusal.strip().splitlines()[0] if refusal.strip() else ""
    plain = re.sub(r"\[\w+\.(?:cpp|h):\S+\]\s*", "", found or first)
    return re.sub(r"\$\d+|0x[0-9a-f]+", "…", plain).replace("|", "\\|")[:160]


SAYS = {
    "refused": "is refused",
    "crashed": "ends the process or hangs",
    "wrong": "is wrong",
    "relaunched": "is right at the first launch and wrong, or the process ends, at a later one with other trip counts",
    "imprecise": "has the precision of f32",
    "kink": "differs on a tie or kink, where the derivative is a convention",
}


def text(rows: list[Row], version: str) -> str:
    counts = {kind: sum(r.kind == kind for r in rows) for kind in SAYS}
    same = len(ALL) - len(rows)
    lines = [
        f"Quadrants {version}, {len(ALL)} programs, every case of each, f64 on the CPU.",
        f"The gradients agree to {TOLERANCE:g} of the summed absolute contributions in {same} programs.",
        "",
        "| The peer's gradient | Programs |",
        "|---|---:|",
        *(f"| {SAYS[kind]} | {n} |" for kind, n in counts.items() if n),
        "",
    ]
    for kind, n in counts.items():
        if n:
            lines += [f"## The peer's gradient {SAYS[kind]}", ""]
            lines += ["| Program | In | What the peer does | Right |", "|---|---|---|---|"]
            lines += [f"| {r.program} | `{r.file}` | {r.words} | {r.right} |" for r in rows if r.kind == kind]
            lines.append("")
    return "\n".join(lines)


def written() -> str:
    """The part of the document that `main` writes."""
    return DOCUMENT.read_text().split(BEGIN)[1].split(END)[0]


def committed() -> dict[str, str]:
    """Program -> kind, as the document has it."""
    found, kind = {}, ""
    for line in written().splitlines():
        if line.startswith("## "):
            kind = next(k for k, words in SAYS.items() if line.endswith(words))
        elif kind and (m := re.match(r"\| (\w+) \| `", line)):
            found[m[1]] = kind
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    peer = Peer()
    rows = []
    for k, program in enumerate(ALL.values()):
        found = row(program, peer)
        if found is not None:
            rows.append(found)
            print(f"{k + 1}/{len(ALL)} {found.program}: {found.kind}, {found.words}", flush=True)
    peer.end()
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text(rows, '1.3.3')}\n{END}{after}")


if __name__ == "__main__":
    main()
