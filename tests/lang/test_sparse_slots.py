"""Where elements of sparse layouts are found: neighbours in other cells, and cells that many threads write to first."""

import numpy as np
import pytest
from oracle.sparse import LAYOUTS, Layout
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)

STENCILS = {
    **{name: LAYOUTS[name] for name in ("pointer, dense", "pointer, pointer, dense", "cells with slots", "one axis")},
    "rows of whole cells": Layout(("pointer", "ij", (64, 16)), ("dense", "ij", (2, 16))),
    "pages": Layout(("pointer", "i", 1024), ("dense", "i", 2048)),
}


@pytest.mark.parametrize("name", STENCILS)
def test_neighbours_in_other_cells(name: str, session: str) -> None:
    """Along the last axis, which has a loop for the inside of a cell, in each way to stay within the field."""
    layout = STENCILS[name]
    n = layout.shape[-1]
    x, y, z, w = (qd.field(qd.f32) for _ in range(4))
    layout.place(qd, x, y, z, w)
    rng = np.random.default_rng(4)
    for k in range(40):
        at = rng.integers(0, layout.shape)
        x[(*at[:-1], at[-1] if k % 2 else rng.choice([0, 1, n - 2, n - 1]))] = rng.integers(1, 50)
    held = x.to_numpy()
    ndim = len(layout.shape)

    @qd.kernel
    def neighbours():
        for index in qd.grouped(x):
            k = index[ndim - 1]
            left, right = index, index
            left[ndim - 1], right[ndim - 1] = (k + n - 1) % n, (k + 1) % n
            y[index] = x[left] + 3.0 * x[right]
            left[ndim - 1], right[ndim - 1] = qd.max(k - 1, 0), qd.min(k + 1, n - 1)
            z[index] = x[left] + 3.0 * x[right]
            left[ndim - 1], right[ndim - 1] = k - 1, k + 1
            if 0 < k < n - 1:
                w[index] = x[left] + 3.0 * x[right]

    neighbours()
    k = np.arange(n)
    inside = lambda at: held[..., np.clip(at, 0, n - 1)]
    want = {
        y: held[..., k - 1] + 3 * held[..., (k + 1) % n],
        z: inside(k - 1) + 3 * inside(k + 1),
        w: np.where((k > 0) & (k < n - 1), inside(k - 1) + 3 * inside(k + 1), 0),
    }
    mask = np.zeros(layout.shape, bool)
    mask[x._active()] = True
    for field, found in want.items():
        assert (field.to_numpy() == np.where(mask, found, 0)).all()


@CPU_ALONE
def test_threads_that_write_to_one_cell_agree_on_its_slot(session: str) -> None:
    qd.init(arch=qd.cpu, cpu_max_num_threads=8)
    x = qd.field(qd.i32)
    node = qd.root.pointer(qd.ij, 64)
    node.dense(qd.ij, 8).place(x)
    rng = np.random.default_rng(6)
    at = (rng.integers(0, 64, (200, 2))[rng.integers(0, 200, 100_000)] * 8 + rng.integers(0, 8, (100_000, 2)))

    @qd.kernel
    def add(at: qd.types.ndarray(qd.i32, 2)):
        for k in range(at.shape[0]):
            x[at[k, 0], at[k, 1]] += k % 7 + 1

    want = np.zeros((512, 512), np.int32)
    np.add.at(want, (at[:, 0], at[:, 1]), np.arange(100_000) % 7 + 1)
    for _ in range(5):
        add(at.astype(np.int32))
        assert (x.to_numpy() == want).all()
        node.deactivate_all()


def test_indices_that_are_sums(session: str) -> None:
    x = qd.field(qd.i32)
    LAYOUTS["pointer, pointer, dense"].place(qd, x)  # 32^2 elements
    rng = np.random.default_rng(2)
    at = rng.integers(0, 16, (20, 2)).astype(np.int32)
    at[:, 1] = rng.permutation(16)[rng.integers(0, 16, 20)]

    @qd.kernel
    def write(at: qd.types.ndarray(qd.i32, 2)):
        for k in range(20):
            x[at[k, 0] // 2 * 2 + at[k, 1], k % 2 * 8 + at[k, 1]] += k + 1

    write(at)
    want = np.zeros((32, 32), int)
    for k, (a, b) in enumerate(at.tolist()):
        want[2 * (a // 2) + b, 8 * (k % 2) + b] += k + 1
    assert (x.to_numpy() == want).all()
