"""Measures the time of a Tape compared with the same launches called by hand; and how much memory a budget saves and
how much time it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.race import ROOT
from benchmarks.relaunch import Limit, fastest

APART = Limit("wave, each step in elements of its own: under a Tape over by hand", 1.2, "")
IN_PLACE = Limit("wave in place under a Tape, over the one in elements of their own by hand", 1.1, "")
PAIR = Limit("a launch and its gradient under a Tape", 8.0, "us")
ONE = Limit("a Tape of one launch, with its gradient", 8.0, "us")
TEN = Limit("a Tape of 10 launches, with their gradients", 28.0, "us")
RECORDED = Limit("a launch of a recorded program", 2.0, "us")
TURNS = Limit("fields that take turns under a Tape: attributes that are swapped, over arguments", 2.0, "")
MEMORY = Limit("mpm, 512 steps: kept with a tenth as budget, of what is kept without one", 0.1, "")
TIME = Limit("mpm, 512 steps: time with that budget, of the time without one", 1.6, "")
OVER = Limit("wave in place, 300 steps: the most kept with one of 14 budgets, of the budget", 1.0, "")
AGAIN = Limit("wave in place, 300 steps: launches made again with one of them, over those of revolve", 1.5, "")
LONG = Limit("wave in place, 128^2: 2,000 steps over 200", 11.0, "")
VULKAN = Limit("Vulkan, 1,024 steps of 4,096 elements in two fields, value and gradient under a Tape", 1.0, "s")
LIMITS = (APART, IN_PLACE, PAIR, ONE, TEN, RECORDED, TURNS, MEMORY, TIME, OVER, AGAIN, LONG, VULKAN)
STATES = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 23, 50, 100, 300)
LENGTHS = (200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000)


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the value of each row, in the row's unit, by its name."""
    import quadrants_lab as qd
    from benchmarks import engine

    engine.init()
    hand, taped, again = waves()
    qd.reset()
    qd.init(arch=qd.cpu)
    pair, launch = pairs()
    found = {APART.name: taped / hand, IN_PLACE.name: again / hand, PAIR.name: 1e6 * pair, RECORDED.name: 1e6 * launch}
    return found | few() | turns() | budget() | revolve() | lengths() | on_vulkan()


def waves() -> list[float]:
    """Seconds of the wave program: called by hand, under a Tape, and, with fields updated in place, under a Tape."""
    from benchmarks.cases.programs import InPlace, Wave

    apart, in_place = Wave(), InPlace()
    return fastest(apart.by_hand, apart.taped, in_place.taped, times=1, rounds=12)


def pairs() -> list[float]:
    """Seconds of a launch and its gradient under a Tape, and of a launch of a recorded program."""
    import quadrants_lab as qd
    from benchmarks.cases.programs import PAIRS, tiny
    from benchmarks.engine import synced

    loss, launches = tiny()

    def taped() -> None:
        with qd.ad.Tape(loss, clear_gradients=False):
            launches()

    return [s / PAIRS for s in fastest(synced(taped), synced(qd.ad.program(launches)), times=1)]


def few() -> dict[str, float]:
    """Microseconds of a Tape with 1 launch and of a Tape with 10 launches."""
    import quadrants_lab as qd
    from benchmarks.cases.programs import tiny

    def taped(count: int) -> Callable[[], None]:
        loss, launches = tiny(count)

        def run() -> None:
            with qd.ad.Tape(loss):
                launches()

        return run

    one, ten = fastest(taped(1), taped(10), times=20, rounds=400)
    return {ONE.name: 1e6 * one, TEN.name: 1e6 * ten}


def turns() -> dict[str, float]:
    from benchmarks.cases.programs import Turns

    program = Turns()
    arguments, attributes = fastest(program.arguments, program.attributes, times=1)
    return {TURNS.name: attributes / arguments}


def on_gpu() -> None:
    """Prints the times of programs on the device of the session, each with its limit for an H200."""
    hand, wave, again = waves()
    pair, launch = pairs()
    print(f"wave 256^2, 200 steps, value and gradient: by hand {1e3 * hand:.2f} ms")
    print(f"  under a Tape {1e3 * wave:.2f} ms (at most 5), in place {1e3 * again:.2f} ms (at most 5)")
    print(f"a launch and its gradient under a Tape {1e6 * pair:.2f} us (at most 15)")
    print(f"a launch of a recorded program {1e6 * launch:.2f} us (at most 2)")


