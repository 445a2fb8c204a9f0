"""Launches on their way to the device: several go in one submission, and nobody waits until somebody looks.

What is launched first, or after a while, or was seen to run long, is submitted at once. What follows within `_PATIENCE`
is gathered, up to `MOST` launches, until that time has passed or somebody waits. They run in the order of their
launches. A submission is one command buffer, written when it goes, which executes those of its launches: drivers take
long for each submitted.
"""

from __future__ import annotations

import os
import time
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from quadrants_lab.backends.vulkan import api

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 32
_SUBMISSIONS = 4
_NOT_READY, _TIMEOUT = 1, 2
PRIMARY, SECONDARY = 0, 1
_ONCE = 1  # a command buffer that is submitted once
_RESETTABLE = 2
# nanoseconds
_PATIENCE = 100_000  # between two submissions
_LONG = 200_000  # of a launch that goes at once
_AWAKE = 500_000  # of looking again and again: an idle core takes tens of microseconds to wake up
_CROWDED = 50_000_000  # of sleeping at once, after others had the core for too long: who sleeps gets it back sooner
_SLICE = 20_000_000  # of sleeping between two looks at signals

_others_first = getattr(os, "sched_yield", partial(time.sleep, 0))


class Launch(Protocol):
    """Something that can be started again while it waits or runs: ``uses`` counts how often it does. ``commands``: a
    secondary command buffer that may be executed any number of times at once. ``long``: whether the device was seen to
    work on it for so long that it should not wait for others."""

    uses: int
    long: bool
    what: str
    commands: Any

    def done(self) -> BaseException | None:
        """To be called for each run that came to its end; the error that it ended with."""


class Submission:
    """A command buffer that executes those of ``launches``, and the fence that tells its end."""

    def __init__(self, device: Any, pool: Any) -> None:
        f, vk = api.ffi(), api.lib()
        self.fences = f.new("VkFence *")
        api.check(vk.vkCreateFence(device, api.new("VkFenceCreateInfo"), f.NULL, self.fences), "making a fence")
        self.fence = self.fences[0]
        self.buffers = command_buffer(device, pool)
        self.info = api.new("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=self.buffers)
        self.launches: list[Launch] = []
        self.sent = 0  # when
        self._begin = api.new("VkCommandBufferBeginInfo", flags=_ONCE)
        self._executed = f.new("VkCommandBuffer[]", MOST)

    def write(self, launches: list[Launch]) -> int:
        """Makes it one of ``launches``; a VkResult."""
        vk, commands, count = api.lib(), self.buffers[0], len(launches)
        self.launches = launches
        self._executed[0:count] = [x.commands for x in launches]
        result = vk.vkBeginCommandBuffer(commands, self._begin)
        if not result:
            vk.vkCmdExecuteCommands(commands, count, self._executed)
            result = vk.vkEndCommandBuffer(commands)
        return int(result)


def command_pool(device: Any, family: int) -> Any:
    """A pool whose command buffers can be written again one by one."""
    made = api.ffi().new("VkCommandPool *")
    info = api.new("VkCommandPoolCreateInfo", flags=_RESETTABLE, queueFamilyIndex=family)
    api.check(api.lib().vkCreateCommandPool(device, info, api.ffi().NULL, made), "making a command pool")
    return made[0]


def command_buffer(device: Any, pool: Any, level: int = PRIMARY) -> Any:
    """A pointer to a command buffer."""
    info = api.new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1, level=level)
    made = api.ffi().new("VkCommandBuffer *")
    api.check(api.lib().vkAllocateCommandBuffers(device, info, made), "making a command buffer")
    return made


