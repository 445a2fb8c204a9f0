"""The programs that `scripts/workbench.py` runs in cells and in processes of their own."""

SETUP = """
import quadrants_lab as qd
qd.init(arch=qd.cpu, offline_cache=False)
x, y = qd.field(qd.f32, 64, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
x.fill(0.5)
"""
IFS = """
@qd.kernel
def ifs():
    for i in x:
        v = x[i]
        for j in qd.static(range({n})):
            if v > 0.001 * j:
                v = qd.sin(v) + 0.1
        y[None] += v
"""
WAVE = """
@qd.kernel
def {name}():
    for i in x:
        v = x[i]
        for _ in range(50):
            v = qd.sin(v) + 0.1
        y[None] += v
{name}()
"""
SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("%load_ext quadrants_lab")
"""

SHOWN = """
%%qdkernel --grad y --check --arch cpu,c
n = qd.field(qd.i32, ())
n[None] = 50

@qd.kernel
def wave():
    for i in x:
        v = x[i]
        w = x[i]
        for _ in range(n[None]):
            v = qd.sin(v) + {step}
            w = w * 0.95 + 0.01
        y[None] += v * w

@qd.kernel
def ends():
    for i in x:
        if x[i] > 0.2:
            y[None] += qd.sqrt(x[i])

@qd.kernel
def slopes():
    for i in x:
        x.grad[i] += {slope} * x[i] * y.grad[None]

@qd.kernel
def squares():
    for i in x:
        y[None] += x[i] * x[i]

@qd.ad.grad_replaced
def energy():
    squares()

@qd.ad.grad_for(energy)
def energy_slope():
    slopes()

grid = qd.field(qd.f32, (48, 64))

@qd.kernel
def ripples():
    for i, j in grid:
        grid[i, j] = qd.sin(0.3 * i) * qd.cos(0.2 * j)

for i in range(64):
    x[i] = 0.1 + i / 64
wave()
wave()
ends()
energy()
ripples()
y[None]
"""

COMPILE = """
import json, tempfile, time
from contextlib import nullcontext
from pathlib import Path
file = Path(tempfile.mkdtemp()) / "ifs.py"
file.write_text({text!r})
made = {{}}
exec(compile(file.read_text(), str(file), "exec"), made)
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.notebook.collect import cell_view
with recording() if {recorded} else nullcontext() as recorder:
    start = time.perf_counter()
    made["ifs"]()
    forward = time.perf_counter() - start
    made["y"].grad[None] = 1
    made["ifs"].grad()
    whole = time.perf_counter() - start
told = [dict(x.times) for x in cell_view("", recorder).kernels[0].launches] if recorder else []
def launches():
    start = time.perf_counter()
    for _ in range(2000):
        made["ifs"]()
    return (time.perf_counter() - start) / 2000
print(json.dumps([forward, whole, min(launches() for _ in range(5)), told]))
"""

CELLS = """
import contextlib, io, json, time, warnings
{shell}
warnings.simplefilter("ignore")
shell.run_cell({setup!r}).raise_error()
from quadrants_lab.runtime.session import checking
space, found = shell.user_ns, []
def cell(magic, call):
    text = call if magic is None else f"%%qdkernel --quiet {{magic}}\\n" + call
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell(text).raise_error()
    return space["took"], time.process_time() - start - space["took"]
ways = {{
    "plain": lambda call: cell(None, call),
    "checked": lambda call: cell(None, f"with checking('asserts', 'check_out_of_bound'): {{call}}"),
    "recorded": lambda call: cell("--release", call),
    "recorded and checked": lambda call: cell("", call),
}}
space["checking"] = checking
for call, times in {calls!r}:
    best = dict.fromkeys(ways, (1e9, 1e9))
    for _ in range(times):
        for way, run in ways.items():
            best[way] = tuple(map(min, best[way], run("took = " + call)))
    found.append((call, best))
print(json.dumps(found))
"""
OPTIMISER = """
import time
import quadrants_lab as qd
qd.init(arch=qd.cpu, offline_cache=False)
u = qd.field(qd.f32, (121, 64, 64), needs_grad=True)
y = qd.field(qd.f32, (), needs_grad=True)

@qd.kernel
def step(t: qd.i32):
    for i, j in qd.ndrange(64, 64):
        beside = u[t, (i + 1) % 64, j] + u[t, i, (j + 1) % 64] + u[t, (i - 1) % 64, j] + u[t, i, (j - 1) % 64]
        u[t + 1, i, j] = 0.6 * u[t, i, j] + 0.1 * beside

@qd.kernel
def total():
    for i, j in qd.ndrange(64, 64):
        y[None] += u[120, i, j] ** 2

@qd.kernel
def descend():
    for i, j in qd.ndrange(64, 64):
        u[0, i, j] -= 0.1 * u.grad[0, i, j]

@qd.kernel
def count():
    y[None] += 1.0

def train(n):
    start = time.process_time()
    for _ in range(n):
        with qd.ad.Tape(y):
            for t in range(120):
                step(t)
            total()
        descend()
    return time.process_time() - start

def counts(n):
    start = time.process_time()
    for _ in range(n):
        count()
    return time.process_time() - start
"""

INTERRUPT = """
import json, signal, threading, time
{shell}
from quadrants_lab.ir.walk import walk
shell.run_cell({setup!r})
def run():
    start = time.perf_counter()
    shell.run_cell("%%qdkernel --grad y --quiet" + {text!r} + "ifs()")
    return time.perf_counter(), time.perf_counter() - start
whole, kernel = run()[1], shell.user_ns["ifs"]
took = []
for part in (0.15, 0.4, 0.65, 0.9):
    pressed = []
    def press():
        pressed.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)
    clock = threading.Timer(part * whole, press)
    clock.start()
    ended, lasted = run()
    clock.cancel()
    took += [ended - at for at in pressed]
size = sum(1 for _ in walk(kernel.grad.dispatcher.last.kernel.body))
print(json.dumps([max(took), size, whole]))
"""
