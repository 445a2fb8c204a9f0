"""The base class of a GPU's launch frame, the block of words from which a launch reads its arguments. On every API
it sets arguments, plans the adstack heap and the number of groups, reads results, and has a fast entry for repeated
launches.

A subclass of `GpuFrame` provides the memory of the frame's words and runs the programs in order, each with `groups`
groups. The words are ``view``, a writable memoryview: programs read them there, or they are copied to the device before
a launch and back after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from quadrants_lab.backends import overlap
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.device import Cost
from quadrants_lab.backends._gpu.programs import Program
from quadrants_lab.backends._gpu.remote import RemoteMemory
from quadrants_lab.backends._gpu.stacks import HeapPlan, heap_plan
from quadrants_lab.backends.cost import GROUP, inline_total
from quadrants_lab.backends.launch import ArrayParam, Frame, Memory, Param, ScalarParam
from quadrants_lab.backends.layout import WORD
from quadrants_lab.ir.record import function
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import of_kind

if TYPE_CHECKING:
    from quadrants_lab.backends._gpu.device import GpuDevice
    from quadrants_lab.backends._gpu.executable import GpuExecutable

WORD_FORM = struct.Struct("=Q")
_DRAWS = struct.Struct("=QQ")  # the seed and the index of the launch
_GRID = struct.Struct("=III")
_FEW = 8  # with at most so many arrays, all pairs are tested for overlap


class LongAxis(Exception):
    """An array has an axis that is too long for the kernel's code."""


