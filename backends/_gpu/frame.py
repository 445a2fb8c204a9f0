"""A launch frame on a GPU, as far as that does not depend on the API: what is set, planned and read back.

A device subclasses `GpuFrame`: it says where the frame's words are (``view``, a writable memoryview of what programs
see, or of what is copied to them and back around a launch) and how a launch runs the programs in order, over
`groups` groups each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.entry import LongAxis, make_entry
from quadrants_lab.backends._gpu.flight import Cost
from quadrants_lab.backends._gpu.programs import GROUP
from quadrants_lab.backends._gpu.remote import RemoteMemory
from quadrants_lab.backends._gpu.stacks import HeapPlan, heap_plan
from quadrants_lab.backends.boxes import inline_total
from quadrants_lab.backends.launch import Frame, Memory, Param
from quadrants_lab.backends.layout import WORD

if TYPE_CHECKING:
    from quadrants_lab.backends._gpu.device import GpuDevice
    from quadrants_lab.backends._gpu.executable import GpuExecutable

_WORD = struct.Struct("=Q")
_GRID = struct.Struct("=III")


class GpuFrame(Frame):
    """See `quadrants_lab.backends.launch`. ``groups``: group counts of each task, as the host knows them."""

    forms: ClassVar[Mapping[str, str]] = {**Frame.forms, "u1": "=I"}
    failed_at = L.FAILED
    exe: GpuExecutable
    device: GpuDevice

    def __init__(self, exe: GpuExecutable, device: GpuDevice, view: memoryview) -> None:
        layout = exe.layout.frame
        super().__init__(exe, device, layout, view)
        self._zero = slice(layout.zero_at, layout.zero_at + layout.zero_bytes)
        self._zeros = bytes(layout.zero_bytes)
        self._head_zeros = bytes(L.FAIL_VALUES)
        self._replay = 0
        self._stacks_key: tuple[Any, ...] | None = None
        self._borrowed: dict[str, tuple[tuple[int, ...], Memory]] = {}  # device copies of the host's arrays
        self._heap_bytes = self._lane_bytes = 0
        self._stack_threads = device.threads
        self._grid_is_old = True
        self.cost = Cost()
        _WORD.pack_into(view, L.LANES, device.threads)
        if layout.prints:
            _WORD.pack_into(view, L.PRINTS, device.print_block().address)

    # --- what is set -------------------------------------------------------------------------------------------

    def set_extents(self, name: str, shape: tuple[int, ...]) -> None:
        """`LongAxis` for an axis of 2**31 elements or more of one that is not wide."""
        at = self.exe.layout.frame.extents[name]
        for n in shape:
            if _WORD.unpack_from(self.view, at)[0] != n:
                if n >> 31 and not self.exe.kernel.buffers[name].wide:
                    raise LongAxis
                _WORD.pack_into(self.view, at, n)
                self._grid_is_old = True
            at += WORD

    def set_arg(self, name: str, value: Any) -> None:
        if name in self.exe.sizing_args and self.arg(name) != value:
            self._grid_is_old = True
        super().set_arg(name, value)

    def place(self, name: str) -> tuple[Callable[[Any, int, Any], None], int]:
        """What packs a scalar argument, and where in the view, for those that no group count depends on."""
        form, at = self._args[name]
        return form.pack_into, at

    def set_stacks(self, caps: list[int], budget: int = 0, passing: Mapping[int, int] | None = None) -> None:
        key = tuple(caps), budget, tuple((passing or {}).items())
        if key != self._stacks_key:
            self._set_plan(caps, self._heap_plan(caps, budget, passing or {}))
            self._stacks_key = key
        self.device.need_heap(self._heap_bytes, budget)

    def heap_bytes(self, caps: list[int]) -> int:
        return self._heap_plan(caps, 0, {}).heap_bytes

    def least_heap(self, caps: list[int]) -> tuple[int, int]:
        plan = self._heap_plan(caps, 1, {})
        return plan.threads, plan.heap_bytes

    def _heap_plan(self, caps: Sequence[int], budget: int, passing: Mapping[int, int]) -> HeapPlan:
        layout, device = self.exe.layout.frame, self.device
        by_id = {s.id: cap for s, cap in zip(layout.stacks, caps, strict=True)}
        tasks = self.exe.stacks
        wanted, fewest = 1, GROUP
        for n, (task, stacks, total) in enumerate(zip(self.exe.tasks, tasks, self.exe.totals, strict=True)):
            if stacks and task.kind != "serial":
                iterations = device.threads if total is None else total
                iterations = min(iterations, passing.get(n, iterations))
                wanted = max(wanted, min(iterations, device.stack_threads))
                depth = max(by_id[s.id] for s in stacks)  # a loop that pushes goes round as often, and back
                fewest = max(fewest, device.fewest(iterations, 2 * depth + 4))
        limit = device.heap_budget
        return heap_plan(tasks, by_id, fewest, wanted, limit, budget or limit)

    def _set_plan(self, caps: Sequence[int], plan: HeapPlan) -> None:
        for s, cap in zip(self.words.stacks, caps, strict=True):
            self.place_stack(s, cap, plan.at[s.id])
        _WORD.pack_into(self.view, L.THREADS, plan.threads)
        self._stack_threads = plan.threads
        self._heap_bytes, self._lane_bytes = plan.heap_bytes, plan.lane_bytes
        self._grid_is_old = True

    def stack_bytes(self) -> int:
        """Bytes of adstacks a thread in flight; `stack_threads` of them have room."""
        return self._lane_bytes

    @property
    def stack_threads(self) -> int:
        return self._stack_threads

    @property
    def launch_number(self) -> int:
        return int(_WORD.unpack_from(self.view, L.LAUNCH)[0])

    def replay(self, launch_number: int) -> None:
        self._replay = launch_number

    # --- a launch ----------------------------------------------------------------------------------------------

    def _set_grid(self) -> None:
        """Sets the group counts of tasks whose bounds the host can compute; programs compute those of the rest."""
        exe = self.exe
        for program in exe.programs:
            if program.kind == "bounds":
                continue
            n = program.number
            if program.kind == "serial":
                groups = 1
            else:
                total = self._total(n) if program.inline else None
                most = self.most_groups(n)
                groups = most if total is None else min(-(-total // (GROUP * exe.in_step[n])), most)
            _GRID.pack_into(self.view, exe.layout.grid[n], groups, 1, 1)
        self._grid_is_old = False

    def most_groups(self, number: int) -> int:
        """The most groups of a task that may be in flight."""
        exe, device = self.exe, self.device
        if exe.stacked[number]:
            return self._stack_threads // GROUP
        few = exe.reducing[number] and not device.loop_limit
        return (device.reducing_threads if few else device.threads) // GROUP

    def groups(self, number: int) -> int:
        """Group count of a task as it stands in the frame."""
        return int(_GRID.unpack_from(self.view, self.exe.layout.grid[number])[0])

    def _total(self, number: int) -> int:
        fixed = self.exe.totals[number]
        if fixed is not None:
            return fixed
        return inline_total(self.exe.tasks[number], self.arg, self._extent)

    def _extent(self, buffer: str, axis: int) -> int:
        return int(_WORD.unpack_from(self.view, self.exe.layout.frame.extents[buffer] + axis * WORD)[0])

    # --- what came out -----------------------------------------------------------------------------------------

    @property
    def status(self) -> int:
        return int(_WORD.unpack_from(self.view, L.STATUS)[0])

    def entry(self, params: list[Param], returns: str = "") -> Any:
        return make_entry(self, params, returns)

    def bind_temp(self, name: str, array: np.ndarray[Any, Any] | RemoteMemory) -> Callable[[], None] | None:
        """Binds an array to an ndarray buffer for the next launch. Returns None, or, where the array is the host's and
        the kernel writes it, what must be called after the launch."""
        self.set_extents(name, array.shape)
        if isinstance(array, RemoteMemory):
            self.set_buffer(name, array.address)
            return None
        address = self.device.locate(array)
        if address and not address % max(4, array.itemsize):  # atomics go to the word around an element
            self.set_buffer(name, address)
            return None
        memory = self._borrowed.get(name)
        if memory is None or memory[0] != array.shape:
            memory = self._borrowed[name] = (array.shape, self.device.allocate(array.shape, array.dtype))
        memory[1].write(array)
        self.set_buffer(name, memory[1].address)
        if name not in self.exe.written:
            return None
        return lambda: np.copyto(array, memory[1].read())
