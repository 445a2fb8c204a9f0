"""Queues launches: several are submitted together, and their completion is noticed at the next wait.

A launch is submitted at once if fewer than `_SUBMISSIONS` submissions are running. Otherwise launches are collected, up
to `MOST`, until one of these has ended or a wait begins. Launches run in order. A submission is one primary command
buffer that executes the command buffers of its launches, because drivers take long for each submission. The work in
flight is limited to two parts of `_gpu.device`, because Ctrl-C cannot cancel it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any, Generic, Protocol, TypeVar

from quadrants_lab.backends import forks
from quadrants_lab.backends._gpu.device import LEAST, PART, Cost, learn
from quadrants_lab.backends.vulkan import api

Reused = TypeVar("Reused", bound="Launch")
MOST = 32
_SUBMISSIONS = 4
_NOT_READY, _TIMEOUT = 1, 2
PRIMARY, SECONDARY = 0, 1
_ONCE = 1  # a command buffer that is submitted once
_RESETTABLE = 2
# nanoseconds
_SPIN = 500_000  # how long to spin before blocking: an idle core takes tens of microseconds to wake up
# how long to block without spinning first, after spinning was of no use, which shows that the host is oversubscribed
_OVERSUBSCRIBED = 50_000_000
_SLICE = 20_000_000  # after blocking so long, signals such as Ctrl-C are handled

_yield = getattr(os, "sched_yield", partial(time.sleep, 0))


class Launch(Protocol):
    """Something that the queue runs: a secondary command buffer, ``commands``. ``uses``: how often it is in the queue;
    ``what``: its name in words."""

    uses: int
    cost: Cost
    what: str

    def commands(self) -> Any: ...

    def done(self) -> BaseException | None:
        """The queue calls this when a launch has ended; returns the launch's error, or None."""


class Submission:
    """A command buffer that executes the command buffers of ``launches``, and a fence that is signaled at its end."""

    def __init__(self, device: Any, pool: Any) -> None:
        self.device = device
        self.fences = api.create("Fence", device, "making a fence")
        self.fence = self.fences[0]
        self.buffers = command_buffer(device, pool)
        self.info = api.new("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=self.buffers)
        self.launches: list[Launch] = []
        self.sent = 0  # when it was submitted, in nanoseconds
        self.load = 0  # how many nanoseconds its launches are estimated to take
        self._begin = api.new("VkCommandBufferBeginInfo", flags=_ONCE)
        self._executed = api.ffi().new("VkCommandBuffer[]", MOST)

    def write(self, launches: list[Launch]) -> int:
        """Records the command buffer for these launches; returns a VkResult."""
        vk, commands, count = api.lib(), self.buffers[0], len(launches)
        self.launches = launches
        self._executed[0:count] = [x.commands() for x in launches]
        result = vk.vkBeginCommandBuffer(commands, self._begin)
        if not result:
            vk.vkCmdExecuteCommands(commands, count, self._executed)
            result = vk.vkEndCommandBuffer(commands)
        return int(result)


def command_pool(device: Any, family: int) -> Any:
    """A pool whose command buffers can be recorded again one by one."""
    what = "making a command pool"
    return api.create("CommandPool", device, what, flags=_RESETTABLE, queueFamilyIndex=family)[0]


def command_buffer(device: Any, pool: Any, level: int = PRIMARY) -> Any:
    """A pointer to a command buffer."""
    info = api.new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1, level=level)
    made = api.ffi().new("VkCommandBuffer *")
    api.check(api.lib().vkAllocateCommandBuffers(device, info, made), "making a command buffer")
    return made


class Ring(Generic[Reused]):
    """A ring of at most ``most`` objects, made by ``make``, which are launched in turn."""

    def __init__(self, queue: Queue, make: Callable[[], Reused], most: int) -> None:
        self._queue = queue
        self._make = make
        self._most = most
        self._all: deque[Reused] = deque()  # the most recently used one is the last

    def next(self) -> Reused:
        """An object that is not in flight. If all are, waits for the least recently used one, which ends first."""
        ring = self._all
        if not ring or (ring[0].uses and len(ring) < self._most):
            ring.append(self._make())
        else:
            self._queue.release(ring[0])
            ring.rotate(-1)
        return ring[-1]


