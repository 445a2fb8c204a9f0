"""A loaded kernel and its launch frames: the face that the CPU backend shows to the runtime.

    device = Device(threads=0)                  # one a session; 0: as many as the process may use
    exe = load(kernel, options, cached)         # Executable; exe.object is what a disk cache keeps
    frame = exe.frame(device)                   # a launch frame, reusable; not to be launched by two threads at once
    frame.set_buffer("x", address)              # each field and ndarray buffer of kernel.buffers, before the first launch
    frame.set_extents("a", (1024, 8))           # each ndarray buffer
    frame.set_arg("scale", 2.0)                 # each scalar argument
    frame.set_stacks([256, 17])                 # capacities in slots, AdStackAllocas in kernel order
    status = frame.launch()                     # 0, or bits of Status
    frame.ret("ret0")                           # a Python scalar of a "ret" buffer
    fast = frame.entry(params, returns="ret0")  # a builtin that takes the kernel's positional arguments

What holds:

- Everything that was set stays set until it is set again, so a launch sets only what changed. The frame keeps
  addresses, not objects: whoever sets an address keeps its memory alive. Field memory should be 64-byte aligned
  (`memory.zeros`).
- "temp" and "ret" buffers live in the frame and are zero at the start of each launch.
- `launch` runs all tasks in order and returns when they are done. The GIL is released meanwhile, unless the kernel is
  known to take a few microseconds at most. Ctrl-C during a launch on the main thread stops it: `launch` (or the fast
  entry) raises what the signal handler raised, KeyboardInterrupt by default, and the next launch works. Memory that
  the interrupted kernel writes is left as it was at that moment.
- `device.cancel()` from another thread stops the launch in flight, which then returns Status.CANCELLED.
- Denormals are flushed during a launch, in workers too; the caller's floating-point environment is restored.
- Launches on one device must be serialised by the caller (they share the device's adstack heap); launches on several
  devices may overlap: one of them gets the worker threads, the others run on their own thread.
- status has Status.PRINTED when the kernel printed: `take_prints()` returns the printed texts, in order.
- status has Status.ASSERT or Status.OVERFLOW: `failure()` says what failed. After a failed assert the tasks that
  follow do not run; after an overflow they do.

The fast entry. ``params`` has one `Param` for each positional argument: ScalarParam(arg name) takes a Python bool,
int or float that fits (no float for an integer dtype, no int out of range); ArrayParam(buffer name) a numpy array of
exactly the buffer's dtype and ndim, C-contiguous, aligned, and writable where the kernel writes it; ConstParam()
anything. Called with matching arguments it fills the frame (address, extents, scalars), launches and returns None, or
the value of ``returns``; it returns NotImplemented, having set nothing that a slow path would not overwrite and
without launching, where an argument does not match; and Ellipsis where the launch ended with a status other than 0,
which `frame.status` then holds. A call costs about 0.1 us and what the kernel takes.
"""
