"""How steps are divided to be made again, against the optimum by brute force."""

from functools import cache

from quadrants_lab.runtime.tape.recomputation import first, repeats, repetitions, reversible_steps


@cache
def made(steps: int, slots: int) -> int:
    """How many steps are made. The last ones, which fit, save all that their gradients need."""
    if steps <= slots:
        return steps
    if slots == 1:
        return steps + made(steps - 1, 1)
    ahead = first(steps, slots)
    return ahead + made(steps - ahead, slots - 1) + made(ahead, slots)


@cache
def least(steps: int, slots: int) -> int:
    if steps <= slots:
        return steps
    if slots == 1:
        return steps + least(steps - 1, 1)
    return min(ahead + least(steps - ahead, slots - 1) + least(ahead, slots) * (ahead > 1) for ahead in range(1, steps))


@cache
def revolve(steps: int, slots: int) -> int:
    """The least number of steps if each is made once more for its own gradient."""
    if steps == 1:
        return 0
    if slots == 1:
        return steps - 1 + revolve(steps - 1, 1)
    return min(ahead + revolve(steps - ahead, slots - 1) + revolve(ahead, slots) for ahead in range(1, steps))


def test_steps_made_again_are_close_to_the_least() -> None:
    for slots in range(1, 20):
        for steps in range(slots + 1, 60):
            assert least(steps, slots) <= made(steps, slots) <= 1.05 * least(steps, slots) + 1
            assert repeats(steps, slots) == revolve(steps, slots)


def test_a_step_is_made_as_often_as_it_says() -> None:
    @cache
    def often(steps: int, slots: int) -> int:
        if steps <= slots or slots == 1:
            return repetitions(steps, slots)
        ahead = first(steps, slots)
        return max(1 + often(ahead, slots), often(steps - ahead, slots - 1))

    for slots in range(1, 8):
        for most in range(1, 6):
            assert often(reversible_steps(slots, most, 0.0), slots) == most
            assert repetitions(reversible_steps(slots, most, 0.0) + 1, slots) == most + 1
