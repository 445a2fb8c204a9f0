"""Collects the cases, the programs that are timed, in a table. A case makes its fields, and returns a function to
time and a value to compare between engines (the packages that are compared)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timed:
    """What a case returns. The function ``run`` is timed; it waits for its launches (`sync`), unless ``after`` is
    given, which waits for them outside of the timing. ``value()`` must agree between engines."""

    run: Callable[[], Any]
    value: Callable[[], float] = lambda: 0.0
    after: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Case:
    """One program that is timed. ``setup`` is called once, after a new ``init`` on ``arch``."""

    group: str
    name: str
    setup: Callable[[], Timed]
    arch: str = "cpu"


def all_cases() -> dict[str, Case]:
    """Every case by "group/name"; imports the engine of this process (QL_ENGINE)."""
    from benchmarks.cases import divergent, draws, launch, programs, reverse, samples, throughput, vulkan

    tables = (launch, throughput, draws, divergent, reverse, programs, samples, vulkan)
    return by_key(*(case for table in tables for case in table.CASES))


def cuda_cases() -> dict[str, Case]:
    """The cases for an NVIDIA GPU, by "group/name"; `benchmarks.cuda` runs them."""
    from benchmarks.cases import cuda

    return by_key(*cuda.CASES)


def by_key(*cases: Case) -> dict[str, Case]:
    return {f"{c.group}/{c.name}": c for c in cases}
