"""The samples of tests/samples: what each of them returns, on every backend, against numpy and against the peer.

A sample is a module. ``make(qd)`` returns ``run``, and ``run()`` returns arrays by name; ``qd`` is quadrants_lab or the
peer. The peer says what is right; ``expected()``, where a few lines tell or the peer refuses, returns some of the
arrays by other means, up to EXPECTED. Backends that compute in f32 agree up to SINGLE, and integers are the same.
``PARAMS`` are arguments of ``run`` in a sample of derivatives, whose results are ``loss`` and ``NAME.grad``. ``NEEDS``
are packages that it imports beside.
"""

import importlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import child
import numpy as np
import pytest
from conftest import TESTS, peer_python, the_peer
from once import Once
from running import WAYS, f64, spread

import quadrants_lab as qd

Values = dict[str, np.ndarray]
HERE = TESTS / "samples"
SUMS = HERE / "samples.json"  # of the arrays of each sample, on the CPU in f64

# sample -> why the peer is not asked
REFUSED = {
    "diff_articulated": "block.sync is not supported for its CPU",
    **dict.fromkeys(("hash_grid", "splatting"), "its environment has no torch"),
}
# sample -> how far the peer's values may be off, and why
ROUNDED = dict.fromkeys(("four_materials", "plasticine_tool"), (1e-4, "its svd is as exact as f32"))


@dataclass(frozen=True)
class Sample:
    name: str

    @property
    def module(self) -> Any:
        return importlib.import_module(f"samples.{self.name}")

    def option(self, name: str, default: Any) -> Any:
        return getattr(self.module, name, default)

    def values(self, arch: str, fp: Any) -> Values:
        """The arrays that the sample returns in a session of its own."""
        return self.made(arch, fp)(**self.option("PARAMS", {}))

    def made(self, arch: str, fp: Any) -> Callable[..., Values]:
        """What runs it, in a session of its own, with any parameters."""
        for package in self.option("NEEDS", ()):
            pytest.importorskip(package)
        qd.init(arch=getattr(qd, arch), default_fp=fp, enable_fallback=False, simulate=True, offline_cache=False)
        run = self.module.make(qd)
        return lambda **params: {name: np.array(a) for name, a in run(**params).items()}


SAMPLES = [Sample(path.stem) for path in sorted(HERE.glob("*.py"))]
DERIVATIVES = [s for s in SAMPLES if s.option("PARAMS", {})]
LEARNERS = [s for s in SAMPLES if s.option("learn", None)]
# whose gradient takes the peer seconds to compile
LONG = [Sample(name) for name in ("arm_contact", "four_materials", "plasticine_tool", "porous_flow")]
SHORT = [s for s in SAMPLES if s not in LONG and s.name not in REFUSED]


@cache
def right(sample: Sample) -> Values:
    """The results on the CPU in f64."""
    return sample.values("cpu", f64)


def close(ours: Values, theirs: Values, tol: float) -> Iterator[str]:
    """In words, which reals are apart by more than ``tol`` of the greatest of their array and 1, or integers at all."""
    for name, want in theirs.items():
        got, want = ours[name], np.asarray(want)
        assert got.shape == want.shape, name
        assert np.isfinite(got).all(), name
        off = np.abs(got.astype(np.float64) - want).max(initial=0.0)
        scale = max(1.0, np.abs(want).max(initial=0.0)) if want.dtype.kind == "f" else 0.0
        if off > tol * scale:
            yield f"{name} is off by {off:.3g}"


def summed(a: np.ndarray) -> list[float]:
    """Two sums of the elements, weighted at random."""
    return list(np.random.default_rng(1).uniform(0.5, 1.5, (2, a.size)) @ a.ravel())


def test_sums_are_those_of_the_samples(golden: Callable[[Path, str], None], pytestconfig: pytest.Config) -> None:
    """`test_values` compares the numbers; this writes them."""
    if pytestconfig.getoption("--update-golden"):
        found = {s.name: {name: summed(a) for name, a in right(s).items()} for s in SAMPLES}
        golden(SUMS, "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
    assert [*json.loads(SUMS.read_text())] == [s.name for s in SAMPLES]


@spread(SAMPLES, WAYS)
def test_values(program: Sample, arch: str, fp: Any, pytestconfig: pytest.Config) -> None:
    got = right(program) if (arch, fp) == ("cpu", f64) else program.values(arch, fp)
    single = program.option("SINGLE", 1e-3)
    assert not list(close(got, right(program), 1e-9 if fp is f64 else single))
    if (arch, fp) == ("cpu", f64) and not pytestconfig.getoption("--update-golden"):
        sums = json.loads(SUMS.read_text())[program.name]
        assert got.keys() == sums.keys()
        assert all(np.allclose(summed(a), sums[name], 1e-9, 1e-9 * np.abs(a).sum()) for name, a in got.items())
    if hasattr(program.module, "expected"):
        tol = program.option("EXPECTED", 1e-9)
        assert not list(close(got, program.module.expected(), tol if fp is f64 else max(tol, single)))


@pytest.mark.parametrize("sample", [pytest.param(s, id=s.name) for s in DERIVATIVES])
def test_gradients_are_slopes(sample: Sample) -> None:
    """Along a direction a parameter, against the difference of the loss in f64."""
    params, rng, h = sample.module.PARAMS, np.random.default_rng(7), 1e-5
    gradients, run = right(sample), sample.made("cpu", f64)
    for name, value in params.items():
        way = rng.uniform(-1.0, 1.0, np.shape(value))
        sides = [run(**{**params, name: value + side * h * way})["loss"] for side in (1, -1)]
        slope, ours = (sides[0] - sides[1]) / (2 * h), (gradients[f"{name}.grad"] * way).sum()
        assert abs(slope - ours) <= 1e-6 * max(1.0, abs(slope)), f"{name}: {ours} is not {slope}"
        assert abs(slope) > 1e-6, f"{name} does not matter"


@pytest.mark.parametrize("sample", [pytest.param(s, id=s.name) for s in LEARNERS])
def test_optimisers_go_downhill(sample: Sample) -> None:
    """``learn(qd)`` returns the losses."""
    qd.init(arch=qd.cpu, default_fp=f64, offline_cache=False)
    losses = sample.module.learn(qd)
    assert losses[-1] < 0.8 * losses[0], losses


@pytest.mark.peer
@pytest.mark.parametrize(
    "some",
    [pytest.param(SHORT[::4], id="day"), pytest.param([*SHORT, *LONG], id="all", marks=pytest.mark.slow)],
)
def test_values_are_the_peers(some: list[Sample], tmp_path: Path, kept: Once) -> None:
    """The values alone: gradients are settled by mathematics."""
    program, answers = TESTS / "peer" / "run_samples.py", tmp_path / "answers.npz"
    def ask() -> bytes:
        child.run(peer_python(), program, answers, *[s.name for s in some], env={"PYTHONPATH": str(TESTS)})
        return answers.read_bytes()
    sources = [path.read_text() for path in (program, *(HERE / f"{s.name}.py" for s in some))]
    found, wrong = np.load(io.BytesIO(kept(ask, *the_peer(), *sources))), []
    for sample in some:
        its = {key.removeprefix(f"{sample.name}/"): key for key in found if key.startswith(f"{sample.name}/")}
        theirs = {name: found[key] for name, key in its.items() if not name.endswith(".grad")}
        assert theirs
        tol, _ = ROUNDED.get(sample.name, (1e-9, ""))
        wrong += [f"{sample.name}: {words}" for words in close(right(sample), theirs, tol)]
    assert not wrong, "\n".join(wrong)
