"""Makes the data of a page that runs a program in the browser: its launches in order, their kernels as WebAssembly
modules, the values before the first launch. The scripts of `widgets/live_page` run it.

    wave.export("wave.html", live=True)            the last launch of a kernel
    qd.ad.export(program, loss, "program.html")    the launches of a program
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.autodiff.explain import added_names
from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends.layout import STACK_AT, STACK_CAPACITY, STACK_LAST
from quadrants_lab.backends.wasm import CAPABILITIES, probe
from quadrants_lab.backends.wasm.emitter import FIRST, module
from quadrants_lab.backends.wasm.lanes import LaneSchedule
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import from_numpy
from quadrants_lab.ir.walk import find, types_of
from quadrants_lab.notebook.collect import source_lines
from quadrants_lab.notebook.live_steps import steps_of
from quadrants_lab.notebook.views import size_tree
from quadrants_lab.passes.check_bounds import BOUNDS_CURE, NO_ELEMENT
from quadrants_lab.passes.log_values import log_values
from quadrants_lab.runtime import session
from quadrants_lab.runtime.check.differences import launched, restore
from quadrants_lab.runtime.compile.compile import elsewhere
from quadrants_lab.runtime.compile.specialisation import Compiled
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import unwatched, watch
from quadrants_lab.runtime.record.launch_data import last_case
from quadrants_lab.runtime.tape.python_writes import record_python_writes
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.widgets.model import span_line
from quadrants_lab.widgets.sizes import node

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan

Array = npt.NDArray[Any]
Before = Callable[[Any, str], Array | None]  # (memory or array, its buffer) -> values before the program, if known
MOST_BYTES = 64 << 20  # the most bytes of all arrays that a page contains
MOST_LAUNCHES = 1000
HEAD = {
    "status": L.STATUS, "failed": L.FAILED, "what": L.FAIL_WHAT, "count": L.FAIL_COUNT, "values": L.FAIL_VALUES,
    "seed": L.SEED, "launch": L.LAUNCH, "threads": L.THREADS, "lanes": L.LANES, "heap": L.HEAP, "prints": L.PRINTS,
    "bytes": L.HEAD_BYTES, "capacity": STACK_CAPACITY, "last": STACK_LAST, "at": STACK_AT, "room": L.PRINT_ROOM,
    "first": FIRST,
}  # fmt: skip


def not_live(name: str, why: str, help: str = "") -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(f"{name} cannot compute in a page: {why}", code="QL0720", help=help)


# --- kernels --------------------------------------------------------------------------------------------------------


@deeply_recursive
def describe(kernel: N.Kernel, options: CompileOptions, file: str, lanes: bool = True) -> dict[str, Any]:
    """A kernel as data for the page: its WebAssembly module, a module for engines without vectors, and the layout of
    its launch frame."""
    one = replace(kernel, body=tuple(replace(t, lanes=0, why="one by one") for t in kernel.tasks))
    wide = LaneSchedule(options.fast_math, options.reproducible)(kernel) if lanes else one
    words = L.gpu_layout(wide)
    frame, code = words.frame, module(wide, options).binary()
    scalar = module(one, options).binary()
    types, asserts = types_of(kernel.body), []
    cures = {"bounds": (NO_ELEMENT, BOUNDS_CURE), "assert": ("this did not hold", ""), "division": ("no value", "")}
    for a in frame.asserts:
        label, cure = cures[a.kind]
        asserts.append([a.message, a.kind, span_line(a.span, file), label, cure, [types[i].name for i in a.args]])
    forced = options.ad_stack_size
    stacks = []
    for s in frame.stacks:
        task = frame.task_of[s.id]
        size = S.SizeConst(forced) if forced else s.size or S.SizeConst(0)
        stacks.append({
            "id": s.id, "name": s.name or f"%{s.primal}", "line": span_line(s.span, file), "dtype": s.type.name,
            "reason": s.reason, "task": task, "lanes": max(1, wide.tasks[task].lanes),
            "at": frame.stack_at.get(s.id, -1), "size": node(size_tree(size, {})),
        })  # fmt: skip
    outside = [b for b in wide.buffers.values() if b.kind in ("field", "ndarray", "scratch")]
    return {
        "name": kernel.name, "module": text(code), "scalar": "" if scalar == code else text(scalar),
        "bytes": len(code), "size": words.size, "zero": [frame.zero_at, frame.zero_bytes],
        "buffers": {b.name: frame.buffers[b.name] for b in outside},
        "extents": {b.name: frame.extents[b.name] for b in outside if b.name in frame.extents},
        "args": {a.name: [frame.args[a.name], a.type.name] for a in kernel.args},
        "returns": [[b.name, frame.buffers[b.name], b.dtype.name] for b in wide.buffers.values() if b.kind == "ret"],
        "scratch": [
            {"name": b.name, "width": b.dtype.nbytes, "role": b.role,
             "extents": [node(size_tree(e, {})) for e in b.extents]}
            for b in outside if b.kind == "scratch"
        ],
        "writes": sorted({s.buffer for s in find(kernel.body, N.Write)}),
        "stacks": stacks, "asserts": asserts, "vectors": any(t.lanes > 1 for t in wide.tasks),
    }  # fmt: skip


def _logging(kernel: N.Kernel, options: CompileOptions, source: FunctionSource) -> dict[str, Any]:
    """Data about the kernel variant that logs one iteration: the module, and the steps that the log stands for."""
    logging, runs = log_values(kernel)
    found = describe(logging, options, source.file, lanes=False)
    return found | {"tasks": steps_of(kernel, runs, source, added_names(source.node))}


def text(data: bytes) -> str:
    return b64encode(data).decode()


def compiled_for_pages(compiled: Compiled) -> dict[str, Any]:
    """A kernel, its gradient and the counting slice, as data."""
    file = compiled.source.file
    made = elsewhere(compiled, CAPABILITIES)
    found: dict[str, Any] = {"forward": describe(made.forward, made.options, file), "none": made.why_none}
    found["steps"] = {"forward": _logging(made.forward, made.options, compiled.source)}
    for name, kernel in (("reverse", made.gradient), ("counting", made.counting)):
        if kernel is not None:
            assert made.gradient_options is not None
            found[name] = describe(kernel, made.gradient_options, file)
    kernels = [made.forward]
    if made.gradient is not None and made.gradient_options is not None:
        kernels.append(made.gradient)
        found["steps"]["reverse"] = _logging(made.gradient, made.gradient_options, compiled.source)
    found["passive"] = not any(b.grad for b in compiled.lowered.kernel.buffers.values())
    found["source"] = [(line.span_line, line.text) for line in source_lines(compiled.source, alone=True)]
    found["uses"] = kernels  # taken out before the page is written
    return found


# --- programs -------------------------------------------------------------------------------------------------------


class Program:
    """A program as data for the page: its launches and Python's writes, in order. ``before`` finds the values of memory
    before the program."""

    def __init__(self, title: str, before: Before) -> None:
        if why := probe():
            raise not_live(title, why[0].lower() + why[1:].rstrip("."))
        self.before = before
        self.arrays: list[dict[str, Any]] = []
        self.kernels: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.numbers: dict[Any, int] = {}  # memory or array -> number of the array in the data
        self.of: dict[int, int] = {}  # id of compiled code -> number of the kernel in the data
        self.uses: list[list[N.Kernel]] = []
        self.kept_alive: list[Any] = []
        self.touched: set[int] = set()
        self.bytes = 0
        self.title = title

    def array(self, it: Any, name: str, derivative: bool = False) -> int:
        """The number, in the data, of a memory or array; a new one is added."""
        key = it.serial if isinstance(it, Memory) else id(it)
        if key in self.numbers:
            return self.numbers[key]
        if isinstance(it, Memory) and it.order:
            raise not_live(self.title, f"{name} lies in a sparse layout, which pages do not have")
        self.kept_alive.append(it)
        values = None if derivative else self.before(it, name)
        now = it.values() if isinstance(it, Memory) else it
        dtype = it.dtype.name if isinstance(it, Memory) else _dtype_name(it)
        self.bytes += now.nbytes
        if self.bytes > MOST_BYTES:
            raise not_live(self.title, f"its arrays take more than {MOST_BYTES >> 20} MB", "launch it on less data")
        taken = {a["name"] for a in self.arrays}
        own = next(n for n in (name, *(f"{name} ({k})" for k in range(2, 1000))) if n not in taken)
        self.numbers[key] = number = len(self.arrays)
        found = {"name": own, "dtype": dtype, "shape": [*now.shape], "grad": -1, "known": values is not None}
        found["values"] = 0 if derivative else now if values is None else values
        self.arrays.append(found | {"input": False, "output": False, "derivative": derivative})
        return number

    def launch(self, plan: Plan, args: Sequence[Any], number: int) -> None:
        """Adds a launch."""
        if len(self.steps) >= MOST_LAUNCHES:
            raise not_live(self.title, f"it has more than {MOST_LAUNCHES} launches", "take fewer steps of time")
        compiled = plan.compiled
        if id(compiled) not in self.of:
            self.of[id(compiled)] = len(self.kernels)
            self.kept_alive.append(compiled)
            made = compiled_for_pages(compiled)
            self.uses.append(made.pop("uses"))
            self.kernels.append(made)
        kernel = self.of[id(compiled)]
        bind = self._bound(plan, args, self.uses[kernel])
        self._roles(self.uses[kernel][0], bind)
        slots = zip(plan.slots, args, strict=True)
        scalars = {slot.name: number_of(arg) for slot, arg in slots if slot.kind == "scalar"}
        self.steps.append({"kernel": kernel, "bind": bind, "scalars": scalars, "number": number})

    def _bound(self, plan: Plan, args: Sequence[Any], kernels: Sequence[N.Kernel]) -> dict[str, int]:
        """The array of each buffer, and the gradients of the arrays."""
        buffers = {name: b for k in kernels for name, b in k.buffers.items() if b.kind in ("field", "ndarray")}
        derivatives = {b.grad: b.name for b in buffers.values() if b.grad}
        given = {slot.name: arg for slot, arg in zip(plan.slots, args, strict=True) if slot.kind == "array"}
        bound: dict[str, int] = {}
        for name in sorted(buffers, key=derivatives.__contains__):
            primal = derivatives.get(name, "")
            if primal:
                grad = plan.gradient_of(primal, args)
                if grad is not None:
                    bound[name] = self.array(grad, f"{self.arrays[bound[primal]]['name']}.grad", derivative=True)
                    self.arrays[bound[primal]]["grad"] = bound[name]
                continue
            it = given.get(name)
            it = plan.compiled.field(name) if it is None else it
            memory = memory_of(it)
            bound[name] = self.array(it if memory is None else memory, name)
        missing = [name for name in buffers if name not in bound]
        if missing:
            raise not_live(self.title, f"{', '.join(missing)} of kernel {plan.kernel.name} has no memory")
        return bound

    def _roles(self, kernel: N.Kernel, bind: Mapping[str, int]) -> None:
        """Marks arrays as inputs (a launch reads values that no earlier launch wrote) and outputs (a launch writes
        them)."""
        for s in find(kernel.body, N.Access):
            if s.buffer not in bind:
                continue
            array = self.arrays[bind[s.buffer]]
            if bind[s.buffer] not in self.touched:
                self.touched.add(bind[s.buffer])
                array["input"] = s.loads
                if not array["input"] and not array["known"]:
                    array["values"] = 0  # the values before the launch are not needed, or not known
            array["output"] |= isinstance(s, N.Write)

    def write(self, memory: Memory, elements: Sequence[tuple[Any, Any]]) -> None:
        """Adds Python's writes."""
        number = self.numbers.get(memory.serial)
        if number is None:
            return
        shape = memory.operand.shape
        places = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
        for where, values in elements:
            at = places[where]
            data = np.broadcast_to(np.asarray(values, memory.dtype.numpy), at.shape)
            self.steps.append({"write": number, "at": at.reshape(-1).tolist(), **packed(data)})

    def data(self, loss: int | None = None, seeds: Mapping[int, Array] | None = None) -> dict[str, Any]:
        """The whole program, as data for JSON. ``loss``: the number of the array that is differentiated; without it
        ``seeds`` has the gradients of the outputs."""
        shown = ("name", "dtype", "shape", "grad", "input", "output", "derivative")
        arrays = [{key: a[key] for key in shown} | packed(a["values"]) for a in self.arrays]
        if loss is None:
            ends = [n for n, a in enumerate(self.arrays) if a["output"] and a["grad"] >= 0]
            numbers = [n for n in ends if not self.arrays[n]["shape"] and not self.arrays[n]["input"]]
            loss = numbers[0] if len(numbers) == len(ends) == 1 else None
        for n, values in (seeds or {}).items():
            arrays[n]["seed"] = packed(values)
        return {
            "title": self.title, "head": HEAD, "arrays": arrays, "kernels": self.kernels,
            "steps": self.steps, "loss": -1 if loss is None else loss,
            "random": session.current().settings.random_seed,
        }  # fmt: skip


