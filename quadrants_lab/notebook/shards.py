"""Shards of `map_gradients` in a notebook: how far they are, and the inspector of what one of them launched.

    map_gradients(fn, params, shards, progress=Live(len(shards)))
    inspect_shard(fn, params, shards[3])
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from time import perf_counter
from typing import Any

from quadrants_lab.distributed import shards as S
from quadrants_lab.distributed import worker as W
from quadrants_lab.distributed.cluster import dask_client
from quadrants_lab.distributed.gradients import job_of, raise_error
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.notebook.saved import Saved, contents
from quadrants_lab.runtime import session
from quadrants_lab.runtime.record.records import recording
from quadrants_lab.widgets.model import CellView

PAUSE = 0.25  # seconds between two pictures
_WIDTH, _HEIGHT = 480, 60  # of a picture, in pixels


def inspect_shard(fn: Callable[[Any, Any], Any], params: Any, shard: Any, client: Any = None) -> Inspection | Saved:
    """The inspector of all that ``fn(params, shard)`` launches, which runs once, with checked indices and asserts.

    ``client`` as `map_gradients` takes it: on a worker, everything that the inspector can show is made there and comes
    back, so it is as one that `qd.inspect` opens from a file.
    """
    arrays = S.named(params)
    if client is False:
        return Inspection(_view(fn, arrays, shard))
    future = dask_client(client).submit(_contents, job_of(fn, arrays), shard, pure=False)
    try:
        future.exception()
        if future.status != "finished":
            raise_error(future)
        return Saved(future.result())
    except BaseException:
        future.cancel()
        raise


def _contents(job: W.Job, shard: Any) -> dict[str, Any]:
    with W.entered(job) as fn:
        return contents(_view(fn, job.params, shard))


def _view(fn: Callable[..., Any], arrays: dict[str, S.Array], shard: Any) -> CellView:
    with session.checking("asserts", "check_out_of_bound"), recording() as recorder:
        S.run(fn, arrays, 0, [shard], summed=True)
    return cell_view("shard", recorder)


class Live:
    """A ``progress`` for `map_gradients`: a bar and the losses so far, by shard, drawn anew as they come; text where
    there is no HTML. Interrupting the kernel stops the shards."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.losses: dict[int, float] = {}
        self._display: Any = None
        self._drawn = 0.0

    def __call__(self, shard: int, loss: float) -> None:
        self.losses[shard] = loss
        if perf_counter() - self._drawn > PAUSE or len(self.losses) == self.total:
            self._draw()
            self._drawn = perf_counter()

    def _draw(self) -> None:
        from IPython.display import display

        if self._display is None:
            self._display = display(self, display_id=True)
        else:
            self._display.update(self)

    def __repr__(self) -> str:
        done = f"{len(self.losses)} of {self.total} shards"
        return f"{done}, mean loss {sum(self.losses.values()) / len(self.losses):.6g}" if self.losses else done

    def _repr_html_(self) -> str:
        known = {n: loss for n, loss in self.losses.items() if isfinite(loss)}  # others have no place
        low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
        across, up = _WIDTH / max(1, self.total), (_HEIGHT - 6) / (high - low or 1.0)
        dots = "".join(
            f'<circle cx="{(n + 0.5) * across:.1f}" cy="{_HEIGHT - 3 - (loss - low) * up:.1f}" r="2"/>'
            for n, loss in sorted(known.items())
        )
        bar = f'<progress max="{self.total}" value="{len(self.losses)}" style="width:{_WIDTH}px"></progress>'
        picture = f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="currentColor" role="img">{dots}</svg>'
        return f"<div>{bar}<br>{picture}<br>{self!r}</div>"
