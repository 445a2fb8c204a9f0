"""Pairs of kernels: one whose iterations race, and its like in which they do not.

A racy one that is ``sure`` races by indices alone: it is told when it is compiled; others race for the data they get.
"""

# ruff: noqa: F821
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import quadrants_lab as qd
from programs import F, I, Program


@dataclass(frozen=True)
class Racy:
    program: Program
    sure: bool


RACY: list[Racy] = []
CLEAN: list[Program] = []


def racy(fields: dict[str, F | I], *, sure: bool = True, **more: Any) -> Callable[[Callable], Callable]:
    def add(fn: Callable) -> Callable:
        RACY.append(Racy(Program(fn, fields, **more), sure))
        return fn

    return add

def clean(fields: dict[str, F | I], **more: Any) -> Callable[[Callable], Callable]:
    def add(fn: Callable) -> Callable:
        CLEAN.append(Program(fn, fields, **more))
        return fn

    return add


LINE = {"x": F(), "out": F((12,))}
TWO = {"a": F((12,)), "b": F((12,))}
GRID = {"u": F((8, 8))}
ORDER = tuple((5 * i + 3) % 12 for i in range(12))
TWICE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10)


# --- neighbours

@racy(LINE, scalars={"n": 12})
def from_the_one_before(n: int):
    for i in range(1, n):
        out[i] = out[i - 1] + x[None]

@clean(LINE, scalars={"n": 12})
def from_the_one_before_in_order(n: int):
    qd.loop_config(serialize=True)
    for i in range(1, n):
        out[i] = out[i - 1] + x[None]

@racy(TWO)
def shifted_onto_itself():
    for i in range(11):
        a[i] = a[i + 1] * 0.5

@racy(TWO)
def around_the_end():
    for i in a:
        a[i] = a[(i + 1) % 12] * 0.5

@clean(TWO)
def around_the_end_of_another():
    for i in a:
        b[i] = a[(i + 1) % 12] * a[(i - 1) % 12]

@racy(GRID)
def stencil_in_place():
    for i, j in qd.ndrange((1, 7), (1, 7)):
        u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

@clean(GRID)
def every_other_point_in_place():
    for i, j in qd.ndrange((1, 7), (1, 7)):
        if (i + j) % 2 == 0:
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

@racy(GRID)
def diagonal_neighbours():
    for i, j in qd.ndrange(7, 7):
        u[i + 1, j + 1] = qd.sin(u[i, j])

@clean(GRID)
def one_row_from_another():
    for j in range(8):
        u[4, j] = qd.sin(u[3, j]) * u[5, 7 - j]

# --- halves, strides, mirrors

@racy(TWO)
def halves_that_overlap():
    for i in range(8):
        a[i] = a[i + 4]

@clean(TWO)
def halves():
    for i in range(6):
        a[i] = a[i + 6] * a[i]

@clean(TWO, scalars={"shift": 6, "n": 6})
def halves_by_an_argument(shift: int, n: int):
    for i in range(n):
        a[i] = a[i + shift] * a[i]

@clean(TWO, scalars={"n": 12})
def a_permutation_of_as_many(n: int):
    for i in range(n):
        a[i * 5 % 12] = b[i] * b[i]

@racy(TWO, sure=False, scalars={"shift": 2, "n": 6})
def overlap_by_an_argument(shift: int, n: int):
    for i in range(n):
        a[i] = a[i + shift] * a[i]

@racy(TWO)
def even_from_every_fourth():
    for i in range(3):
        a[2 * i] = a[4 * i] + 1.0

@clean(TWO)
def even_from_odd():
    for i in range(6):
        a[2 * i] = a[2 * i + 1] * a[2 * i]

@racy(TWO)
def mirrored_in_place():
    for i in range(12):
        a[i] = a[11 - i]

@clean(TWO)
def mirrored_halves():
    for i in range(6):
        a[i] = a[11 - i] * 0.5