def _dtype_name(array: Array) -> str:
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    return str(dtype.name)


def number_of(value: Any) -> Any:
    """A scalar for JSON, which has no infinity."""
    plain = value.item() if hasattr(value, "item") else value
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain


def packed(values: Any) -> dict[str, Any]:
    """An array for JSON: a single number if all elements have this value, else the bytes."""
    array = np.ascontiguousarray(values)
    raw = array.reshape(-1).view("u1").reshape(-1, array.itemsize) if array.size else np.zeros((0, 1), "u1")
    if not raw.any():
        return {"zero": True}
    one = bool((raw == raw[0]).all())
    return {"one" if one else "all": text((raw[:1] if one else raw).tobytes())}


# --- what is exported -----------------------------------------------------------------------------------------------


def of_kernel(dispatcher: Dispatcher) -> dict[str, Any]:
    """The last launch of a kernel, with the data from before it where it was recorded."""
    case = last_case(dispatcher)
    last = next((x.last for x in (dispatcher, *dispatcher.variants.values()) if x.mode == "forward" and x.last), None)
    if last is None:
        raise not_live(dispatcher.name, "it was not launched yet", "call it once")
    args = _arguments(last, None if case is None else [arg() for arg in case.args], case)

    def before(it: Any, name: str) -> Array | None:
        if case is None or name not in case.before:
            return None
        found = case.values(it) if isinstance(it, Memory) and it.serial in case.of else case.named(name)
        return None if found is None else np.array(found)

    program = Program(dispatcher.name, before)
    program.launch(last, args, last.frame.launch_number)
    return program.data(seeds=_seeds(program, last, dispatcher.gradient))


