"""Launches on their way to the device: several go in one submission, and nobody waits until somebody looks.

What was launched first is submitted at once; what is launched while the device works is gathered, up to `MOST` launches
or until it is found idle. They run in the order of their launches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from quadrants_lab.backends.vulkan import api

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 8
_SUBMISSIONS = 4
_NOT_READY = 1
_SLICE = 20_000_000  # nanoseconds of waiting between two looks at signals


class Launch(Protocol):
    """Something that can be started again while it waits or runs: ``uses`` counts how often it does."""

    uses: int
    what: str

    def commands(self, times: int) -> Any:
        """A command buffer that runs it once, or `MOST` times in a row."""

    def done(self) -> BaseException | None:
        """To be called for each run that came to its end; the error that it ended with."""


class Submission:
    """Room for the command buffers of one vkQueueSubmit, and the fence that tells its end."""

    def __init__(self, device: Any) -> None:
        f = api.ffi()
        self.fences = f.new("VkFence *")
        info = api.new("VkFenceCreateInfo")
        api.check(api.lib().vkCreateFence(device, info, f.NULL, self.fences), "making a fence")
        self.fence = self.fences[0]
        self.buffers = f.new("VkCommandBuffer[]", MOST)
        self.info = api.new("VkSubmitInfo", pCommandBuffers=self.buffers)
        self.launches: list[Launch] = []


class Queue:
    """``busy``: whether launches wait or run. ``errors``: of launches that nobody waited for. ``running``: submissions
    in order. ``lost``: the device is."""

    def __init__(self, device: Any, handle: Any) -> None:
        self.device = device
        self.handle = handle
        self.busy = False
        self.lost = False
        self.errors: list[BaseException] = []
        self.running: list[Submission] = []
        self.fences: list[Any] = []  # of all submissions
        self._free: list[Submission] = []
        self._waiting: list[Launch] = []
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
        if len(waiting) >= MOST or not self.running:
            self._submit()
        elif self._fence_status(self.device, self.running[0].fence) != _NOT_READY:
            self._await_first()
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
        graves, self._graves = self._graves, []
        for end in graves:
            end()
        if self.errors:
            self._raise()

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
        launches, self._waiting = self._waiting, []
        made.launches = launches
        first = launches[0]
        if len(launches) == MOST and all(x is first for x in launches):
            made.buffers[0] = first.commands(MOST)
            made.info.commandBufferCount = 1
        else:
            for n, x in enumerate(launches):
                made.buffers[n] = x.commands(1)
            made.info.commandBufferCount = len(launches)
        result = api.lib().vkQueueSubmit(self.handle, 1, made.info, made.fence)
        if result:
            self._free.append(made)
            self._failed(result, made)
        self.running.append(made)

    def _room(self) -> Submission:
        if not self._free and len(self.running) >= _SUBMISSIONS:
            self._await_first()
        if self._free:
            return self._free.pop()
        made = Submission(self.device)
        self.fences.append(made.fence)
        return made

    def _await_first(self) -> None:
        """Waits for the oldest submission."""
        first, wait = self.running[0], api.lib().vkWaitForFences
        while True:
            result = wait(self.device, 1, first.fences, 1, _SLICE)
            if result != 2:  # VK_TIMEOUT
                break
        del self.running[0]
        if result:
            self._failed(result, first)
        api.lib().vkResetFences(self.device, 1, first.fences)
        self._free.append(first)
        launches, first.launches = first.launches, []
        for x in launches:
            x.uses -= 1
            error = x.done()
            if error is not None:
                self.errors.append(error)

    def _failed(self, result: int, submission: Submission) -> None:
        what = submission.launches[0].what
        for x in submission.launches:
            x.uses -= 1
        self.lost = self.lost or result == api.DEVICE_LOST
        self.busy = bool(self.running or self._waiting)
        api.check(result, what)
