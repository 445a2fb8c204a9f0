"""Names of scratch buffers that passes make and launches fill."""

from quadrants_lab.ir.nodes import Buffer

CHANGED = "keeps.changed"  # 1 while a gradient has memory in another state than the launch left it
EPOCH = "races.epoch"  # the launch's number times the number of its tasks
EPOCHS = 1 << 8  # number of different epochs in marks of one byte


def marks_of(buffer: Buffer) -> tuple[str, str] | None:
    """For a scratch buffer of marks: the buffer whose elements they mark, and the kind of access. None for others."""
    name, _, what = buffer.name.rpartition(".")
    return (name, what) if buffer.role == "marks" and buffer.name != EPOCH else None