class GpuFrame(Frame):
    """See `quadrants_lab.backends.launch.Frame`."""

    forms: ClassVar[Mapping[str, str]] = {**Frame.forms, "u1": "=I"}
    failed_at = L.FAILED
    stack_threads = 0  # `Frame` has a property of this name; here it is a plain attribute
    exe: GpuExecutable
    device: GpuDevice

    def __init__(self, exe: GpuExecutable, device: GpuDevice, view: memoryview) -> None:
        layout = exe.layout.frame
        super().__init__(exe, device, layout, view)
        self._zero = slice(layout.zero_at, layout.zero_at + layout.zero_bytes)
        self._zeros = bytes(layout.zero_bytes)
        self._head_zeros = bytes(L.FAIL_VALUES)
        self._replay = self.launch_number = 0
        self._has_stacks = bool(layout.stacks)
        self._stacks_key: tuple[Any, ...] | None = None
        # name of a buffer -> (shape, the device's copy of a host array)
        self._copies: dict[str, tuple[tuple[int, ...], Memory]] = {}
        self._heap_bytes = self._lane_bytes = 0
        self.stack_threads = device.threads
        self._grid_is_old = True
        self.cost = Cost()
        WORD_FORM.pack_into(view, L.LANES, device.threads)
        if layout.prints:
            WORD_FORM.pack_into(view, L.PRINTS, device.print_block().address)

    # --- arguments ---------------------------------------------------------------------------------------------

    def set_extents(self, name: str, shape: tuple[int, ...]) -> None:
        """Stores the extents of an array in the frame. Raises `LongAxis` for an axis of 2**31 elements or more unless
        the buffer is wide."""
        at = self.exe.layout.frame.extents[name]
        for n in shape:
            if WORD_FORM.unpack_from(self.view, at)[0] != n:
                if n >> 31 and not self.exe.kernel.buffers[name].wide:
                    raise LongAxis
                WORD_FORM.pack_into(self.view, at, n)
                self._grid_is_old = True
            at += WORD

    def set_arg(self, name: str, value: Any) -> None:
        if name in self.exe.sizing_args and self.arg(name) != value:
            self._grid_is_old = True
        super().set_arg(name, value)

    def place(self, name: str) -> tuple[Callable[[Any, int, Any], None], int]:
        """The function that packs a scalar argument into the view, and the argument's offset. Do not use it for
        arguments that group counts depend on."""
        form, at = self._args[name]
        return form.pack_into, at

    def set_stacks(self, caps: list[int], budget: int = 0, pushing: Mapping[int, int] | None = None) -> None:
        key = tuple(caps), budget, tuple((pushing or {}).items())
        if key != self._stacks_key:
            self._set_plan(caps, self._heap_plan(caps, budget, pushing or {}))
            self._stacks_key = key
        self.device.need_heap(self._heap_bytes, budget)

    def heap_bytes(self, caps: list[int]) -> int:
        return self._heap_plan(caps, 0, {}).heap_bytes

    def least_heap(self, caps: list[int]) -> tuple[int, int]:
        plan = self._heap_plan(caps, 1, {})
        return plan.threads, plan.heap_bytes

    def _heap_plan(self, caps: Sequence[int], budget: int, pushing: Mapping[int, int]) -> HeapPlan:
        layout, device = self.exe.layout.frame, self.device
        by_id = {s.id: cap for s, cap in zip(layout.stacks, caps, strict=True)}
        tasks = self.exe.stacks
        wanted, fewest = 1, GROUP
        for n, (task, stacks, total) in enumerate(zip(self.exe.tasks, tasks, self.exe.totals, strict=True)):
            if stacks and task.kind != "serial":
                iterations = device.threads if total is None else total
                iterations = min(iterations, pushing.get(n, iterations))
                wanted = max(wanted, min(iterations, device.stack_threads))
                # about how many trips the loop that pushes makes, and the reverse loop
                depth = max(by_id[s.id] for s in stacks)
                fewest = max(fewest, device.least_threads(iterations, 2 * depth + 4))
        limit = device.heap_budget
        return heap_plan(tasks, by_id, fewest, wanted, limit, budget or limit)

    def _set_plan(self, caps: Sequence[int], plan: HeapPlan) -> None:
        self.place_stacks(caps, plan.at)
        WORD_FORM.pack_into(self.view, L.THREADS, plan.threads)
        self.stack_threads = plan.threads
        self._heap_bytes, self._lane_bytes = plan.heap_bytes, plan.lane_bytes
        self._grid_is_old = True

    def stack_bytes(self) -> int:
        """How many bytes of adstacks each running thread takes; the heap has room for `stack_threads` threads."""
        return self._lane_bytes

    def replay(self, launch_number: int) -> None:
        self._replay = launch_number

    # --- a launch ----------------------------------------------------------------------------------------------

    def _begin_launch(self) -> None:
        """Counts the launch and sets the words that differ from launch to launch."""
        device, view = self.device, self.view
        if self._grid_is_old:
            self._set_grid()  # raises for loops that never end
        device.launches += 1
        self.launch_number = self._replay or device.launches
        if self.exe.draws:
            _DRAWS.pack_into(view, L.SEED, device.seed, self.launch_number)
        if self._has_stacks:
            WORD_FORM.pack_into(view, L.HEAP, device.heap_address)

    def _clear(self) -> None:
        """Zeroes the words that must be 0 when a launch begins."""
        self.view[: L.FAIL_VALUES] = self._head_zeros
        self.view[self._zero] = self._zeros

    def _set_grid(self) -> None:
        """Computes the group counts of the tasks whose bounds the host knows, and stores them in the frame; programs
        compute the others."""
        for program in self.exe.programs:
            if program.kind != "bounds":
                groups = self._group_count(program, GROUP, self.most_groups(program.number))
                _GRID.pack_into(self.view, self.exe.layout.grid[program.number], groups, 1, 1)
        self._grid_is_old = False

    def _group_count(self, program: Program, group: int, most: int) -> int:
        """How many groups of ``group`` threads the program's iterations fill, at most ``most``."""
        if program.kind != "range":
            return 1
        if not program.inline:
            return most
        return min(most, -(-self._total(program.number) // (group * self.exe.in_step[program.number])))

    def most_groups(self, number: int) -> int:
        """The greatest group count that a launch of task ``number`` may have."""
        exe, device = self.exe, self.device
        if exe.stacked[number]:
            return self.stack_threads // GROUP
        few = exe.reducing[number] and not device.loop_limit
        return (device.reducing_threads if few else device.threads) // GROUP

    def groups(self, number: int) -> int:
        """The group count of task ``number`` in the last launch, as the frame holds it."""
        return int(_GRID.unpack_from(self.view, self.exe.layout.grid[number])[0])

    def _total(self, number: int) -> int:
        fixed = self.exe.totals[number]
        if fixed is not None:
            return fixed
        return inline_total(self.exe.tasks[number], self.arg, self._extent)

    def _extent(self, buffer: str, axis: int) -> int:
        return int(WORD_FORM.unpack_from(self.view, self.exe.layout.frame.extents[buffer] + axis * WORD)[0])

    # --- results and arrays ------------------------------------------------------------------------------------

    @property
    def status(self) -> int:
        return int(WORD_FORM.unpack_from(self.view, L.STATUS)[0])

    def entry(self, params: list[Param], returns: str = "") -> Any:
        return make_entry(self, params, returns)

    def bind_temp(self, name: str, array: np.ndarray[Any, Any] | RemoteMemory) -> Callable[[], None] | None:
        """Binds an array to an ndarray buffer for the next launch. An array that is not in device memory is copied
        there; if the kernel writes it, the result is a function that copies it back, to be called after the launch."""
        self.set_extents(name, array.shape)
        if isinstance(array, RemoteMemory):
            self.set_buffer(name, array.address)
            return None
        address = self.device.locate(array)
        if address and not address % max(4, array.itemsize):  # atomics on elements of 1 or 2 bytes access a whole word
            self.set_buffer(name, address)
            return None
        memory = self._copies.get(name)
        if memory is None or memory[0] != array.shape:
            memory = self._copies[name] = (array.shape, self.device.allocate(array.shape, array.dtype))
        memory[1].write(array)
        self.set_buffer(name, memory[1].address)
        if name not in self.exe.written:
            return None
        return lambda: np.copyto(array, memory[1].read())


# --- the fast entry: a function made for the kernel's parameters, which checks arguments like the CPU's entry --------


def meet(a: Any, b: Any) -> bool:
    """Whether two arrays overlap. An array of the host never overlaps one of the device."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a.__class__ is b.__class__ and np.may_share_memory(a, b)
    return bool(a.address < b.address + b.nbytes and b.address < a.address + a.nbytes)


def fits(t: DType, x: str) -> str:
    """The text of a Python expression that is true if the variable ``x`` converts to the dtype without loss."""
    if t.kind == "b":
        return f"{x}.__class__ is bool"
    if t.is_float:
        if t.bits == 16:
            return "False"
        most = float(np.finfo(t.numpy).max)
        inside = f"({x}.__class__ is int and abs({x}) < {most!r})"
        narrow = "" if t.bits == 64 else f" and not {most!r} < abs({x}) < inf"
        return f"(({x}.__class__ is float{narrow}) or {inside})"
    low, high = t.limits
    return f"({x}.__class__ is int and {low} <= {x} <= {high})"


def make_entry(frame: GpuFrame, params: list[Param], returns: str) -> Callable[..., Any]:
    """See `quadrants_lab.backends.launch.Frame.entry`."""
    if any(b.wide for b in frame.exe.kernel.buffers.values()):
        return lambda *args: NotImplemented
    types = {a.name: a.type for a in frame.exe.kernel.args}
    space: dict[str, Any] = {
        "memory": frame.device.memory, "array": np.ndarray, "bind_temp": frame.bind_temp, "launch": frame.launch,
        "ret": frame.ret, "set_arg": frame.set_arg, "view": frame.view, "inf": float("inf"), "long_axis": LongAxis,
        "meet": meet,
    }  # fmt: skip
    names = [f"a{n}" for n in range(len(params))]
    checks: list[str] = []
    sets: list[str] = []
    for n, p in enumerate(params):
        if isinstance(p, ScalarParam):
            checks.append(f"    if not {fits(types[p.arg], f'a{n}')}: return NotImplemented")
            if p.arg in frame.exe.sizing_args:
                sets.append(f"    set_arg({p.arg!r}, a{n})")
            else:
                space[f"pack{n}"], at = frame.place(p.arg)
                sets.append(f"    pack{n}(view, {at}, a{n})")
        elif isinstance(p, ArrayParam):
            b = frame.exe.kernel.buffers[p.buffer]
            space[f"dtype{n}"] = np.dtype(b.dtype.numpy)
            must = f"a{n}.dtype != dtype{n} or a{n}.ndim != {b.ndim}"
            flags = f"f{n}.c_contiguous and f{n}.aligned"
            if b.name in frame.exe.written:
                flags += f" and f{n}.writeable"
            checks += [
                f"    if a{n}.__class__ is not memory:",
                f"        if a{n}.__class__ is not array: return NotImplemented",
                f"        f{n} = a{n}.flags",
                f"        if not ({flags}): return NotImplemented",
                f"    if {must}: return NotImplemented",
            ]
            sets.append(f"    g{n} = bind_temp({b.name!r}, a{n})")
            sets.append(f"    if g{n} is not None: after.append(g{n})")
    lines = ["def entry(*args):", f"    if len(args) != {len(params)}: return NotImplemented"]
    if names:
        lines.append(f"    {', '.join(names)}, = args")
    lines += [*checks, *_overlaps(frame, params, space)]
    if any(of_kind(params, ArrayParam)):
        lines += ["    after = []", "    try:", *(f"    {line}" for line in sets)]
        lines += ["    except long_axis: return NotImplemented", "    status = launch()"]
        lines.append("    for unbind in after: unbind()")
    else:
        lines += [*sets, "    status = launch()"]
    lines.append("    if status: return Ellipsis")
    lines.append(f"    return ret({returns!r})" if returns else "    return None")
    entry: Callable[..., Any] = function("entry", "\n".join(lines), space)
    return entry


def _overlaps(frame: GpuFrame, params: list[Param], space: dict[str, Any]) -> list[str]:
    """Lines of source that refuse overlapping arrays if the kernel writes one of them. An ``aliased`` kernel takes
    overlapping arrays of the device; but arrays of the host would each be copied separately (`frames.launch_slowly`).
    """
    arrays = [(n, p.buffer) for n, p in enumerate(params) if isinstance(p, ArrayParam)]
    written, aliased = frame.exe.written, frame.exe.kernel.aliased
    if len(arrays) > _FEW and not written.isdisjoint(name for _, name in arrays):
        kinds = [overlap.WRITTEN if name in written else overlap.READ for _, name in arrays]
        space["met"] = lambda given: any(given[n].__class__ is np.ndarray or not aliased
                                         for n, _ in overlap.overlapping(overlap.spans(given), kinds))  # fmt: skip
        return [f"    if met(({', '.join(f'a{n}' for n, _ in arrays)})): return NotImplemented"]
    pairs = [(n, m) for (n, a), (m, b) in combinations(arrays, 2) if {a, b} & written]
    if aliased:
        return [f"    if a{n}.__class__ is array and meet(a{n}, a{m}): return NotImplemented" for n, m in pairs]
    numbers = sorted({n for pair in pairs for n in pair})
    lines = [f"    s{n} = a{n}.__class__ is array or a{n}.imported" for n in numbers]
    met = "a{n} is a{m} or ((s{n} or s{m}) and meet(a{n}, a{m}))"
    return lines + [f"    if {met.format(n=n, m=m)}: return NotImplemented" for n, m in pairs]
