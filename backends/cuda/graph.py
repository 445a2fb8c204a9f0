"""CUDA graphs: several launches, with what is cleared before and copied after them, that start in one call."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadrants_lab.backends._simt.driver import Launch
    from quadrants_lab.backends.cuda.driver import Driver

_p, _u, _z = C.c_void_p, C.c_uint, C.c_size_t
_HOST, _DEVICE = 1, 2  # kinds of memory of a copy
_RELAXED = 2  # memory may come and go while a stream is captured

# the calls of the driver that are made here
CALLS: dict[str, tuple[Any, ...]] = {
    "cuStreamBeginCapture_v2": (_p, C.c_int),
    "cuStreamEndCapture": (_p, _p),
    "cuGraphCreate": (_p, _u),
    "cuGraphDestroy": (_p,),
    "cuGraphAddKernelNode": (_p, _p, _p, _z, _p),
    "cuGraphAddMemsetNode": (_p, _p, _p, _z, _p, _p),
    "cuGraphAddMemcpyNode": (_p, _p, _p, _z, _p, _p),
    "cuGraphInstantiateWithFlags": (_p, _p, C.c_ulonglong),
    "cuGraphExecKernelNodeSetParams": (_p, _p, _p),
    "cuGraphExecDestroy": (_p,),
}


class _Kernel(C.Structure):
    """CUDA_KERNEL_NODE_PARAMS, in its first version."""

    _fields_ = (
        ("function", _p), ("grid", _u * 3), ("block", _u * 3), ("shared_bytes", _u), ("params", _p), ("extra", _p),
    )  # fmt: skip


class _Memset(C.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("to", C.c_uint64), ("pitch", _z), ("value", _u), ("element_bytes", _u), ("width", _z), ("height", _z),
    )  # fmt: skip


class _Memcpy(C.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        ("from_x", _z), ("from_y", _z), ("from_z", _z), ("from_level", _z), ("from_kind", C.c_int),
        ("from_host", _p), ("from_device", C.c_uint64), ("from_array", _p), ("reserved0", _p), ("from_pitch", _z),
        ("from_height", _z), ("to_x", _z), ("to_y", _z), ("to_z", _z), ("to_level", _z), ("to_kind", C.c_int),
        ("to_host", _p), ("to_device", C.c_uint64), ("to_array", _p), ("reserved1", _p), ("to_pitch", _z),
        ("to_height", _z), ("width", _z), ("height", _z), ("depth", _z),
    )  # fmt: skip


class Graph:
    """See `Driver.graph`. The launches' frames are read when it is made and when it is updated. ``launch()`` starts it
    after all that was launched before, from any thread."""

    def __init__(
        self, driver: Driver, launches: list[Launch], clear: tuple[int, int] | None, back: tuple[int, int, int] | None
    ) -> None:
        self._driver = driver
        self._graph = _p()
        self._last: Any = None
        self._check(driver.cuGraphCreate(C.byref(self._graph), 0))
        if clear is not None:
            address, nbytes = clear
            self._add(driver.cuGraphAddMemsetNode, _Memset(address, 0, 0, 1, nbytes, 1), driver.context)
        self._launches = [(self._add(driver.cuGraphAddKernelNode, _kernel(x)), x) for x in launches]
        if back is not None:
            host, address, nbytes = back
            copy = _Memcpy(
                from_kind=_DEVICE, from_device=address, to_kind=_HOST, to_host=host, width=nbytes, height=1, depth=1
            )
            self._add(driver.cuGraphAddMemcpyNode, copy, driver.context)
        self._exec = _p()
        self._check(driver.cuGraphInstantiateWithFlags(C.byref(self._exec), self._graph, 0))
        self.launch = _launcher(driver, self._exec)
        forks.finalize(self, _destroy, driver, self._exec, self._graph)

    def _check(self, result: int) -> None:
        self._driver.check(result, "making a graph of launches")

    def _add(self, call: Any, params: C.Structure, *more: Any) -> Any:
        """A node after all that are there."""
        node = _p()
        before = None if self._last is None else C.byref(self._last)
        count = 0 if self._last is None else 1
        self._check(call(C.byref(node), self._graph, before, count, C.byref(params), *more))
        self._last = node
        return node

    def update(self) -> None:
        """Takes the content of the launches' frames anew."""
        for node, launch in self._launches:
            params = _kernel(launch)
            self._check(self._driver.cuGraphExecKernelNodeSetParams(self._exec, node, C.byref(params)))


def captured(driver: Driver, run: Callable[[], None]) -> Callable[[], None]:
    """What starts all that ``run`` puts into the driver's stream as one graph. Nothing of it happens now."""
    what = "making a graph of launches"
    graph, running = _p(), _p()
    driver.check(driver.cuStreamBeginCapture_v2(driver.stream, _RELAXED), what)
    try:
        run()
    except BaseException:
        driver.cuStreamEndCapture(driver.stream, C.byref(graph))
        if graph:
            driver.cuGraphDestroy(graph)
        raise
    driver.check(driver.cuStreamEndCapture(driver.stream, C.byref(graph)), what)
    failed = driver.cuGraphInstantiateWithFlags(C.byref(running), graph, 0)
    if failed:
        driver.cuGraphDestroy(graph)
        driver.check(failed, what)
    launch = _launcher(driver, running)
    forks.finalize(launch, _destroy, driver, running, graph)
    return launch


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


def _kernel(launch: Launch) -> _Kernel:
    function = launch.function
    grid, block = (_u * 3)(launch.blocks, 1, 1), (_u * 3)(function.block, 1, 1)
    return _Kernel(function.handle, grid, block, 0, C.cast(launch.params, _p), None)


def _destroy(driver: Driver, running: Any, graph: Any) -> None:
    driver.give_back(driver.cuGraphExecDestroy, running)
    driver.give_back(driver.cuGraphDestroy, graph)
