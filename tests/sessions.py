"""Every backend as options of `qd.init`: parameters of fixtures that start a session."""

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from rigs import cuda_stand_in, hip_stand_in

import quadrants_lab as qd
from quadrants_lab.runtime.backend import backend

cuda_stand_in.install()
hip_stand_in.install()

NIGHT = bool(os.environ.get("QL_NIGHTLY"))
_HOW: dict[str, Any] = {"simulate": True, "enable_fallback": False, "offline_cache": False}


def why_not(arch: str) -> str:
    """Why tests on a backend are skipped here, or ""; with QL_REQUIRE_ALL, as in CI, nothing is skipped."""
    module: Any = backend(arch)
    reason: str = module.probe()
    if reason and hasattr(module, "probe_simulation"):
        reason = module.probe_simulation()
    if arch == "vulkan" and not reason:
        from quadrants_lab.backends.vulkan import api, device

        if api.choose().runs_both_arms:  # it is told once a process: not in a test of warnings
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                device.tell_of_both_arms(api.choose().name)
    return "" if os.environ.get("QL_REQUIRE_ALL") else reason


def skip_where_both_arms_run(arch: str) -> None:
    """Skips on llvmpipe of Mesa 26: where all threads take one arm of an if, as in `if k < 10: y[0] = x[k]` with an
    else, it also runs the loads of the other, and outside of memory the process ends. QL2134 tells the user."""
    if arch == "vulkan":
        from quadrants_lab.backends.vulkan import api

        if api.choose().runs_both_arms:
            pytest.skip("this driver runs loads of arms that are not taken (QL2134)")


def skips(arch: str) -> list[Any]:
    """Marks of a parameter that needs a backend. AMDGPU on its stand-in runs by night only: the host's side is that of
    CUDA, and AMDGPU has tests of its own by day."""
    reason = why_not(arch)
    by_night = arch == "amdgpu" and backend(arch).probe()
    marks = [pytest.mark.slow] if by_night else []
    return [*marks, pytest.mark.skip(reason=reason)] if reason else marks


def sessions(*archs: str) -> list[Any]:
    """A parameter a backend: options of `qd.init`."""
    return [pytest.param({**_HOW, "arch": arch}, id=arch, marks=skips(arch)) for arch in archs]


def by_night(params: list[Any]) -> list[Any]:
    return [pytest.param(*p.values, id=p.id, marks=[*p.marks, pytest.mark.slow]) for p in params]


def in_turn(params: list[Any], among: tuple[str, ...] = ("cuda", "vulkan", "metal", "wasm")) -> list[Any]:
    """By day each test runs on one of the devices ``among`` the parameters, in turn; a real GPU is no stand-in and has
    no turns. `tests/conftest.py` reads the marks."""
    no_gpu = "QL_NO_STAND_IN" not in os.environ
    turns = [p.id for p in params if p.id in among and not p.marks]
    turns = [arch for arch in turns if no_gpu and (arch in ("c", "cpu", "vulkan", "wasm") or backend(arch).probe())]
    mark = lambda p: [pytest.mark.in_turn(p.id, tuple(turns))] if p.id in turns else []
    return [pytest.param(*p.values, id=p.id, marks=[*p.marks, *mark(p)]) for p in params]


# C shares everything but its emitter with the CPU, and the emitter has tests of its own by day
ALL_AT_ONCE = [*sessions("cpu", "cuda", "vulkan", "metal", "amdgpu", "wasm"), *by_night(sessions("c"))]
EVERYWHERE = in_turn(ALL_AT_ONCE)
WITH_F64 = in_turn([*sessions("cpu", "cuda", "vulkan", "amdgpu", "wasm"), *by_night(sessions("c"))])
# these replace the parameters of a fixture `session` for single tests
NEEDS_F64 = pytest.mark.parametrize("session", WITH_F64, indirect=True)
CPU_ALONE = pytest.mark.parametrize("session", sessions("cpu"), indirect=True)


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """In files that import it, the session that a test began does not outlive it."""
    yield
    qd.reset()


def session_of(params: list[Any], *, autouse: bool = True, **options: Any) -> Any:
    """Makes a fixture, to be named ``session``, that runs each test in a session of each parameter; its value is
    the backend."""

    @pytest.fixture(autouse=autouse, params=params)
    def session(request: pytest.FixtureRequest) -> Iterator[str]:
        qd.init(**request.param, **options)
        yield request.param["arch"]
        qd.reset()

    return session
