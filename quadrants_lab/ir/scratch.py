"""Scratch buffers that passes make and launches fill, by name."""

from __future__ import annotations

from quadrants_lab.ir.nodes import Buffer

CHANGED = "keeps.changed"  # of a gradient: 1 while memory is not as the launch left it
EPOCH = "races.epoch"  # the launch's number times the number of its tasks
EPOCHS = 1 << 8  # those of marks of one byte


def marks_of(buffer: Buffer) -> tuple[str, str] | None:
    """For a scratch buffer of marks: the buffer whose elements they mark, and which kind of access."""
    name, _, what = buffer.name.rpartition(".")
    return (name, what) if buffer.role == "marks" and buffer.name != EPOCH else None
