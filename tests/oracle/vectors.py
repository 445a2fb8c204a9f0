"""The oracle's vectors and matrices: boxes of taped scalars or integers with the language's element by element meaning.

An assignment copies one (`copied` stands around every right-hand side, see `oracle._Rewrite`); parts in memory write
through to it.
"""

import math
import operator
from collections.abc import Callable

LETTERS = ("xyzw", "rgba", "stpq")


class Window:
    """Some entries of a list of cells, by position."""

    def __init__(self, store, positions) -> None:
        self.store, self.positions = store, tuple(positions)

    def __getitem__(self, k):
        return self.store[self.positions[k]]

    def __setitem__(self, k, value) -> None:
        self.store[self.positions[k]] = value

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self):
        return (self.store[p] for p in self.positions)


class Vec:
    """A vector (``shape`` of one extent) or matrix; ``items`` row by row, a list or a `Window`."""

    def __init__(self, shape, items) -> None:
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "items", items)

    n = property(lambda self: self.shape[0])
    m = property(lambda self: self.shape[1] if len(self.shape) > 1 else 1)

    def get_shape(self):
        return self.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self):
        return iter(self.items)

    def position(self, index) -> int:
        index = tuple(index) if isinstance(index, (tuple, Vec)) else (index,)
        assert len(index) == len(self.shape)
        for k, extent in zip(index, self.shape, strict=True):
            if not 0 <= k < extent:
                raise IndexError(f"{index} of shape {self.shape}")
        return index[0] if len(index) == 1 else index[0] * self.shape[1] + index[1]

    def __getitem__(self, index):
        return self.items[self.position(index)]

    def __setitem__(self, index, value) -> None:
        self.items[self.position(index)] = value

    @staticmethod
    def of(value):
        """A list of numbers as a vector; anything else as it is."""
        return boxed(value) if isinstance(value, (list, tuple)) else value

    def part(self, name: str) -> list[int] | None:
        for letters in LETTERS:
            if len(self.shape) == 1 and set(name) <= set(letters[: self.shape[0]]):
                return [letters.index(c) for c in name]
        return None

    def __getattr__(self, name: str):
        part = self.part(name)
        if part is None:
            raise AttributeError(name)
        return self.items[part[0]] if len(part) == 1 else Vec((len(part),), Window(self.items, part))

    def __setattr__(self, name: str, value) -> None:
        part = self.part(name)
        assert part is not None, name
        if len(part) == 1:
            self.items[part[0]] = value
        else:
            Vec((len(part),), Window(self.items, part)).fill(value)

    def fill(self, value) -> None:
        """Sets every element: from a box of the shape, or all to one number."""
        new = list(spread(value, self.shape))
        for k, v in enumerate(new):
            self.items[k] = v

    def dot(self, other):
        return sum((a * b for a, b in zip(self.items, other.items, strict=True)), 0.0)

    def sum(self):
        return sum(self.items, 0.0)

    def __matmul__(self, other):
        rows, inner = self.shape
        columns = other.shape[1] if len(other.shape) > 1 else 1
        cells = [
            sum((self.items[i * inner + k] * other.items[k * columns + j] for k in range(inner)), 0.0)
            for i in range(rows)
            for j in range(columns)
        ]
        return Vec((rows, columns) if len(other.shape) > 1 else (rows,), cells)

    def determinant(self):
        (a, b), (c, d) = (self.items[0], self.items[1]), (self.items[2], self.items[3])
        assert self.shape == (2, 2)
        return a * d - b * c

    def transpose(self):
        n, m = self.shape
        return Vec((m, n), [self.items[i * m + j] for j in range(m) for i in range(n)])


def spread(value, shape):
    """The elements of ``value``, as many as ``shape`` has."""
    if isinstance(value, (Vec, list, tuple)):
        box = boxed(value)
        assert box.shape == tuple(shape), f"{box.shape} for {tuple(shape)}"
        return box.items
    return [value] * math.prod(shape)


def boxed(value) -> Vec:
    """A vector or matrix of a list of numbers, or of rows."""
    if isinstance(value, Vec):
        return value
    if value and isinstance(value[0], (list, tuple, Vec)):
        rows = [list(r) for r in value]
        return Vec((len(rows), len(rows[0])), [x for r in rows for x in r])
    return Vec((len(value),), list(value))


def lifted(fn: Callable) -> Callable:
    """``fn`` of numbers, element by element where a vector or matrix is among its arguments."""

    def apply(*args):
        shapes = [a.shape for a in args if isinstance(a, Vec)]
        if not shapes:
            return fn(*args)
        columns = [spread(a, shapes[0]) if not callable(a) else [a] * math.prod(shapes[0]) for a in args]
        return Vec(shapes[0], [fn(*xs) for xs in zip(*columns, strict=True)])

    return apply


def _reflected(op: Callable) -> Callable:
    return lambda a, b: op(b, a)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lt", "le", "gt", "ge"):
    _op = getattr(operator, _name)
    setattr(Vec, f"__{_name.rstrip('_')}__", lifted(_op))
    setattr(Vec, f"__r{_name.rstrip('_')}__", lifted(_reflected(_op)))
Vec.__neg__ = lifted(operator.neg)
Vec.__pos__ = lifted(operator.pos)
Vec.__abs__ = lifted(abs)


def copied(value):
    """A vector of its own, with what is in memory read now; anything else as it is."""
    return Vec(value.shape, list(value.items)) if isinstance(value, Vec) else value


def vector(values, dt=None) -> Vec:
    """``qd.Vector`` and ``qd.Matrix``."""
    box = boxed(values)
    return Vec(box.shape, [x if dt is None else dt(x) for x in box.items])


def of_size(n: int, dtype: Callable) -> Callable:
    """``qd.math.vec3`` and the like."""
    return of_shape((n,), dtype)


def of_shape(shape: tuple[int, ...], dtype: Callable) -> Callable:
    """A type of vectors or matrices: called with elements, vectors of them, or one number for all."""
    size = math.prod(shape)

    def make(*args) -> Vec:
        flat = [x for a in args for x in (boxed(a).items if isinstance(a, (Vec, list, tuple)) else [a])]
        return Vec(shape, [dtype(x) for x in (flat * size if len(flat) == 1 else flat)])

    return make
