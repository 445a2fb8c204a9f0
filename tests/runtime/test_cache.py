"""The disk cache: what is found again, what is not, and what damage does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import quadrants_lab as qd
from quadrants_lab.runtime import cache
from quadrants_lab.runtime.cache import SUFFIX, DiskCache


def test_bytes_come_back(tmp_path) -> None:
    store = DiskCache(tmp_path / "deep" / "folder", 1 << 20)
    assert store.get("a") is None
    store.put("a", b"code")
    assert store.get("a") == b"code"
    assert not [f for f in os.listdir(store.folder) if f.endswith(".tmp")]


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"?", lambda b: b"XXXX" + b[4:]]
)
def test_damaged_files_are_absent(tmp_path, damage) -> None:
    store = DiskCache(tmp_path, 1 << 20)
    store.put("a", b"code")
    path = tmp_path / ("a" + SUFFIX)
    path.write_bytes(damage(path.read_bytes()))
    assert store.get("a") is None
    store.put("a", b"new")
    assert store.get("a") == b"new"


def test_the_oldest_go_when_it_is_full(tmp_path) -> None:
    store = DiskCache(tmp_path, 1000)
    for n in range(10):
        store.put(str(n), bytes(150))
        os.utime(tmp_path / (str(n) + SUFFIX), (n, n))
    store.put("last", bytes(150))
    left = {f.removesuffix(SUFFIX) for f in os.listdir(tmp_path)}
    assert "last" in left
    assert "0" not in left
    assert sum(f.stat().st_size for f in os.scandir(tmp_path)) <= 1000


def test_a_folder_that_cannot_be_used_is_empty(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    store = DiskCache(tmp_path / "file" / "below", 1000)
    store.put("a", b"code")
    assert store.get("a") is None


def test_keys_depend_on_every_part_and_on_where_it_ends() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc")
    assert cache.key("a") == cache.key("a")


@qd.kernel
def kernel(x: qd.template(), n: qd.i32):
    for i in x:
        for _ in range(n):
            x[i] = x[i] * 2.0


def test_kernels_are_found_again_and_options_make_others(tmp_path, monkeypatch) -> None:
    def launch(**options) -> float:
        qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path), **options)
        x = qd.field(qd.f32, 2)
        x.fill(1)
        kernel(x, 3)
        return x[0]

    assert launch() == 8
    assert len(os.listdir(tmp_path)) == 1
    import quadrants_lab.backends.cpu.executable as executable

    with monkeypatch.context() as m:
        m.setattr(executable, "compile_object", lambda *a: pytest.fail("compiled again"))
        assert launch() == 8
    assert launch(fast_math=False) == 8
    assert len(os.listdir(tmp_path)) == 2
    for f in os.scandir(tmp_path):
        with open(f.path, "wb") as out:
            out.write(b"damaged")
    assert launch() == 8


def test_offline_cache_off_writes_nothing(tmp_path) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, offline_cache_file_path=str(tmp_path))
    kernel(qd.field(qd.f32, 2), 1)
    assert os.listdir(tmp_path) == []


def test_the_environment_names_the_folder(tmp_path) -> None:
    code = "from quadrants_lab.runtime.cache import default_path; print(default_path())"
    env = {**os.environ, "QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, text=True, capture_output=True)
    assert done.stdout.strip() == str(tmp_path), done.stderr
