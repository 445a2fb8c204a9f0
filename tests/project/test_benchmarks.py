"""The race runs: both engines answer, agree on the value, and the report is written."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from child import run
from conftest import ROOT, peer_python

from benchmarks import document
from benchmarks.race import Row


def bench(out: Path, only: str) -> dict[str, list[dict[str, object]]]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", only, "--out", str(out)]
    run(*command, cwd=ROOT, env={"QL_PEER_PYTHON": peer_python()})
    report: dict[str, list[dict[str, object]]] = json.loads((out / "bench.json").read_text())
    return report


@pytest.mark.peer
def test_a_case_is_raced_and_the_engines_agree(tmp_path: Path) -> None:
    (row,) = bench(tmp_path, "launch: 2 scalars")["rows"]
    assert row["values"] == {"quadrants_lab": 1.5, "quadrants": 1.5}
    assert row["errors"] == {}
    assert {k: len(v) for k, v in row["samples"].items()} == {"quadrants_lab": 3, "quadrants": 3}  # type: ignore[attr-defined]
    assert isinstance(row["ratio"], float)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured through /proc")
def test_stack_bytes_are_as_reported() -> None:
    """A sine keeps one value a trip and no adjoint, and the process grows by just that."""
    env = {"QL_ENGINE": "quadrants_lab", "QL_BENCH_CACHE": os.devnull}
    done = run(sys.executable, "-m", "benchmarks.worker", "stacks", "1 carried, f32", cwd=ROOT, env=env)
    found = json.loads(done.stdout)
    assert found["reported"] == 1_000_000 * 4
    assert found["reported"] <= found["bytes"] < found["reported"] + 100_000


@pytest.mark.peer
def test_the_race_on_a_gpu_runs_on_the_cpu_where_there_is_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.cuda", "--quick", "--only", "two loops, graph", "--out", str(tmp_path)]
    done = run(*command, cwd=ROOT, env={"QL_PEER_PYTHON": peer_python()})
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| two loops, graph=True, 100 in a row")]
    ratio = row.strip("| ").split(" | ")[-1]
    assert float(ratio) > 0


def test_compile_time_over_size_is_measured() -> None:
    env = {"QL_ENGINE": "quadrants_lab", "QL_BENCH_CACHE": os.devnull}
    done = run(sys.executable, "-m", "benchmarks.worker", "sizes", "elifs 200", cwd=ROOT, env=env)
    found = json.loads(done.stdout)
    assert set(found) == {"forward", "gradient"}
    assert min(found.values()) > 0


def test_a_row_that_became_worse_is_named() -> None:
    before = document.recorded(document.PATH)
    assert len(before) > 50
    name, was = next((name, r) for (group, name), r in before.items() if group == "Launch")
    row, other = Row("launch", name), Row("launch", "no such row")
    assert document.worse([row, other], [was * 0.95, 0.1], before) == []
    (said,) = document.worse([row], [was * 0.85], before)
    assert said.startswith(f"launch: {name}: {was * 0.85:.2f} times the peer's speed")


def test_what_compilers_say_of_a_kernel_for_gpus(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.devices", "--only", "sin, f32", "--out", str(tmp_path)]
    said = run(*command, cwd=ROOT, env={"COLUMNS": "200"}).stdout
    rows = [line for line in said.splitlines() if line.startswith("│ loop: sin, f32")]
    cell = r"│ +[\d,]+; \d+ VGPRs, \d+ SGPRs; {} "
    for row, mode in zip(rows, ("forward", "gradient"), strict=True):
        assert re.match(rf"│ loop: sin, f32, {mode} +{cell.format(8)}{cell.format(16)}", row)
