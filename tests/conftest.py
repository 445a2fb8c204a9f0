"""Fixtures and hooks of all tests: markers for system packages and the peer, golden files, hypothesis profiles."""

import gc
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
# Pytest rewrites assertions in test files only; this does the same for the modules that tests share.
SHARED = [p.relative_to(TESTS) for p in TESTS.rglob("*.py") if not p.name.startswith(("test_", "conftest"))]
pytest.register_assert_rewrite(*(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in SHARED))

from child import interruptible, run  # noqa: E402  # after the rewriting, which covers them
from once import Once  # noqa: E402

interruptible()
os.environ.setdefault("PYTHONWARNINGS", "ignore:warning[QL2134]")  # in children: a driver has a fault
gc.disable()  # until there is something to collect

# The same examples in every run of `make test`, new ones and more in `make nightly`.
settings.register_profile(
    "default", deadline=None, max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "nightly", parent=settings.get_profile("default"), max_examples=1000, derandomize=False, print_blob=True
)
settings.load_profile("nightly" if os.environ.get("QL_NIGHTLY") else "default")


def _any_program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _vulkan_icd() -> bool:
    return any(Path(d).glob("*.json") for d in ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d") if Path(d).is_dir())


def _linker_for_amd() -> bool:
    from quadrants_lab.backends.amdgpu import toolkit

    return not toolkit.missing_linker()


SYSTEM: dict[str, Callable[[], bool]] = {
    "spirv-val": _any_program("spirv-val"),
    "ld.lld": _linker_for_amd,
    "clang-19": _any_program("clang-19"),
    "chromium": _any_program("chromium", "chromium-browser", "google-chrome"),
    "vulkan": _vulkan_icd,
    "node": _any_program("node"),
}


@cache
def the_peer() -> tuple[str, str]:
    """The interpreter that can import the peer, QL_PEER_PYTHON, else .venv-peer, else this one, and the peer's version;
    twice "" when none can."""
    here = sys.executable if importlib.util.find_spec("quadrants") else ""
    for path in (os.environ.get("QL_PEER_PYTHON", ""), str(ROOT / ".venv-peer" / "bin" / "python"), here):
        if path and Path(path).exists():
            done = run(path, "-c", "import importlib.metadata as m; print(m.version('quadrants'))", status=None)
            if done.returncode == 0:
                return path, done.stdout.strip()
    return "", ""


def peer_python() -> str:
    return the_peer()[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected output of golden tests")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path == TESTS / "notebook" and not importlib.util.find_spec("IPython") else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not importlib.util.find_spec("IPython"):
        terminalreporter.write_line("not collected: tests/notebook (IPython is not installed)")


def pytest_pycollect_makeitem(name: str, obj: object) -> list[pytest.Item] | None:
    """A test marked slow is not collected at all by day."""
    by_night = name.startswith("test_") and any(mark.name == "slow" for mark in getattr(obj, "pytestmark", ()))
    return [] if by_night and not os.environ.get("QL_NIGHTLY") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects slow parameters by day, and devices whose turn it is not, instead of skipping thousands of tests one by
    one. Tests that the command line names have no turns, and with QL_ALL_DEVICES (`tests/mutations.py`) none has."""
    if not os.environ.get("QL_NIGHTLY"):
        named = "QL_ALL_DEVICES" in os.environ or any("::" in argument for argument in config.args)
        today = [
            item for item in items
            if not item.get_closest_marker("slow") and (named or _has_its_turn(item, config.option.keyword))
        ]  # fmt: skip
        chosen = set(today)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = today


def _has_its_turn(item: pytest.Item, keyword: str) -> bool:
    """Whether its device is the one that this test has by day (`sessions.in_turn`), or is asked for by ``-k``."""
    mark = item.get_closest_marker("in_turn")
    if mark is None or mark.args[0] in keyword:
        return True
    device, devices = mark.args
    others = "-".join(part for part in item.callspec.id.split("-") if part != device)
    of = f"{item.path.name} {item.originalname} {others}"
    return bool(devices[crc32(of.encode()) % len(devices)] == device)


def pytest_collection_finish() -> None:
    """The half million objects that exist now stay, so the collector skips them from here on."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def collected_once() -> None:
    """The collector skips what earlier modules left, of which there is more than of what a test makes."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if not SYSTEM[name]():
                if os.environ.get("QL_REQUIRE_ALL"):
                    pytest.fail(f"system package missing: {name}", pytrace=False)
                pytest.skip(f"system package missing: {name}")
    if item.get_closest_marker("peer") and not peer_python():
        pytest.skip("the peer (pip package quadrants) is not installed")


@pytest.fixture(autouse=True, scope="session")
def valid_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """LLVM compiles each text once for a run. Each SPIR-V module that a test loads is checked by spirv-val, where that
    is installed."""
    from quadrants_lab.backends.cpu import jit
    from quadrants_lab.backends.vulkan import executable as vulkan

    jit.runtime()  # so that no test finds its object in its cache
    base = tmp_path_factory.getbasetemp()
    once = Once((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once")
    compile, emit = jit.compiled, vulkan.emit

    def compiled(text: str, *how: bool) -> bytes:
        def make() -> bytes:
            jit.parse(text).verify()
            return compile(text, *how)

        return once(make, jit.target_key(), str(how), text)

    def checked_module(kernel: Any, options: Any, target: Any) -> bytes:
        code = emit(kernel, options, target)

        def check() -> bytes:
            done = run("spirv-val", "--target-env", "vulkan1.2", "-", given=code, status=None)
            if done.returncode:
                pytest.fail(f"kernel {kernel.name}: {done.output}", pytrace=False)
            return b""

        if SYSTEM["spirv-val"]():
            once(check, "module", code)
        return code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "compiled", compiled)
        patch.setattr(vulkan, "emit", checked_module)
        yield


@pytest.fixture(autouse=True, scope="session")
def compiled_each_time(pytestconfig: pytest.Config) -> Iterator[None]:
    """Kernels are not loaded from disk as IR, except in tests and runs about just that."""
    from quadrants_lab.backends import disk_cache

    with pytest.MonkeyPatch.context() as patch:
        if not pytestconfig.pluginmanager.has_plugin("plugins.compare_cached"):
            patch.setattr(disk_cache, "of_ir", str)
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """``golden(path, text)``: the file at ``path`` holds exactly ``text``; rewritten under --update-golden."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest --update-golden and read what it writes"
        assert text == path.read_text()

    return check


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Answers of the peer, kept until ``pytest --cache-clear``, because the peer does not change."""
    cache = getattr(request.config, "cache", None)
    return Once(cache.mkdir("kept") if cache else tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def peer(kept: Once) -> Iterator[object]:
    """A peer process that runs one program after another (`peer.process.Peer`)."""
    from peer.process import Peer

    process = Peer(kept)
    yield process
    process.end()
