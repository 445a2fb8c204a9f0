"""The division of recomputed steps into segments, against the optimum by brute force."""

from functools import cache

from quadrants_lab.runtime.tape.recomputation import lengths


@cache
def made(steps: int, states: int) -> int:
    """How many steps are made, where each segment is divided anew with the states that those before it leave."""
    return steps + sum(made(n, states - k) for k, n in enumerate(lengths(steps, states)) if n > 1)


@cache
def least(steps: int, states: int) -> int:
    return steps + _divided(steps, states, steps - 1)


@cache
def _divided(steps: int, states: int, longest: int) -> int:
    """The least number of steps for segments of at most ``longest`` steps; the last step needs no state of its own."""
    if steps == 0 or states < 0:
        return 0 if steps <= 1 else 10**9
    return min(
        (least(n, states) if n > 1 else 0) + _divided(steps - n, states - 1, steps - n)
        for n in range(1, min(steps, longest) + 1)
    )


def test_recomputed_steps_are_close_to_the_least() -> None:
    for states in range(6):
        for steps in range(2, 40):
            assert sum(lengths(steps, states)) == steps
            assert least(steps, states) <= made(steps, states) <= 1.3 * least(steps, states)
