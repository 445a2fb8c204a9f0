"""Shows the shards of `map_gradients` in a notebook: their progress, a button that stops them, and an inspector of
one shard.

    map_gradients(fn, params, shards, progress=Live(len(shards)))
    run = Running(fn, params, shards)
    inspect_shard(fn, params, shards[3])
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from html import escape
from math import isfinite
from threading import Thread
from time import perf_counter
from typing import Any

from quadrants_lab.distributed import worker
from quadrants_lab.distributed.cluster import dask_client
from quadrants_lab.distributed.gradients import Gradients, job_of, map_gradients, raise_error
from quadrants_lab.distributed.shards import Array, named, run_group
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.notebook.saved import Saved, contents
from quadrants_lab.runtime import session
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets.model import CellView

_WIDTH, _HEIGHT = 480, 60  # size of the picture in pixels


def inspect_shard(fn: Callable[[Any, Any], Any], params: Any, shard: Any, client: Any = None) -> Inspection | Saved:
    """The inspector of all launches of ``fn(params, shard)``, which runs once, with checked indices and asserts.

    ``client``: as for `map_gradients`. A worker makes everything that the inspector can show and returns it, as in a
    file for `qd.inspect`.
    """
    arrays = named(params)
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


def _contents(job: worker.Job, shard: Any) -> dict[str, Any]:
    with worker.entered(job) as fn:
        return contents(_view(fn, job.params, shard))


def _view(fn: Callable[..., Any], arrays: dict[str, Array], shard: Any) -> CellView:
    with session.checking("asserts", "check_out_of_bound"), recording() as recorder:
        run_group(fn, arrays, 0, [shard], summed=True)
    return cell_view("shard", recorder)


class Live:
    """A ``progress`` for `map_gradients`: a bar and a picture of the losses by shard, updated as they come; text
    without HTML. Interrupting the kernel stops the shards. ``pause``: seconds between two updates."""

    def __init__(self, total: int, pause: float = 0.25) -> None:
        self.total, self.pause = total, pause
        self.losses: dict[int, float] = {}
        self._display: Any = None
        self._drawn = 0.0

    def __call__(self, shard: int, loss: float) -> None:
        self.losses[shard] = loss
        if perf_counter() - self._drawn > self.pause or len(self.losses) == self.total:
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

    def html(self) -> str:
        known = {n: loss for n, loss in self.losses.items() if isfinite(loss)}  # others cannot be drawn
        low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
        across, up = _WIDTH / max(1, self.total), (_HEIGHT - 6) / (high - low or 1.0)
        dots = "".join(
            f'<circle cx="{(n + 0.5) * across:.1f}" cy="{_HEIGHT - 3 - (loss - low) * up:.1f}" r="2"/>'
            for n, loss in sorted(known.items())
        )
        bar = f'<progress max="{self.total}" value="{len(self.losses)}" style="width:{_WIDTH}px"></progress>'
        picture = f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="currentColor" role="img">{dots}</svg>'
        return f"<div>{bar}<br>{picture}<br>{self!r}</div>"

    _repr_html_: Any = html


class Running(Live):
    """Runs `map_gradients` in a thread, so that the notebook can be used meanwhile. The object displays itself like
    `Live`, with a button that stops the shards. ``options``: the options of `map_gradients`."""

    _repr_html_ = None  # displayed as a widget instead

    def __init__(self, fn: Callable[[Any, Any], Any], params: Any, shards: Sequence[Any], **options: Any) -> None:
        import ipywidgets

        super().__init__(len(shards))
        self._stop: Callable[[], None] | None = None
        self._found: Future[Gradients] = Future()
        self._picture = ipywidgets.HTML(self.html())
        self._button = ipywidgets.Button(description="stop")
        self._button.on_click(lambda _: self.stop())
        run = partial(map_gradients, fn, params, shards, **{**options, "progress": self})
        Thread(target=self._run, args=(run,), daemon=True).start()

    def _run(self, run: Callable[[], Gradients]) -> None:
        try:
            self._found.set_result(run())
            problem = ""
        except BaseException as e:
            self._found.set_exception(e)
            problem = f"<pre>{escape(str(e))}</pre>"
        self._button.disabled = True
        self._draw(problem)

    def begin(self, stop: Callable[[], None]) -> None:
        """Takes the function that stops the shards; `map_gradients` calls this when it begins."""
        self._stop = stop

    def _draw(self, problem: str = "") -> None:
        self._picture.value = self.html() + problem

    def stop(self) -> None:
        """Lets no more shards begin; then `result` raises."""
        if self._stop is not None and not self._found.done():
            self._stop()

    def done(self) -> bool:
        return self._found.done()

    def result(self, seconds: float | None = None) -> Gradients:
        """Waits for the result of `map_gradients`, or raises its error; TimeoutError after ``seconds``."""
        return self._found.result(seconds)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        import ipywidgets

        return ipywidgets.VBox([self._picture, self._button])._repr_mimebundle_(**options)
