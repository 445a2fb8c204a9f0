"""What a Tape costs beside the same launches by hand, and what a budget of memory saves and costs."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.relaunch import Limit, fastest

APART = Limit("wave, each step in elements of its own: under a Tape over by hand", 1.2, "")
IN_PLACE = Limit("wave in place under a Tape, over the one in elements of their own by hand", 1.2, "")
PAIR = Limit("a launch and its gradient under a Tape", 8.0, "us")
RECORDED = Limit("a launch of a recorded program", 2.0, "us")
MEMORY = Limit("mpm, 512 steps: kept with a tenth as budget, of what is kept without one", 0.1, "")
TIME = Limit("mpm, 512 steps: time with that budget, of the time without one", 1.6, "")
LIMITS = (APART, IN_PLACE, PAIR, RECORDED, MEMORY, TIME)


def measure() -> dict[str, float]:
    """In a worker: row name -> value in the row's unit."""
    from benchmarks import engine

    engine.init()
    return waves() | pairs() | budget()


def waves() -> dict[str, float]:
    from benchmarks.cases.programs import InPlace, Wave

    apart, in_place = Wave(), InPlace()
    hand, taped, again = fastest(apart.by_hand, apart.taped, in_place.taped, times=1, rounds=12)
    return {APART.name: taped / hand, IN_PLACE.name: again / hand}


def pairs() -> dict[str, float]:
    import quadrants_lab as qd
    from benchmarks.cases.programs import PAIRS

    qd.reset()
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, shape=4, needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def square(i: int):
        for _ in range(1):
            loss[None] += x[i] * x[i]

    def launches() -> None:
        for n in range(PAIRS):
            square(n % 4)

    def under(run: Callable[[], None]) -> Callable[[], None]:
        def taped() -> None:
            with qd.ad.Tape(loss):
                run()

        return taped

    pair, recorded = fastest(under(launches), qd.ad.program(launches), times=1)
    return {PAIR.name: 1e6 * pair / PAIRS, RECORDED.name: 1e6 * recorded / PAIRS}


def budget() -> dict[str, float]:
    """The jelly of kernels/mpm.py: 8,281 particles, 128 x 128 nodes."""
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
