"""A kernel loaded on a device behind a driver (`cuda.driver`, `amdgpu.hip`), and its launch frames.

The frame's words go along with each launch, as a parameter (one that is longer than the API allows is copied first).
What programs write lies in memory of its own (`_simt.state`) and comes back only where a kernel returns something or
can fail. Other launches return at once, and reading memory waits for them.
"""

from __future__ import annotations

import ctypes
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.executable import GpuExecutable
from quadrants_lab.backends._gpu.frame import GpuFrame
from quadrants_lab.backends._gpu.programs import Program, answers
from quadrants_lab.backends._gpu.remote import RemoteMemory
from quadrants_lab.backends._gpu.stacks import HeapPlan
from quadrants_lab.backends._simt import host_flag
from quadrants_lab.backends._simt.capture import MustWait
from quadrants_lab.backends._simt.device import SimtDevice
from quadrants_lab.backends._simt.graph_cache import GraphCache
from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.backends._simt.state import State
from quadrants_lab.backends.disk_cache import Keep
from quadrants_lab.backends.launch import Param
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DRAWS = struct.Struct("=QQ")
_WORD = struct.Struct("=Q")
# where a task reduces and its iterations are long: all groups in one go stay in step and wait for the same unit
REDUCING_WAVES = 4


class SimtExecutable(GpuExecutable):
    """``object``: what the driver loads. ``asked``: whether a launch has to be waited for, because it returns something
    or can fail; ``asked_for_depths``: only because an adstack may be too small. ``signals``: see `_simt.host_flag`."""

    def __init__(
        self, kernel: N.Kernel, options: CompileOptions, driver: Any, cached: bytes | None, keep: Keep
    ) -> None:
        self._driver = driver
        for made in driver.shape.first(options):
            kernel = made(kernel)
        super().__init__(kernel, lambda: driver.build(kernel, options), cached, keep, steps=True)
        self.shape: Shape = driver.shape
        self.options = options
        self.state = State(kernel)
        asked = answers(kernel)
        self.asked = asked or any(self.stacked)
        self.asked_for_depths = self.asked and not asked
        self.signals = self.shape.signals and host_flag.signals(kernel)

    def frame(self, device: Any) -> SimtFrame:
        return SimtFrame(self, device)

    def functions(self, driver: Any) -> list[Any]:
        """A loaded function for each program; built when they are first needed.

        Raises QuadrantsRuntimeError with the assembler's words where that fails.
        """
        return self.once(driver, lambda: self.built(partial(self._load, driver)))

    def _load(self, driver: Any, code: bytes) -> list[Any]:
        driver.enter()
        module = driver.load(code, f"kernel '{self.kernel.name}'")
        forks.finalize(self, driver.unload, module)
        return [driver.function(module, p.name, self.group(p)) for p in self.programs]

    def group(self, program: Program) -> int:
        """Threads of a group of the program."""
        return self.shape.group_of(program, self.stacked[program.number])


