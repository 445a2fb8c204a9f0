"""CUDA graphs: work that is captured from the driver's stream and starts by one call."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends.cuda.driver import Driver

_p = C.c_void_p
_RELAXED = 2  # a capture mode that permits allocations meanwhile

# the argument types of the driver's functions for graphs
CALLS: dict[str, tuple[Any, ...]] = {
    "cuStreamBeginCapture_v2": (_p, C.c_int),
    "cuStreamEndCapture": (_p, _p),
    "cuGraphDestroy": (_p,),
    "cuGraphInstantiateWithFlags": (_p, _p, C.c_ulonglong),
    "cuGraphExecUpdate": (_p, _p, _p, _p),
    "cuGraphExecDestroy": (_p,),
}


class Graph:
    """A graph of all that ``run`` puts into the driver's stream, which capturing does not execute. ``launch()`` starts
    it, from any thread, after all earlier launches."""

    def __init__(self, driver: Driver, run: Callable[[], None]) -> None:
        self._driver, self._run = driver, run
        graph, self._exec = self._captured(), _p()
        try:
            self._check(driver.cuGraphInstantiateWithFlags(C.byref(self._exec), graph, 0))
        finally:
            driver.cuGraphDestroy(graph)
        self.launch = _launcher(driver, self._exec)
        forks.finalize(self.launch, driver.release, driver.cuGraphExecDestroy, self._exec)

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
        """Replaces the arguments in the graph by those of now; ``run`` must launch the same programs as before."""
        graph, node, why = self._captured(), _p(), C.c_int()
        try:
            self._check(self._driver.cuGraphExecUpdate(self._exec, graph, C.byref(node), C.byref(why)))
        finally:
            self._driver.cuGraphDestroy(graph)


def _launcher(driver: Driver, running: Any) -> Callable[[], None]:
    """The function that starts a graph."""
    call, stream, here = driver.launch_graph_call, driver.stream, driver.here

    def launch() -> None:
        if here.driver is not driver:
            driver.enter()
        result = call(running, stream)
        if result:
            driver.check(result, "launching a graph")

    return launch
