"""A stand-in for NVIDIA's driver where there is no device: it compiles the LLVM IR of `_simt` for this machine's
processor and runs one thread after the other.

Launches are late on purpose: they run at the next wait, so that reading memory without waiting gives old values. The
memory of the "device" belongs to this process. Unlike on a real device, a warp has one thread, and elementary functions
are those of the C library.

The garbage collector may free a frame's memory in any thread (under pytest-xdist also in the thread that talks to the
controller) and during a launch. As on a device, one queue keeps the order: a wait returns when everything that was
queued before has run, in whichever thread, and memory is freed after what was queued before. Freeing is no work of the
queue: it may happen while a graph is captured, when waiting is an error.
"""

import ctypes
import os
import re
import threading
from collections import deque
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from quadrants_lab.backends._gpu.programs import Program, programs
from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.text import Function, Module
from quadrants_lab.backends._simt.body import Target, module
from quadrants_lab.backends._simt.shape import Shape
from quadrants_lab.backends.cpu import jit
from quadrants_lab.backends.cuda import driver
from quadrants_lab.backends.cuda.driver import SHAPE
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions

_RUN = """\
define void @run.{name}(ptr %state, ptr %frame, i32 %threads) {{
entry:
  store i32 %threads, ptr @qd.threads
  br label %loop
loop:
  %t = phi i32 [0, %entry], [%next, %loop]
  store i32 %t, ptr @qd.thread
  call void @{name}(ptr %state, ptr %frame)
  %next = add i32 %t, 1
  %more = icmp ult i32 %next, %threads
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def _unit(name: str, c: Ctx) -> str:
    """The C library's function in place of the GPU's function unit."""
    return c.fn.call("float", name, ("float", c.args[0]))


class Host(Target):
    """This machine's processor as a target: one thread a warp."""

    name = "host"
    warp = 1
    global_space = 0

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.own = {f"unit_{prim}": partial(_unit, f"{prim}f") for prim in ("sin", "cos")}
        self.triple, self.layout = jit.triple_and_layout()

    def head(self, program: Program, group: int, frame_bytes: int) -> str:
        return f"define internal void @{program.name}(ptr %state, ptr %frame) noinline"

    def thread(self, fn: Function) -> str:
        return fn.let("load i32, ptr @qd.thread")

    def threads(self, fn: Function) -> str:
        return fn.let("load i32, ptr @qd.threads")

    def place(self, fn: Function) -> str:
        raise NotImplementedError

    def shuffle_down(self, fn: Function, word: str, distance: int) -> str:
        raise NotImplementedError

    def barrier(self, fn: Function, threads: int) -> None:
        raise NotImplementedError

    def shared(self, mod: Module) -> str:
        raise NotImplementedError

    def finish(self, mod: Module, kernel: N.Kernel) -> None:
        mod.helper("qd.numbers", "@qd.thread = internal global i32 0\n@qd.threads = internal global i32 0")
        for p in programs(kernel):
            mod.helper(f"run.{p.name}", _RUN.format(name=p.name))