class Queue:
    """A queue of the driver. ``busy``: whether launches wait or run. ``running``: the submissions in flight, in order;
    ``load``: how many nanoseconds they are estimated to take. ``pending_frees``: functions to call when nothing runs.
    ``fences``: the fences of all submissions so far. ``errors``: the errors of launches whose wait was interrupted.
    ``lost``: whether the device is lost."""

    def __init__(self, device: Any, handle: Any, family: int) -> None:
        self.device = device
        self.handle = handle
        self.pool = command_pool(device, family)
        self.fences: list[Any] = []
        self._free: list[Submission] = []
        self.busy = False
        self.lost = False
        self.errors: list[BaseException] = []
        self.running: list[Submission] = []
        self.load = 0
        self._waiting: list[Launch] = []
        self._load = 0  # how many nanoseconds the launches that wait are estimated to take
        self._oversubscribed_until = 0
        self._ended = 0  # when the last submission was found to be done
        self._forked = False
        self.pending_frees: deque[Callable[[], None]] = deque()
        self._start = api.lib().vkQueueSubmit
        self._fence_status = api.lib().vkGetFenceStatus

    def add(self, launch: Launch) -> None:
        """Starts a launch, or lets it wait for its submission. Raises the errors of earlier launches."""
        if self.errors or self._forked:
            self._raise()
        self.busy = True
        launch.uses += 1
        waiting = self._waiting
        waiting.append(launch)
        self._load += launch.cost.ns
        if self._has_room() or len(waiting) >= MOST or self._load >= PART:
            self._submit()

    def finish(self) -> None:
        """Waits for all launches, and raises their errors. Ctrl-C ends the wait."""
        if not self.busy:
            self._end_pending()
            return
        while self._waiting or self.running:
            if self._waiting:
                self._submit()
            self._await_first()
        self.busy = False
        self.load = 0  # set again, since Ctrl-C may have prevented an update
        self._end_pending()
        if self.errors or self._forked:
            self._raise()

    def _end_pending(self) -> None:
        while self.pending_frees and not self.lost:
            self.pending_frees.popleft()()

    def release(self, launch: Launch) -> None:
        """Waits until the launch is not running any more."""
        while launch.uses:
            if self._waiting and not self.running:
                self._submit()
            if not self.running:
                launch.uses = 0  # set here, since Ctrl-C prevented the update
                return
            self._await_first()

    def defer_free(self, end: Callable[[], None]) -> None:
        """Calls ``end``, which frees something that the device may still use, as soon as nothing runs. The garbage
        collector may call this at any time in any thread, so ``end`` must not need the lock that the caller of `add`
        holds."""
        if self.busy:
            self.pending_frees.append(end)
        elif not self.lost:
            end()

    def forked(self) -> None:
        """Call this in the child of a fork: launches in flight belong to the parent, and the queue refuses new
        launches."""
        self._waiting, self.running = [], []
        self.pending_frees.clear()
        self.load = self._load = 0
        self._forked, self.busy = True, True

    def _raise(self) -> None:
        if self._forked:
            raise forks.forked("Vulkan")
        errors, self.errors = self.errors, []
        raise errors[0]

    def _submit(self) -> None:
        """Submits the launches that wait for their submission."""
        while self.running and self.load + self._load > 2 * PART:
            self._await_first()
        made = self._room()
        made.load = self._load
        made.sent = perf_counter_ns()
        rest = self._waiting[MOST:]  # not empty only if Ctrl-C interrupted an earlier submission
        try:
            result = made.write(self._waiting[:MOST])
        except Exception:
            self._wait(rest)
            self._drop(made)
            raise
        self._wait(rest)
        if not result:
            try:
                result = self._start(self.handle, 1, made.info, made.fence)
            finally:  # also after Ctrl-C, which is raised once the submission is done
                self.running.append(made)
                self.load += made.load
            if result:
                self.running.remove(made)
                self.load -= made.load
        if result:
            self._free.append(made)
            self._failed(result, made)

    def _wait(self, launches: list[Launch]) -> None:
        """Marks the launches to be submitted next."""
        self._waiting, self._load = launches, sum(x.cost.ns for x in launches)

    def _has_room(self) -> bool:
        """Whether one more submission can start without a wait."""
        full = len(self.running) >= _SUBMISSIONS
        return not full or bool(self._fence_status(self.device, self.running[0].fence) != _NOT_READY)

    def _room(self) -> Submission:
        if not self._free and len(self.running) >= _SUBMISSIONS:
            self._await_first()
        if self._free:
            return self._free.pop()
        made = Submission(self.device, self.pool)
        self.fences.append(made.fence)
        return made

    def _await_first(self) -> None:
        """Waits for the oldest submission."""
        first = self.running[0]
        result = self._fence_status(self.device, first.fence)
        seen = result == _NOT_READY
        if seen:
            result = self._end_of(first)
        if result:
            del self.running[0]
            self.load -= first.load
            self._failed(result, first)
        launches = first.launches
        began, self._ended = max(first.sent, self._ended), perf_counter_ns()
        if self._ended - began > first.load or first.load > LEAST * len(launches):
            learn([x.cost for x in launches], self._ended - began, at_most=not seen)
        while launches:  # Ctrl-C leaves the rest to the next wait
            x = launches[0]
            x.uses -= 1
            del launches[0]
            error = x.done()
            if error is not None:
                self.errors.append(error)
        reset = api.lib().vkResetFences
        try:
            reset(self.device, 1, first.fences)
        finally:
            del self.running[0]
            self.load -= first.load
        self._free.append(first)

    def _end_of(self, submission: Submission) -> int:
        """Waits for a submission: first spins, then yields the core, then blocks. Returns a VkResult."""
        device, fence, poll = self.device, submission.fence, self._fence_status
        now = perf_counter_ns()
        if now > self._oversubscribed_until:
            block_at = now + _SPIN
            while (result := poll(device, fence)) == _NOT_READY and now < block_at:
                _yield()
                now = perf_counter_ns()
            if now >= block_at:
                self._oversubscribed_until = now + _OVERSUBSCRIBED
        else:
            result = _NOT_READY
        if result == _NOT_READY:
            wait = api.lib().vkWaitForFences
            while (result := wait(device, 1, submission.fences, 1, _SLICE)) == _TIMEOUT:
                pass
        return int(result)

    def _failed(self, result: int, submission: Submission) -> None:
        what = submission.launches[0].what
        self.lost = self.lost or result == api.DEVICE_LOST
        self._drop(submission)
        api.check(result, what)

    def _drop(self, submission: Submission) -> None:
        """Discards the launches of a submission that failed."""
        launches, submission.launches = submission.launches, []
        for x in launches:
            x.uses -= 1
        self.busy = bool(self.running or self._waiting)