def _seeds(program: Program, last: Plan, gradient: Dispatcher | None) -> dict[int, Array]:
    """The values that the gradients of the outputs had before the last recorded launch of the gradient."""
    back = None if gradient is None else last_case(gradient)
    seeds = {}
    for buffer, n in program.steps[0]["bind"].items() if back is not None else ():
        array, grad = program.arrays[n], last.compiled.lowered.kernel.buffers[buffer].grad
        found = back.named(grad) if back is not None and array["output"] and array["grad"] >= 0 else None
        if found is not None and np.any(found):
            seeds[n] = np.array(found)
    return seeds


def _arguments(plan: Plan, known: Sequence[Any] | None, case: Any) -> list[Any]:
    """The arguments of the last launch of the plan (a compiled kernel)."""
    args = []
    for n, slot in enumerate(plan.slots):
        if slot.kind == "scalar":
            args.append(plan.frame.arg(slot.name))
            continue
        arg = None if known is None else known[n]
        if isinstance(arg, str) and slot.kind == "array":
            arg = np.array(case.named(arg))
        if arg is None and slot.kind == "array":
            raise not_live(
                plan.kernel.name, f"no launch of it was recorded, so its argument {slot.name} is not known",
                "launch it in a %%qdkernel cell or within qd.recording(), or take a field",
            )  # fmt: skip
        args.append(arg)
    return args