class StandIn:
    """See `quadrants_lab.backends.cuda.driver.Driver`. ``launches`` counts; ``waits`` too."""

    shape = replace(SHAPE, barriers=False, warp=1)
    name = "a stand-in for a CUDA device"
    code_name = "host"
    capability = 90
    version = 13000
    multiprocessors = 2
    threads_at_once = 1024
    stream = SimpleNamespace(value=5)

    def __init__(self, total_bytes: int = 1 << 30, ordinal: int = 0) -> None:
        self.ordinal = ordinal
        self.total_bytes = total_bytes
        self.used = 0
        self.launches = self.waits = self.marks = self.graphs = self.updates = self.graph_launches = 0
        self._memory: dict[int, Any] = {}
        self._pending: deque[Any] = deque()
        self._captured: list[Any] | None = None  # the works of a graph, while it is captured
        self._order = threading.RLock()  # held by the thread that runs what is queued
        self._draining = False
        self._streams: dict[int, list[Any]] = {}  # what other libraries have put into theirs

    def enter(self) -> None:
        pass

    def check(self, result: int, what: str) -> None:
        assert not result, what

    # --- memory

    def free_bytes(self) -> int:
        return self.total_bytes - self.used

    def allocate(self, nbytes: int) -> int:
        if nbytes > self.free_bytes():
            raise MemoryError(f"allocating {nbytes} bytes: out of memory")
        return self._take(ctypes.create_string_buffer(b"\xcd" * min(nbytes, 1 << 16), nbytes + 256), nbytes)

    def _take(self, block: Any, nbytes: int) -> int:
        address = -(-ctypes.addressof(block) // 256) * 256
        with self._order:
            self._memory[address] = (block, nbytes)
            self.used += nbytes
        return address

    def free(self, address: int) -> None:
        with self._order:
            self._pending.append(lambda: self._drop(address))
            self._run_pending()

    def _drop(self, address: int) -> None:
        with self._order:
            self.used -= self._memory.pop(address)[1]

    pinned = allocate
    free_pinned = free

    def clear(self, address: int, nbytes: int) -> None:
        self._queue(lambda: ctypes.memset(address, 0, nbytes))

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        self._queue(lambda: ctypes.memmove(address, pattern * count, len(pattern) * count))

    def upload(self, address: int, host: int, nbytes: int) -> None:
        self.wait("upload")
        ctypes.memmove(address, host, nbytes)

    def download(self, host: int, address: int, nbytes: int) -> None:
        self.wait("download")
        ctypes.memmove(host, address, nbytes)

    def start_download(self, pinned: int, address: int, nbytes: int) -> None:
        assert pinned in self._memory
        self._queue(lambda: ctypes.memmove(pinned, address, nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._queue(lambda: ctypes.memmove(target, source, nbytes))

    # --- other libraries

    def home(self, address: int) -> int:
        inside = any(start <= address < start + max(n, 1) for start, (_, n) in list(self._memory.items()))
        return 0 if inside else -1

    def put(self, stream: int, work: Any) -> None:
        """Queues work of another library in its stream, which runs as late as launches do."""
        self._streams.setdefault(stream, []).append(work)

    def drain(self, stream: int) -> None:
        """Waits for another library's stream."""
        self._streams.setdefault(stream, [])
        _run_all(self._streams[stream])

    def wait_stream(self, stream: int) -> None:
        if stream > 1:
            before = self._streams.pop(stream, [])
            self._pending.append(lambda: _run_all(before))
            self.put(stream, lambda: _run_all(before))

    def signal_stream(self, stream: int) -> None:
        if stream > 1:
            self.put(stream, lambda: self.wait("another stream"))

    # --- what runs

    def _queue(self, work: Any) -> None:
        (self._pending if self._captured is None else self._captured).append(work)

    def running(self) -> bool:
        return bool(self._pending) or self._draining

    def wait(self, what: str) -> None:
        with self._order:
            assert self._captured is None, f"{what} during a capture"
            self.waits += 1
            self._run_pending()

    def _run_pending(self) -> None:
        with self._order:
            if self._draining:  # the collector, called by what runs here: this comes after it
                return
            self._draining = True
            try:
                while self._pending:
                    self._pending.popleft()()
            finally:
                self._draining = False

    def new_event(self) -> Any:
        return None

    def free_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any) -> None:
        self.marks += 1

    def await_event(self, event: Any, what: str) -> None:
        self.wait(what)

    def build(self, kernel: N.Kernel, options: CompileOptions) -> bytes:
        return "\n".join(module(kernel, options, self.target()).lines()[0]).encode()

    def target(self) -> Target:
        return Host(self.shape)

    def load(self, code: bytes, what: str) -> Any:
        text = code.decode()
        names = tuple(re.findall(r"^define void @(run\.\w+)\(", text, re.MULTILINE))
        return jit.link(jit.compiled(text, False, False), names, {})

    def unload(self, module: Any) -> None:
        pass

    def function(self, module: Any, name: str, block: int) -> Any:
        run = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)(module.address[f"run.{name}"])
        return SimpleNamespace(
            run=run, name=name, block=block, registers=32, local_bytes=0, blocks_at_once=1024 // block, keep=module
        )

    def call(self, function: Any, blocks: int, state: int, frame: int, nbytes: int) -> Any:
        def launch() -> int:
            self.launches += 1
            if self.shape.passed_by_value(nbytes):
                content = ctypes.create_string_buffer(ctypes.string_at(frame, nbytes))
                run = lambda: function.run(state, ctypes.addressof(content), blocks * function.block)
            else:
                run = lambda: function.run(state, frame, blocks * function.block)
            self._queue(run)
            return 0

        return SimpleNamespace(run=launch, args=())

    def graph(self, run: Any) -> Any:
        return StandInGraph(self, run)


class StandInGraph:
    """See `quadrants_lab.backends.cuda.driver.Graph`."""

    def __init__(self, device: StandIn, run: Any) -> None:
        self.device, self.run = device, run
        device.graphs += 1
        self.update()

    def update(self) -> None:
        device = self.device
        device._captured = works = list[Any]()
        try:
            self.run()
        finally:
            device._captured = None
        self.works = works
        device.updates += 1

    def launch(self) -> None:
        self.device.graph_launches += 1
        self.device._pending += self.works


def _run_all(works: list[Any]) -> None:
    """Runs each of the functions once."""
    while works:
        works.pop(0)()


def install() -> None:
    """Registers the stand-in, which has no effect where there is a device. It is omitted if QL_NO_STAND_IN is cuda."""
    if driver.stand_in() is None and os.environ.get("QL_NO_STAND_IN") != "cuda":
        for number in range(2):
            driver.register(StandIn(ordinal=number))
