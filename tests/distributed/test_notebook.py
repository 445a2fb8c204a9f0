"""Shards in a notebook: their progress, and data that they share out."""

import math
from typing import Any

import numpy as np
import pytest
from programs import distributed as programs

import quadrants_lab as qd
from quadrants_lab.distributed import map_gradients
from quadrants_lab.notebook import shards, split

SQUARES = np.arange(1.0, 5.0)


def test_progress_draws_each_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(shards.Live, "_draw", lambda self: drawn.append(self._repr_html_()))
    qd.init(arch=qd.cpu)
    live = shards.Live(3, pause=-1.0)
    map_gradients(programs.asserts, SQUARES, [0, 1, 2], client=False, progress=live)
    assert [picture.count("<circle") for picture in drawn] == [1, 2, 3]
    assert repr(live) == f"3 of 3 shards, mean loss {14 / 3:.6g}"
    live(1, math.nan)
    assert drawn[-1].count("<circle") == 2


@pytest.mark.parametrize("data", [3, np.zeros(()), np.zeros(3), (np.zeros(4), np.zeros(5)), ()])
def test_data_that_cannot_be_cut(data: Any) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2213.*cuts arrays of 4 elements or more"):
        split.split(data, 4)
