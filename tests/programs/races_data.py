"""Pairs of kernels whose places come from data; see `races`."""

# ruff: noqa: F821

from __future__ import annotations

import quadrants_lab as qd
from programs import F, I
from programs.races import LINE, ORDER, TWICE, TWO, clean, racy

ENDS_MEET = (*range(11), 0)  # the first and the last iteration have one place

# --- places from data

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def scattered_twice():
    for i in a:
        b[at[i]] = a[i]

@clean({**TWO, "at": I((12,))}, cases=({"at": ORDER},))
def permuted():
    for i in a:
        b[at[i]] = a[i] * b[at[i]]

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": ORDER},))
def permuted_in_place():
    for i in a:
        a[at[i]] = a[i] * 0.5

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def sums_and_stores_meet():
    for i in a:
        if i % 2 == 0:
            b[at[i]] += a[i]
        else:
            b[at[i]] = a[i]

@clean({**TWO, "at": I((12,))}, cases=({"at": TWICE},))
def sums_meet():
    for i in a:
        b[at[i]] += a[i] * a[i]

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": ENDS_MEET},))
def the_last_reads_where_all_store_one_number():
    for i in a:
        if i > 10:
            a[i] = b[at[i]]
        b[at[i]] = 0.25

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": ENDS_MEET},))
def the_last_reads_where_equal_numbers_are_stored():
    for i in a:
        if i > 10:
            a[i] = b[at[i]]
        b[at[i]] = at[i] * 0.25

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": ENDS_MEET},))
def the_first_reads_where_equal_numbers_are_stored():
    for i in a:
        if i < 1:
            a[i] = b[at[i]]
        b[at[i]] = at[i] * 0.25

@racy({**TWO, "by": I((), 1, 1)}, sure=False)
def shifted_by_data():
    for i in range(2, 10):
        a[i + by[None]] = qd.sin(a[i])

@clean({**TWO, "by": I((), 1, 1)})
def shifted_by_data_to_another():
    for i in range(2, 10):
        b[i + by[None]] = qd.sin(a[i])

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def places_swapped():
    for i in range(6):
        c, d = at[2 * i], at[11 - 2 * i]
        a[c], a[d] = a[d], a[c]

@clean({**TWO, "at": I((12,))}, cases=({"at": ORDER},))
def pairs_of_places_swapped():
    for i in range(6):
        c, d = at[2 * i], at[2 * i + 1]
        a[c], a[d] = a[d] * 0.5, a[c]

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def two_values_at_one_place():
    for i in a:
        b[at[i]] = 1.0
        b[at[i]] = a[i]

@clean({**TWO, "at": I((12,))}, cases=({"at": ORDER},))
def one_place_in_several_trips():
    for i in a:
        b[at[i]] = 1.0
        for j in range(3):
            if j < i:
                b[at[i]] = a[i] * j

@clean({**TWO, "at": I((12,)), "k": I((12,), 0, 0)}, cases=({"at": TWICE},))
def one_value_from_two():
    for i in a:
        k[at[i]] = at[i] * 2
        b[i] = a[i] * a[i]

@racy({**TWO, "at": I((12,))}, sure=False, cases=({"at": (7, *range(1, 12))},))
def read_by_all_and_stored_by_some():
    for i in a:
        c = a[at[i]]
        if i < 3:
            a[at[i]] = c * 2.0
        b[i] = c

@clean({**TWO, "at": I((12,))}, cases=({"at": (0, 11, *range(2, 11), 1)},))
def read_and_stored_by_all():
    for i in a:
        c = a[at[i]]
        if i < 3:
            b[i] = c
        a[at[i]] = c * 2.0

@racy({**TWO, "on": I((12,), 1, 1), "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def stored_where_it_was_on():
    for i in range(6):
        if on[i] > 0:
            a[i + 3] = b[i]
        on[i] = 0
        b[i + 6] = a[at[i]]

@clean({**TWO, "on": I((12,), 1, 1), "at": I((12,))}, cases=({"at": TWICE},))
def stored_where_it_was_on_elsewhere():
    for i in range(6):
        if on[i] > 0:
            a[i + 6] = b[i]
        on[i] = 0
        b[i + 6] = a[at[i]]

@racy({**LINE, "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def stored_by_some():
    for i in out:
        if at[i] == 9:
            x[None] = out[i]

@clean({**LINE, "at": I((12,))}, cases=({"at": ORDER},))
def stored_by_one():
    for i in out:
        if at[i] == 9:
            x[None] = out[i]

@racy({"a": F((12,), arg=True), "b": F((3, 900), arg=True), "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def a_few_places_of_many(a: qd.types.ndarray(), b: qd.types.ndarray(ndim=2)):
    for i in range(a.shape[0]):
        b[at[i] // 4, at[i]] = a[i]

@clean({"a": F((12,), arg=True), "b": F((3, 900), arg=True), "at": I((12,))}, cases=({"at": ORDER},))
def a_few_places_of_many_in_order(a: qd.types.ndarray(), b: qd.types.ndarray(ndim=2)):
    for i in range(a.shape[0]):
        b[at[i] // 4, at[i]] = a[i]

@racy({"a": F((4, 4), arg=True), "b": F((12, 12), arg=True), "at": I((12,))}, sure=False, cases=({"at": TWICE},))
def pairs_of_places(a: qd.types.ndarray(ndim=2), b: qd.types.ndarray(ndim=2)):
    for i, j in a:
        b[at[i + 8], at[j]] = a[i, j]

@clean({"a": F((4, 4), arg=True), "b": F((12, 12), arg=True), "at": I((12,))}, cases=({"at": ORDER},))
def pairs_of_places_in_order(a: qd.types.ndarray(ndim=2), b: qd.types.ndarray(ndim=2)):
    for i, j in a:
        b[at[i + 8], at[j]] = a[i, j]
