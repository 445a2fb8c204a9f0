"""A process that keeps what it compiles on disk: runs two kernels and a gradient, and prints what they computed and how
many of them it compiled. ``python disk_child.py ARCH [CODE]``: the code runs before anything else."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

ARCH = sys.argv[1]
exec("".join(sys.argv[2:]))

import quadrants_lab as qd  # noqa: E402
from quadrants_lab.backends.c import compiler as c  # noqa: E402
from quadrants_lab.backends.cpu import tasks as cpu  # noqa: E402
from quadrants_lab.backends.metal import executable as metal, simulator  # noqa: E402

compiled = [0]


def count(owner: Any, name: str) -> None:
    make = getattr(owner, name)

    def counted(*args: Any, **options: Any) -> Any:
        compiled[0] += args[1:] != ("--version",)
        return make(*args, **options)

    setattr(owner, name, counted)


count(cpu, "machine_code")
count(metal, "module")
count(c, "compiled")
simulator.tools = SimpleNamespace(ran=simulator.tools.ran)  # of its own: others run tools, too
count(simulator.tools, "ran")
if ARCH == "vulkan":
    from quadrants_lab.backends.vulkan import executable as vulkan

    count(vulkan, "emit")
if ARCH == "wasm":
    from quadrants_lab.backends.wasm import executable as wasm

    count(wasm, "module")
if ARCH in ("cuda", "amdgpu"):
    from rigs import cuda_stand_in, hip_stand_in

    from quadrants_lab.backends.amdgpu import hip
    from quadrants_lab.backends.cuda import driver

    cuda_stand_in.install()
    hip_stand_in.install()
    for device in (cuda_stand_in.StandIn, driver.Driver, hip.Driver):
        count(device, "build")

qd.init(arch=getattr(qd, ARCH), simulate=True, enable_fallback=False)
x = qd.field(qd.f32, 5, needs_grad=True)
y = qd.field(qd.f32, (), needs_grad=True)


@qd.kernel
def double():
    for i in x:
        x[i] = x[i] * 2.0 + 1.0

@qd.kernel
def triple():
    for i in x:
        x[i] = x[i] * 3.0 - 1.0

@qd.kernel
def total():
    for i in x:
        y[None] += x[i] * x[i]


x.fill(1.0)
double()
triple()
total()
y.grad[None] = 1.0
total.grad()
values = [*x.to_numpy().tolist(), y[None], *x.grad.to_numpy().tolist()]
print(json.dumps({"values": values, "compiled": compiled[0]}))