@racy(TWO)
def two_to_one():
    for i in range(12):
        a[i // 2] = b[i]

@clean(TWO)
def both_by_one():
    for i in range(6):
        for k in range(2):
            a[2 * i + k] = b[2 * i + k] * b[i]

@racy({"v": F((24,))})
def rows_that_are_too_long():
    for i in range(4):
        for j in range(6):
            v[5 * i + j] = 1.0 * i

@clean({"v": F((24,))})
def rows_of_a_flat_array():
    for i in range(4):
        for j in range(6):
            v[6 * i + j] = v[6 * i + j] * j

# --- one element for all

@racy(LINE)
def summed_without_atomics():
    for i in out:
        x[None] = x[None] + out[i]

@clean(LINE)
def one_iteration_writes():
    for i in out:
        if i == 3:
            x[None] = out[i] * out[i]

@clean({"out": F((12,)), "flag": I((), 0, 0)})
def the_same_from_all():
    for i in out:
        if out[i] > -2.0:
            flag[None] = 1
        out[i] = out[i] * 2.0

@clean({"u": F((8, 8)), "labels": I((8,), 0, 0), "out": F((12,))})
def the_same_from_all_that_meet():
    for i, j in u:
        labels[j] = 2 * j + 1
        out[i] = u[i, i] * 0.5

@racy({"u": F((8, 8)), "labels": I((8,), 0, 0)})
def not_the_same_from_all_that_meet():
    for i, j in u:
        labels[j] = 2 * j + i

@racy(LINE, sure=False)
def greatest_without_atomics():
    for i in out:
        if out[i] > x[None]:
            x[None] = out[i]

@clean(LINE)
def greatest_with_atomics():
    for i in out:
        qd.atomic_max(x[None], out[i])

@racy(LINE)
def read_while_it_grows():
    for i in out:
        x[None] += 1.0
        out[i] = x[None]

@clean(LINE)
def read_when_it_has_grown():
    for i in out:
        x[None] += out[i] * 0.1
    for i in out:
        out[i] = x[None] * out[i]

@racy({"k": I((), 0, 0), "out": F((12,))}, sure=False)
def counter_read_by_others():
    for i in out:
        qd.atomic_add(k[None], 1)
        out[i] = 1.0 * k[None]

@racy(LINE)
def reset_by_all():
    for i in out:
        x[None] += out[i]
        x[None] = 0.0

# --- funcs, vectors, structs, loops inside

def put(i, value):
    a[i + 1] = value

def get(i):
    return a[i]

@racy(TWO, funcs=(put, get))
def through_funcs():
    for i in range(11):
        put(i, get(i))


VECTORS = {"p": F((6,), element=(2,)), "q": F((6,), element=(2,))}


@racy(VECTORS)
def vectors_of_neighbours():
    for i in range(5):
        p[i] = p[i + 1] * 0.5

@clean(VECTORS)
def components_of_vectors():
    for i in range(6):
        p[i][0] = p[i][1] * q[5 - i][0]
        p[i][1] = p[i][0]

@racy(VECTORS)
def one_component_for_all():
    for i in range(6):
        q[0][1] = p[i][0]

@clean(VECTORS)
def one_component_each():
    for i in range(6):
        q[i][i % 2] = p[5 - i][0] * 2.0


STRUCTS = {"s.m": F((6,)), "s.r": F((6,))}


@racy(STRUCTS)
def members_of_neighbours():
    for i in range(5):
        s[i].m = s[i + 1].m * s[i].r

@clean(STRUCTS)
def members_of_another_kind():
    for i in range(5):
        s[i].m = s[i + 1].r * s[i].m

@racy(GRID)
def lower_from_upper_and_back():
    for i in range(8):
        for j in range(8):
            u[i, j] = u[j, i] * 0.5

@clean(GRID)
def lower_from_upper():
    for i in range(8):
        for j in range(i):
            u[i, j] = u[j, i] * u[i, j]

@racy(GRID, sure=False, scalars={"n": 6})
def a_while_that_reaches_the_next_row(n: int):
    for i in range(n):
        j = 0
        while j < 8 and u[i, j] < 5.0:
            u[i + j // 7, (j + 1) % 8] = 1.0 * i
            j += 1

@clean(GRID, scalars={"n": 6})
def a_while_in_ones_own_row(n: int):
    for i in range(n):
        j = 0
        while j < 7 and u[i, j] < 5.0:
            u[i, j + 1] = u[i, j] * 0.5
            j += 1

@racy({"w": I((), 10, 10), "out": F((12,))})
def as_far_as_a_field_says():
    for i in range(w[None]):
        out[i + 1] = out[i] * 0.5

@racy({"a": F((9,), arg=True)})
def along_an_argument(a: qd.types.ndarray()):
    for i in range(a.shape[0] - 1):
        a[i] = a[i + 1] * 0.5

@clean({"a": F((9,), arg=True), "b": F((9,), arg=True)})
def from_one_argument_to_another(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in range(a.shape[0] - 1):
        b[i] = a[i + 1] * a[i]

@clean({"u": F((2, 8))}, scalars={"t": 3})
def ping_and_pong(t: int):
    for i in range(1, 7):
        u[(t + 1) % 2, i] = u[t % 2, i - 1] * u[t % 2, i + 1]

@clean({"u": F((6, 8))})
def steps_of_time():
    for i in range(8):
        for t in range(5):
            u[t + 1, i] = qd.sin(u[t, i])

@clean({"x": F((12,)), "y": F()}, scalars={"first": 6, "many": 6})
def halves_that_arguments_keep_apart(first: int, many: int):
    for i in range(first, first + many):
        x[i] = x[i - first] * 2.0


from programs import races_data as programs_races_data  # noqa: E402, F401  the tables go on there
