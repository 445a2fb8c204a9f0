"""The stand-in for a driver keeps the order of a device's queue, whichever thread waits or frees."""

import threading

from rigs.cuda_stand_in import StandIn


def test_a_wait_covers_what_another_thread_runs() -> None:
    """The garbage collector may free memory, and so wait, in another thread, whose launch is not done yet."""
    device = StandIn()
    address = device.allocate(8)
    begun, go_on, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        assert go_on.wait(30)
        done.append("launch")

    device._pending.append(slow)
    collector = threading.Thread(target=device.free, args=(address,))
    collector.start()
    assert begun.wait(30)
    waiter = threading.Thread(target=lambda: (device.wait("here"), done.append("waited")))
    waiter.start()
    waiter.join(0.1)
    assert waiter.is_alive()
    assert device.running()
    go_on.set()
    for thread in (collector, waiter):
        thread.join(30)
    assert done == ["launch", "waited"]
    assert device.used == 0


def test_memory_freed_in_the_middle_of_a_launch_outlives_the_queue() -> None:
    """A launch that allocates may wake the collector, which frees a frame: what was queued for it runs first."""
    device = StandIn()
    address = device.allocate(8)
    device._pending.append(lambda: device.free(address))
    device.clear(address, 8)
    device._pending.append(lambda: seen.append(address in device._memory))
    seen: list[bool] = []
    device.wait("here")
    assert seen == [True]
    assert not device._memory
    assert device.used == 0
