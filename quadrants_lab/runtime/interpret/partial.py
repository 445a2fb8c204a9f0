"""Runs a few iterations of a launch, however large the launch is. Of earlier tasks it runs, on demand, only the
iterations that may have written an element that is read.

The indices of the writes tell which iterations may have written an element (`analysis.accesses`): `b[i + 1]` is written
by one iteration. If the indices do not tell, all iterations run. Elements that no later task writes are read from
memory as it was after the launch.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate
from quadrants_lab.analysis.accesses import Accesses, symbol
from quadrants_lab.analysis.effects import touched
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.interpret.interpreter import Box, Env, Iterations, Lane, Observer, interpret
from quadrants_lab.runtime.record.launch_data import LaunchData

MOST_BEFORE = 300_000  # the most statements of earlier tasks that are run
_OF_LAUNCH = ("temp", "ret", "scratch")  # kinds of buffers that start as zeros unless their content is given


class Partial:
    """Runs iterations of ``launch``. The data of the launch are not changed."""

    def __init__(self, launch: LaunchData) -> None:
        self.launch, self.kernel, self.before = launch, launch.kernel, dict(launch.before)
        kernel = launch.kernel
        live = LiveData({a.name: a.type.numpy(launch.scalars[a.name]) for a in kernel.args}, self.before)
        for b in kernel.buffers.values():
            if b.kind in _OF_LAUNCH and b.name not in launch.before:
                self.before[b.name] = np.zeros([evaluate(e, live) for e in b.extents], b.dtype.numpy)
        self.writes = [touched((t,), N.Write) for t in kernel.body]
        # for each task: (buffer, index) of each element that it wrote -> value
        self.written: list[dict[tuple[str, Lane], Any]] = [{} for _ in kernel.body]
        self.repeated: list[set[Lane]] = [set() for _ in kernel.body]  # for each task: the iterations that have run
        self.all: set[int] = set()  # the tasks of which all iterations have run
        self.statements = 0
        self.accesses: Accesses | None = None

    def run(self, task: int, observer: Observer, iterations: Iterations) -> None:
        """Runs these iterations of one task."""
        single = replace(self.kernel, body=(self.kernel.body[task],))
        arrays: dict[str, Any] = {name: View(self, task, name) for name in self.before}
        of = self.launch
        interpret(single, of.scalars, arrays, caps=of.caps, random=of.random, observer=observer, iterations=iterations)

    def read(self, task: int, name: str, index: Lane) -> Any:
        """The value that the task finds in an element."""
        if name in self.launch.after and not any(name in writes for writes in self.writes[task:]):
            return self.launch.after[name][index]
        for t in reversed(range(task)):
            if name in self.writes[t]:
                self._repeat(t, name, index)
                if (name, index) in self.written[t]:
                    return self.written[t][name, index]
        return self.before[name][index]

    def _repeat(self, task: int, name: str, index: Lane) -> None:
        """Runs the iterations of the task that may have written the element, unless they have run already."""
        lanes = None if task in self.all else self.writers(task, name, index)
        if task in self.all or (lanes is not None and lanes <= self.repeated[task]):
            return
        done = self.repeated[task]

        def wanted(offload: N.Offload, box: Box) -> Iterable[Lane]:
            if lanes is not None:
                return [x for x in lanes - done if all(k in axis for k, axis in zip(x, box, strict=True))]
            if math.prod(map(len, box)) > MOST_BEFORE:
                raise self._too_many()
            return (x for x in product(*box) if x not in done)

        self.run(task, self._count, wanted)
        if lanes is None:
            self.all.add(task)
        else:
            done |= lanes

    def writers(self, task: int, name: str, index: Lane) -> set[Lane] | None:
        """The iterations of the task that may write the element; None if that is unknown."""
        if self.accesses is None:
            self.accesses = Accesses(self.kernel)
        offload = self.kernel.body[task]
        assert isinstance(offload, N.Offload)
        found: set[Lane] = set()
        for write in self.accesses.writes.get(name, ()):
            if write.task is not offload:
                continue
            known = {}
            for form, k in zip(write.at, index, strict=True):
                if len(form.terms) == 1 and 1 in form.terms.values():
                    known[next(iter(form.terms))] = k - form.const
            if not all(symbol(p.id) in known for p in offload.indices):
                return None
            found.add(tuple(known[symbol(p.id)] for p in offload.indices))
        return found

    def _count(self, s: N.Stmt, value: Any, env: Env) -> None:
        self.statements += 1
        if self.statements > MOST_BEFORE:
            raise self._too_many()

    def _too_many(self) -> QuadrantsRuntimeError:
        return QuadrantsRuntimeError(
            f"computing what this task of kernel {self.kernel.name} reads takes more than {MOST_BEFORE:,} statements "
            "of earlier tasks",
            code="QL0708",
            help="launch it on less data to follow it step by step",
        )


class View:
    """A buffer as one task sees it: values from before the task, and the values that the task writes."""

    def __init__(self, launch: Partial, task: int, name: str) -> None:
        base = launch.before[name]
        self.shape, self.dtype, self.ndim = base.shape, base.dtype, base.ndim
        self.launch, self.task, self.name = launch, task, name
        self.written = launch.written[task]

    def __getitem__(self, index: Lane) -> Any:
        key = self.name, index
        return self.written[key] if key in self.written else self.launch.read(self.task, self.name, index)

    def __setitem__(self, index: Lane, value: Any) -> None:
        self.written[self.name, index] = value

    def read(self) -> Any:
        """The whole array, as expressions of stack sizes need it; no launch changes the buffers that these read."""
        base = self.launch.before[self.name]
        return base if isinstance(base, np.ndarray) else base.read()