class Queue:
    """``busy``: whether launches wait or run. ``errors``: of launches that nobody waited for. ``running``: submissions
    in order. ``lost``: the device is."""

    def __init__(self, device: Any, handle: Any, family: int) -> None:
        self.device = device
        self.handle = handle
        self.pool = command_pool(device, family)
        self.busy = False
        self.lost = False
        self.errors: list[BaseException] = []
        self.running: list[Submission] = []
        self.fences: list[Any] = []  # of all submissions
        self._free: list[Submission] = []
        self._waiting: list[Launch] = []
        self._wait_until = 0  # when a launch is not to wait for others any more
        self._crowded_until = 0
        self._ended = 0  # when the last submission was seen to be done
        self._graves: list[Callable[[], None]] = []
        self._fence_status = api.lib().vkGetFenceStatus

    def add(self, launch: Launch) -> None:
        """Starts a launch. Raises what earlier ones ended with."""
        if self.errors:
            self._raise()
        launch.uses += 1
        waiting = self._waiting
        waiting.append(launch)
        self.busy = True
        at_once = launch.long or perf_counter_ns() > self._wait_until
        if (at_once and self._has_room()) or len(waiting) >= MOST:
            self._submit()

    def finish(self) -> None:
        """Waits for everything. Ctrl-C ends the waiting. Raises what launches ended with."""
        if not self.busy:
            return
        while self._waiting or self.running:
            if self._waiting:
                self._submit()
            self._await_first()
        self.busy = False
        self._wait_until = 0
        graves, self._graves = self._graves, []
        for end in graves:
            end()
        if self.errors:
            self._raise()

    def release(self, launch: Launch) -> None:
        """Waits until it is not on its way any more."""
        while launch.uses:
            if not self.running:
                self._submit()
            self._await_first()

    def bury(self, end: Callable[[], None]) -> None:
        """Calls ``end``, which gives back what the device may still use, as soon as nothing runs."""
        if self.busy:
            self._graves.append(end)
        elif not self.lost:
            end()

    def _raise(self) -> None:
        errors, self.errors = self.errors, []
        raise errors[0]

    def _submit(self) -> None:
        """Submits what waits."""
        made = self._room()
        made.sent = perf_counter_ns()
        self._wait_until = made.sent + _PATIENCE
        launches, self._waiting = self._waiting, []
        result = made.write(launches) or api.lib().vkQueueSubmit(self.handle, 1, made.info, made.fence)
        if result:
            self._free.append(made)
            self._failed(result, made)
        self.running.append(made)

    def _has_room(self) -> bool:
        """Whether nobody has to wait for another submission."""
        running = self.running
        return len(running) < _SUBMISSIONS or self._fence_status(self.device, running[0].fence) != _NOT_READY

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
        del self.running[0]
        if result:
            self._failed(result, first)
        api.lib().vkResetFences(self.device, 1, first.fences)
        self._free.append(first)
        launches, first.launches = first.launches, []
        began, self._ended = max(first.sent, self._ended), perf_counter_ns()
        long = self._ended - began > _LONG * len(launches)
        for x in launches:
            x.uses -= 1
            if seen:
                x.long = long
            error = x.done()
            if error is not None:
                self.errors.append(error)

    def _end_of(self, submission: Submission) -> int:
        """Waits for it: at first awake, while others may have the core; a VkResult."""
        device, fence, look = self.device, submission.fence, self._fence_status
        now = perf_counter_ns()
        asleep_at = now + _AWAKE if now > self._crowded_until else 0
        while (result := look(device, fence)) == _NOT_READY and now < asleep_at:
            _others_first()
            now = perf_counter_ns()
        if result == _NOT_READY:
            if 0 < asleep_at < now - _AWAKE:
                self._crowded_until = now + _CROWDED
            wait = api.lib().vkWaitForFences
            while (result := wait(device, 1, submission.fences, 1, _SLICE)) == _TIMEOUT:
                pass
        return int(result)

    def _failed(self, result: int, submission: Submission) -> None:
        what = submission.launches[0].what
        for x in submission.launches:
            x.uses -= 1
        self.lost = self.lost or result == api.DEVICE_LOST
        self.busy = bool(self.running or self._waiting)
        api.check(result, what)
