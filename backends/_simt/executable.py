"""Loads a kernel through a driver (`cuda.driver`, `amdgpu.hip`), and launches it by launch frames, which hold a
launch's arguments.

The frame's words are a parameter of each launch; a frame that is too long for a parameter is copied to the device
first. What programs write lies in separate memory (`_simt.shape.State`). It is copied back only if a kernel returns
something or can fail. Other launches are asynchronous: reading memory waits for them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import WORD_FORM, GpuFrame
from quadrants_lab.backends._gpu.programs import Program, returns_or_fails
from quadrants_lab.backends._gpu.remote import RemoteMemory
from quadrants_lab.backends._gpu.stacks import HeapPlan
from quadrants_lab.backends._simt.device import MustWait, SimtDevice
from quadrants_lab.backends._simt.shape import Shape, State
from quadrants_lab.backends.disk_cache import Keep
from quadrants_lab.backends.launch import Param
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

# after so many equal launches in a row a graph is made; this takes the time that about a hundred launches by graph save
AFTER = 32


class GraphCache:
    """The graph of a frame, captured by ``make``. ``always``: launch by graph from the first launch on
    (`qd.kernel(graph=True)`). ``made`` counts how many graphs were captured."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.always = False
        self.made = 0
        self._graph: Any = None
        self._held = b""  # the frame's words with which the graph was captured
        self._last = b""  # the frame's words in the last launch
        self._equal = 0

    def drop(self) -> None:
        """Forgets the graph, because the programs or their group counts have changed."""
        self._graph = None
        self._held = self._last = b""
        self._equal = 0

    def graph(self, words: bytes) -> Any:
        """The graph for these words; None if the programs should be launched one by one."""
        if words == self._held:
            return self._graph
        if words != self._last:
            self._last = words
            self._equal = 0
        self._equal += 1
        if not self.always and self._equal <= AFTER:
            return None
        self._held = b""  # emptied first: Ctrl-C may come during the capture
        if self._graph is None:
            self._graph = self._make()
            self.made += 1
        else:
            self._graph.update()
        self._held = words
        return self._graph


# How many times more groups than fit at once are started, for a reducing task with long iterations. With a factor of 1
# all groups would run the same code at the same time, and wait for the same function unit.
REDUCING_WAVES = 4