class SimtFrame(GpuFrame):
    """The frame's words are host memory; ``view`` is what they are, with what came back from the device in it."""

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
        if exe.asked:
            pinned = driver.pinned(exe.state.zeroed)
            forks.finalize(self, driver.free_pinned, pinned)
            self._back_at = pinned
            self._back = memoryview((ctypes.c_char * exe.state.zeroed).from_address(pinned)).cast("B")
        if exe.signals:
            _WORD.pack_into(self.view, host_flag.AT, device.done.address)
        self._launches: list[Any] = []
        self._stacks = bool(exe.layout.frame.stacks)
        self._inputs = self.view[L.SEED : exe.layout.frame.zero_at]  # all that programs read of it
        self._graphs = GraphCache(self) if getattr(driver, "graph", None) else None
        self._number = 0
        self._waits = exe.asked
        self._report: Callable[[], BaseException] | None = None
        self._cleared = self._state, exe.state.zeroed  # before each launch
        self._failed = False
        self.unsettled = False
        answers = exe.asked or self._stacks or exe.draws
        given = exe.kernel.args or any(b.kind == "ndarray" for b in exe.kernel.buffers.values())
        self._constant = self._by_value and not answers and not given  # each launch is like the last one
        self._again: Callable[[], int] | None = None  # `launch`, of a constant frame that is a graph

    # --- a launch -----------------------------------------------------------------------------------------------

    def launch(self) -> int:
        """Starts the kernel; waits for it only where something comes back. Returns the status."""
        device, driver = self.device, self._driver
        if device.captured is not None:
            return self._be_captured(device.captured)
        if self._again is not None and not self._grid_is_old:
            return self._again()
        driver.enter()
        if self._grid_is_old:
            self._set_grid()
        device.begin(self.exe.signals, self.cost)
        if device.ahead:
            device.send()
        device.launches += 1
        self._number = self._replay or device.launches
        if self.exe.draws:
            _DRAWS.pack_into(self.view, L.SEED, device.seed, self._number)
        if self._stacks:
            _WORD.pack_into(self.view, L.HEAP, device.heap_address)
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
        self.leave_unsettled()
        return 0

    def leave_unsettled(self) -> None:
        """Whether the launch failed is asked later."""
        if self._report is not None and not self.unsettled:
            self.unsettled = True
            self.device.unsettled.append(self)

    def _be_captured(self, frames: list[SimtFrame]) -> int:
        """A launch as a part of what `capture` makes."""
        if self._waits or self.exe.draws or not self._by_value or self._failed or self._grid_is_old:
            raise MustWait
        if self._stacks:
            _WORD.pack_into(self.view, L.HEAP, self.device.heap_address)
        self._start()
        frames.append(self)
        return 0

    def _repetition(self, start: Callable[[], None]) -> Callable[[], int]:
        """What is left of a launch where nothing of the frame can have changed."""
        device, signals, cost = self.device, self.exe.signals, self.cost

        def again() -> int:
            device.begin(signals, cost)
            if device.ahead:
                device.send()
            start()
            device.launches += 1
            self._number = self._replay or device.launches
            return 0

        return again

    def _start(self) -> None:
        """Starts the programs one by one."""
        if self._zeroes:
            self._driver.clear(*self._cleared)
        for launch in self._launches:
            result = launch.run(*launch.args)
            if result:
                self._driver.check(result, f"launching kernel {self.exe.kernel.name}")
        if self._waits:
            self.ask()

    def make_graph(self) -> Any:
        """All that a launch enqueues, as one."""
        return self._driver.graph(self._start)

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:
        """See `quadrants_lab.backends.launch.Frame`. The status then stays in the state from launch to launch."""
        if self.exe.asked_for_depths:
            self._waits, self._report = False, report
            if self._graphs:
                self._graphs.drop()
            head = self.exe.state.head
            self._cleared = self._state + head, self.exe.state.zeroed - head

    def ask(self) -> None:
        """Lets what programs left behind come back, by the time that the device is done."""
        self._driver.start_download(self._back_at, self._state, self.exe.state.zeroed)

    def settle(self) -> None:
        """After `ask` and the end of what ran: raises where a launch found a stack too small."""
        self.unsettled = False
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
                f"kernel {self.exe.kernel.name} has graph=True and returns a value, which a graph does not",
                code="QL3020",
                help="leave the value in a field, or take graph=True away",
            )
        self._graphs.always = True

    @property
    def launch_number(self) -> int:
        return self._number

    def _fetch(self) -> int:
        """Waits for the launch and takes what came back into the view."""
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
        """Prepares the launches: group counts from the tasks' bounds and from what runs at a time."""
        exe, driver = self.exe, self._driver
        self._launches = []
        if self._graphs:
            self._graphs.drop()
        for program, function in zip(exe.programs, self._functions, strict=True):
            groups = 1
            if program.kind == "range":
                groups = self._most_groups(program, function)
                if program.inline:
                    each = function.block * exe.in_step[program.number]
                    groups = min(groups, -(-self._total(program.number) // each))
            if groups:
                frame = self._host if self._by_value else self._copy
                self._launches.append(driver.call(function, groups, self._state, frame, self._bytes))
        self._grid_is_old = False

    def _heap_plan(self, caps: Sequence[int], budget: int, passing: Mapping[int, int]) -> HeapPlan:
        plan = super()._heap_plan(caps, budget, passing)
        few = self.device.few_threads
        if plan.heap_bytes <= self.device.large_heap or plan.threads <= few:
            return plan
        return super()._heap_plan(caps, few * plan.lane_bytes, passing)

    def _most_groups(self, program: Program, function: Any) -> int:
        if self.exe.stacked[program.number]:
            return max(1, self._stack_threads // int(function.block))
        chosen = self.device.chosen_threads
        if chosen:
            return max(1, chosen // int(function.block))
        return int(function.blocks_at_once) * self._waves(program.number)

    def _waves(self, number: int) -> int:
        """Groups of a task that are started for each that runs at a time."""
        exe = self.exe
        if not exe.reducing[number]:
            return exe.shape.waves
        return REDUCING_WAVES if exe.looping[number] else 1

    # --- arrays -------------------------------------------------------------------------------------------------

    def entry(self, params: list[Param], returns: str = "") -> Any:
        """See `quadrants_lab.backends.launch.Frame`. Where nothing is passed, there is less to do."""
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
        """Device address of the first element of a field or ndarray buffer."""
        super().set_buffer(name, address)
        self._again = None

    def bind_temp(self, name: str, array: Any) -> Callable[[], None] | None:
        """Binds an array, the host's or one in memory of the device, to an ndarray buffer for the next launch."""
        on_host = not isinstance(array, RemoteMemory)
        if on_host and self._graphs and self._graphs.always:
            raise QuadrantsRuntimeError(
                f"kernel {self.exe.kernel.name} has graph=True, and its argument {name!r} is an array of the host",
                code="QL3021",
                help="pass a qd.ndarray, or an array of another library on the GPU",
            )
        return super().bind_temp(name, array)