def of_launches(launches: Launches, title: str) -> Program:
    """A recorded program."""

    def before(it: Any, name: str) -> Array | None:
        known = launches.initial.get(id(it))
        return None if known is None else np.array(known[1])

    program = Program(title, before)
    for step in launches.leaves():
        launch = step.launch
        if launch is not None:
            program.launch(*launch)
        elif step.write is not None:
            program.write(*step.write)
        elif step.gradient is not None or step.repeat is not None:
            raise not_live(title, "a function with a gradient in Python has no page", "write it as kernels")
    return program


def of_cell(launches: Launches, loss: Any) -> dict[str, Any]:
    """The launches of a cell with ``--grad``."""
    names = dict.fromkeys(plan.kernel.name for plan, _ in launched(launches))
    program = of_launches(launches, ", ".join(names))
    for kernel in program.kernels:
        kernel["source"] = []  # the page shows the cell's source above
    return program.data(program.numbers.get(loss._memory.serial))


def of_program(program: partial[object], loss: Any) -> dict[str, Any]:
    """The launches of a program. To record them the program runs once; then the data that it wrote gets its old values
    back."""
    launches = Launches(repeatable=True)
    name = str(getattr(program.func, "name", "") or getattr(program.func, "__name__", "program"))
    try:
        loss.fill(0)
        with unwatched(), watch(launches):
            program()
            record_python_writes(launches)
        found = of_launches(launches, "program" if name == "<lambda>" else name)
        number = found.numbers.get(loss._memory.serial)
        if number is None:
            raise not_live(name, "no launch touches the loss")
        restore(launches)
        return found.data(number)
    finally:
        launches.clear()