def lengths() -> dict[str, float]:
    """Measures programs of different numbers of steps. Also draws out/steps.svg: milliseconds of value and gradient
    over the number of steps."""
    import quadrants_lab as qd
    from benchmarks.cases.programs import InPlace

    qd.reset()
    qd.init(arch=qd.cpu)
    runs = [InPlace(size=128, steps=steps).taped for steps in LENGTHS]
    times = fastest(*runs, times=1, rounds=5)
    (ROOT / "out").mkdir(exist_ok=True)
    (ROOT / "out" / "steps.svg").write_text(plot(LENGTHS, [1e3 * t for t in times], "steps", "ms"))
    return {LONG.name: times[-1] / times[0]}


def on_vulkan() -> dict[str, float]:
    """The ratio on Vulkan; NaN if there is no device."""
    import quadrants_lab as qd
    from benchmarks.cases.programs import swings
    from quadrants_lab.runtime.backend import available

    if not available("vulkan").runs:
        return {VULKAN.name: float("nan")}
    qd.reset()
    qd.init(arch=qd.vulkan)
    return {VULKAN.name: fastest(swings(1024, 4096), times=1, rounds=3)[0]}


def plot(x: Sequence[float], y: Sequence[float], x_name: str, y_name: str) -> str:
    """A plot as SVG: the points, and the line through the origin and the last point."""
    wide, high, left, low = 480, 300, 60, 40
    at = [(left + wide * a / max(x), high - high * b / max(y) + 10) for a, b in zip(x, y, strict=True)]
    points = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"><title>{n}: {t:.2f}</title></circle>'
                     for (a, b), n, t in zip(at, x, y, strict=True))  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 20} {high + low + 10}" '
        f'font-family="sans-serif" font-size="12"><path d="M{left} 10V{high + 10}H{left + wide}" fill="none" '
        f'stroke="black"/><path d="M{left} {high + 10}L{at[-1][0]:.1f} {at[-1][1]:.1f}" stroke="#aaa"/>{points}'
        f'<text x="{left + wide - 40}" y="{high + low}">{x[-1]:g} {x_name}</text>'
        f'<text x="2" y="20">{max(y):.3g} {y_name}</text></svg>\n'
    )


def budget() -> dict[str, float]:
    """What a budget of memory costs and saves for the jelly of kernels/mpm.py with 8,281 particles and 128 x 128
    nodes."""
    import quadrants_lab as qd
    from quadrants_lab.kernels.mpm import Jelly, block

    jelly = Jelly(*block(91, 0.3, 0.55), 128, 4e-4)
    jelly.material[None], jelly.target[None], jelly.throw[None] = [10.0, 20.0], [0.7, 0.4], [0.5, 0.5]
    kept: dict[int, int] = {}

    def run(memory: int) -> None:
        with qd.ad.Tape(jelly.loss, memory=memory) as tape:
            jelly.run(512)
        kept[memory] = tape.kept_bytes

    everything = 1 << 32
    run(everything)
    tenth = kept[everything] // 10
    whole, part = fastest(lambda: run(everything), lambda: run(tenth), times=1, rounds=3)
    return {MEMORY.name: kept[tenth] / kept[everything], TIME.name: part / whole}


def revolve() -> dict[str, float]:
    """Compares budgets with the schedule revolve. Also writes out/budgets.txt: for each budget the bytes that were
    kept, and the number of launches that ran again, beside that of revolve."""
    import quadrants_lab as qd
    from benchmarks.cases.programs import InPlace
    from quadrants_lab.runtime.tape.recomputation import repeats

    qd.reset()
    qd.init(arch=qd.cpu)
    wave = InPlace(size=32, steps=300)
    state = 2 * 4 * 32 * 32 + 4
    lines = [f"{'budget':>9}{'kept':>9}{'made again':>12}{'revolve':>9}  a state is {state} bytes"]
    over = again = 0.0
    for states in STATES:
        memory = int(states * state)
        tape, best = wave.taped(memory), repeats(wave.steps + 1, memory // state)
        lines.append(f"{memory:>9}{tape.kept_bytes:>9}{tape.made_again:>12}{best:>9}")
        over, again = max(over, tape.kept_bytes / memory), max(again, tape.made_again / best)
    (ROOT / "out").mkdir(exist_ok=True)
    (ROOT / "out" / "budgets.txt").write_text("\n".join(lines) + "\n")
    return {OVER.name: over, AGAIN.name: again}