class SimtExecutable(GpuExecutable):
    """A kernel that a driver loads. ``object``: its code. ``synchronous``: the host waits for a launch, because it
    returns something or can fail; ``overflow_only``: it waits only because an adstack may be too small."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, driver: Any, cached: bytes | None, keep: Keep
    ) -> None:
        self._driver = driver
        for made in driver.shape.first(options):
            kernel = made(kernel)
        super().__init__(kernel, lambda: driver.build(kernel, options), cached, keep)
        self.shape: Shape = driver.shape
        self.options = options
        self.state = State(kernel)
        others = returns_or_fails(kernel)
        self.overflow_only = any(self.stacked) and not others
        self.synchronous = any(self.stacked) or others

    def frame(self, device: Any) -> SimtFrame:
        return SimtFrame(self, device)

    def functions(self, driver: Any) -> list[Any]:
        """The loaded function of each program.

        Raises QuadrantsRuntimeError with the assembler's message if the assembler fails.
        """
        return self.once(driver, lambda: self.built(partial(self._load, driver)))

    def _load(self, driver: Any, code: bytes) -> list[Any]:
        driver.enter()
        module = driver.load(code, f"kernel '{self.kernel.name}'")
        forks.finalize(self, driver.unload, module)
        return [driver.function(module, p.name, self.group(p)) for p in self.programs]

    def group(self, program: Program) -> int:
        """How many threads a group of the program has."""
        return self.shape.group_of(program, self.stacked[program.number])


class SimtFrame(GpuFrame):
    """A launch frame whose words, ``view``, are in host memory; results of the device are copied into them."""

    device: SimtDevice
    exe: SimtExecutable

    def __init__(self, exe: SimtExecutable, device: SimtDevice) -> None:
        driver = self._driver = device.driver
        driver.enter()
        self._functions = exe.functions(driver)
        self._words = np.zeros(exe.layout.size // 8 + 1, np.uint64)
        super().__init__(exe, device, self._words.data.cast("B"))
        self._host = int(self._words.ctypes.data)
        self._bytes = exe.layout.size
        self._by_value = exe.shape.passed_by_value(exe.layout.size)
        self._state = driver.allocate(exe.state.size)
        forks.finalize(self, driver.free, self._state)
        driver.clear(self._state, exe.state.size)
        self._copy = self._state
        if not self._by_value:
            self._copy = driver.allocate(exe.layout.size)
            forks.finalize(self, driver.free, self._copy)
        self._zeroes = exe.layout.frame.zero_bytes > 0
        self._back = memoryview(b"")
        if exe.synchronous:
            pinned = driver.pinned(exe.state.zeroed)
            forks.finalize(self, driver.free_pinned, pinned)
            self._back_at = pinned
            self._back = memoryview((ctypes.c_char * exe.state.zeroed).from_address(pinned)).cast("B")
        self._launches: list[Any] = []
        self._inputs = self.view[L.SEED : exe.layout.frame.zero_at]  # all words that programs read
        graph = getattr(driver, "graph", None)
        self._graphs = GraphCache(partial(graph, self._start)) if graph else None
        self._waits = exe.synchronous
        self._report: Callable[[], BaseException] | None = None
        # the memory that is zeroed before each launch: its address and size in bytes
        self._cleared = self._state, exe.state.zeroed
        self._failed = False
        self.unchecked = False
        varies = exe.synchronous or self._has_stacks or exe.draws
        takes = exe.kernel.args or any(b.kind == "ndarray" for b in exe.kernel.buffers.values())
        self._constant = self._by_value and not varies and not takes  # whether all launches get the same parameters
        # for a constant frame with a graph: a function that launches with fewer tests
        self._again: Callable[[], int] | None = None

    # --- a launch -----------------------------------------------------------------------------------------------

    def launch(self) -> int:
        """Starts the kernel, and waits for it only if the host needs a result. Returns the status."""
        device, driver = self.device, self._driver
        if device.captured is not None:
            return self._capture(device.captured)
        if self._again is not None and not self._grid_is_old:
            return self._again()
        driver.enter()
        if self._grid_is_old:
            self._set_grid()
        device.begin(self.cost)
        if device.ahead:
            device.send()
        self._begin_launch()
        if not self._by_value:
            driver.upload(self._copy, self._host, self._bytes)
        graph = self._graphs and self._graphs.graph(self._inputs.tobytes())
        if self._failed:
            driver.clear(self._state, self.exe.state.zeroed)
            self._failed = False
        if graph:
            graph.launch()
            if self._constant:
                self._again = self._repetition(graph.launch)
        else:
            self._start()
        if self._waits:
            return self._fetch()
        self.defer_check()
        return 0

    def defer_check(self) -> None:
        """Puts off the check for overflows to the device's next wait."""
        if self._report is not None and not self.unchecked:
            self.unchecked = True
            self.device.unchecked.append(self)

    def _capture(self, frames: list[SimtFrame]) -> int:
        """Adds a launch to the graph that is being captured. ``frames``: the frames captured so far."""
        if self._waits or self.exe.draws or not self._by_value or self._failed or self._grid_is_old:
            raise MustWait
        if self._has_stacks:
            WORD_FORM.pack_into(self.view, L.HEAP, self.device.heap_address)
        self._start()
        frames.append(self)
        return 0

    def _repetition(self, start: Callable[[], None]) -> Callable[[], int]:
        """A function that launches again without a test whether the frame has changed; it cannot have changed."""
        device, cost, driver = self.device, self.cost, self._driver

        def again() -> int:
            driver.enter()
            device.begin(cost)
            if device.ahead:
                device.send()
            start()
            device.launches += 1
            self.launch_number = self._replay or device.launches
            return 0

        return again

    def _start(self) -> None:
        """Starts the programs one by one, without a graph."""
        if self._zeroes:
            self._driver.clear(*self._cleared)
        for launch in self._launches:
            result = launch.run(*launch.args)
            if result:
                self._driver.check(result, f"launching kernel {self.exe.kernel.name}")
        if self._waits:
            self.fetch_status()

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:
        """See `quadrants_lab.backends.launch.Frame`. From then on, a launch does not clear the status that earlier
        launches have left."""
        if self.exe.overflow_only:
            self._waits, self._report = False, report
            if self._graphs:
                self._graphs.drop()
            head = self.exe.state.head
            self._cleared = self._state + head, self.exe.state.zeroed - head

    def fetch_status(self) -> None:
        """Starts the copy of the status, and of results, to the host."""
        self._driver.start_download(self._back_at, self._state, self.exe.state.zeroed)

    def check_overflow(self) -> None:
        """Raises an error if a launch found an adstack too small. Call this after `fetch_status` and a wait."""
        self.unchecked = False
        self._take_back()
        if self.status:
            assert self._report is not None
            raise self._report()

    def as_graph(self) -> None:
        """See `quadrants_lab.backends.launch.Frame`."""
        if self._graphs is None:
            return
        if any(b.kind == "ret" for b in self.exe.kernel.buffers.values()):
            raise QuadrantsRuntimeError(
                f"kernel {self.exe.kernel.name} has graph=True and returns a value, which a graph cannot",
                code="QL3020",
                help="leave the value in a field, or take graph=True away",
            )
        self._graphs.always = True

    def _fetch(self) -> int:
        """Waits for the launch and copies its results into ``view``; returns the status."""
        self._driver.wait(f"running kernel {self.exe.kernel.name}")
        self.device.running = False
        self._take_back()
        return self.status

    def _take_back(self) -> None:
        head = self.exe.state.head
        self.view[:head] = self._back[:head]
        self.view[self._zero] = self._back[head:]
        self._failed = self.status != 0

    def _set_grid(self) -> None:
        """Prepares the launches of the programs. Group counts follow from the tasks' bounds and from the device's size.
        """
        exe, driver = self.exe, self._driver
        self._launches = []
        if self._graphs:
            self._graphs.drop()
        for program, function in zip(exe.programs, self._functions, strict=True):
            groups = self._group_count(program, function.block, self._most_groups(program, function))
            if groups:
                frame = self._host if self._by_value else self._copy
                self._launches.append(driver.call(function, groups, self._state, frame, self._bytes))
        self._grid_is_old = False

    def _heap_plan(self, caps: Sequence[int], budget: int, pushing: Mapping[int, int]) -> HeapPlan:
        plan = super()._heap_plan(caps, budget, pushing)
        # With steady stacks of f64, threads wait for arithmetic, so more threads help. With different depths, or f32,
        # they wait for memory.
        few = self.device.few_threads * (1 + self.exe.steady)
        if plan.heap_bytes <= self.device.large_heap or plan.threads <= few:
            return plan
        return super()._heap_plan(caps, few * plan.lane_bytes, pushing)

    def _most_groups(self, program: Program, function: Any) -> int:
        if self.exe.stacked[program.number]:
            return max(1, self.stack_threads // int(function.block))
        chosen = self.device.chosen_threads
        if chosen:
            return max(1, chosen // int(function.block))
        return int(function.blocks_at_once) * self._waves(program.number)

    def _waves(self, number: int) -> int:
        """How many times more groups than fit at once are started for task ``number``."""
        exe = self.exe
        if not exe.reducing[number]:
            return exe.shape.waves
        return REDUCING_WAVES if exe.looping[number] else 1

    # --- arrays -------------------------------------------------------------------------------------------------

    def entry(self, params: list[Param], returns: str = "") -> Any:
        """See `quadrants_lab.backends.launch.Frame`. A kernel without parameters has a shorter entry."""
        if params or returns:
            return super().entry(params, returns)

        def entry(*args: Any) -> Any:
            if args:
                return NotImplemented
            if self._again is not None and not self._grid_is_old and self.device.captured is None:
                self._again()
                return None
            return Ellipsis if self.launch() else None

        return entry

    def set_buffer(self, name: str, address: int) -> None:
        """Sets the device address of the first element of a field or ndarray buffer."""
        super().set_buffer(name, address)
        self._again = None

    def bind_temp(self, name: str, array: Any) -> Callable[[], None] | None:
        """See `GpuFrame.bind_temp`. A launch by graph refuses arrays of the host."""
        on_host = not isinstance(array, RemoteMemory)
        if on_host and self._graphs and self._graphs.always:
            raise QuadrantsRuntimeError(
                f"kernel {self.exe.kernel.name} has graph=True, and its argument {name!r} is an array of the host",
                code="QL3021",
                help="pass a qd.ndarray, or an array of another library on the GPU",
            )
        return super().bind_temp(name, array)
