"""CUDA graphs: what is put into the driver's stream, captured, to start in one call."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.cuda.driver import Driver

_p = C.c_void_p
_RELAXED = 2  # memory may come and go while a stream is captured

# the calls of the driver that are made here
CALLS: dict[str, tuple[Any, ...]] = {
    "cuStreamBeginCapture_v2": (_p, C.c_int),
    "cuStreamEndCapture": (_p, _p),
    "cuGraphDestroy": (_p,),
    "cuGraphInstantiateWithFlags": (_p, _p, C.c_ulonglong),
    "cuGraphExecUpdate": (_p, _p, _p, _p),
    "cuGraphExecDestroy": (_p,),
}


class Graph:
    """All that ``run`` puts into the driver's stream, as one graph; nothing of it happens when it is made. ``launch()``
    starts it after all that was launched before, from any thread."""

    def __init__(self, driver: Driver, run: Callable[[], None]) -> None:
        self._driver, self._run = driver, run
        graph, self._exec = self._captured(), _p()
        try:
            self._check(driver.cuGraphInstantiateWithFlags(C.byref(self._exec), graph, 0))
        finally:
            driver.cuGraphDestroy(graph)
        self.launch = _launcher(driver, self._exec)
        forks.finalize(self.launch, driver.give_back, driver.cuGraphExecDestroy, self._exec)

    def _check(self, result: int) -> None:
        self._driver.check(result, "making a graph of launches")

    def _captured(self) -> Any:
        driver, graph = self._driver, _p()
        self._check(driver.cuStreamBeginCapture_v2(driver.stream, _RELAXED))
        try:
            self._run()
        except BaseException:
            driver.cuStreamEndCapture(driver.stream, C.byref(graph))
            if graph:
                driver.cuGraphDestroy(graph)
            raise
        self._check(driver.cuStreamEndCapture(driver.stream, C.byref(graph)))
        return graph

    def update(self) -> None:
        """Takes the arguments of what ``run`` launches anew; it launches the same programs as before."""
        graph, node, why = self._captured(), _p(), C.c_int()
        try:
            self._check(self._driver.cuGraphExecUpdate(self._exec, graph, C.byref(node), C.byref(why)))
        finally:
            self._driver.cuGraphDestroy(graph)


def _launcher(driver: Driver, running: Any) -> Callable[[], None]:
    """What starts the graph after all that was launched before, from any thread."""
    call, stream, here = driver.launch_graph_call, driver.stream, driver.here

    def launch() -> None:
        if here.driver is not driver:
            driver.enter()
        result = call(running, stream)
        if result:
            driver.check(result, "launching a graph")

    return launch
