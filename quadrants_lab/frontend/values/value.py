"""What every kind of value answers.

A value consists of numbers, its leaves, and of a structure around them, as a pytree of JAX does. A kind of value is a
class over `Value` in a module beside this one: whoever lowers a program asks the value, and not for its class.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Lowering = Any  # a `context.Context`: its module stands on those of the kinds of values


class Value:
    """The answers of a value that holds no numbers and no entries.

    ``fixed`` is "" for a local variable. Otherwise the name that has the value cannot be assigned, and ``fixed`` says
    in words why. ``token`` is the identity of a list or dict that the kernel makes, None for all other values; `depth`
    is explained at `compound.Container`. ``words`` describe the kind."""

    __slots__ = ()
    fixed: str = ""
    token: object = None
    depth: int = 0
    is_number = False
    brackets = ("", "")
    words = ""

    def describe(self) -> str:
        """The value in words, for messages."""
        return self.words

    # --- the numbers that it consists of ------------------------------------------------------------------------

    def leaves(self) -> Iterator[Any]:
        """The numbers of a number, matrix, struct, list or dict, in order."""
        return iter(())

    def map(self, fn: Callable[[Any], Any]) -> Any:
        """The value with ``fn`` applied to each of its numbers."""
        return self

    def with_leaves(self, numbers: Iterable[Any]) -> Any:
        """The value with these numbers in place of its own."""
        left = iter(numbers)
        return self.map(lambda _: next(left))

    def leaf_names(self, name: str) -> Iterator[str]:
        """The names of the numbers of a local ``name``: ``v``, ``v[0]``, ``m[1,0]``, ``s.a``."""
        return iter(())

    def structure(self) -> Any:
        """What is equal for two values between which a run-time condition can choose: shapes, names of members, number
        of entries, and the identity of what is no number."""
        return id(self)

    # --- what a local with this value is ------------------------------------------------------------------------

    @property
    def is_local(self) -> bool:
        """Whether a name with this value is a local variable, which can be assigned."""
        return False

    @property
    def constant(self) -> Any:
        """The number that it is, if that is known at compile time; None otherwise."""
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a vector or matrix; () for all other values."""
        return ()

    def nth(self, k: int) -> Any:
        """Element ``k``, row by row, of a vector or matrix; a number stands for any element."""
        return self

    @property
    def is_shared(self) -> bool:
        """Whether the value belongs to a local that all iterations of a parallel loop share."""
        return any(leaf.is_shared for leaf in self.leaves())

    @property
    def is_memory(self) -> bool:
        """Whether the value is numbers of fields and ndarrays that are not loaded, as a parameter by reference may
        be."""
        return False

    @property
    def view(self) -> Any:
        """The ndarray of which the value is a view of consecutive elements; None for any other value."""
        return None

    # --- its entries --------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Any, ...]:
        """The entries of a list, dict or tuple."""
        return ()

    @property
    def length(self) -> int | None:
        """What Python's ``len`` says of it; None for a value without a length."""
        return None

    def entries(self, cx: Lowering) -> tuple[Any, ...] | None:
        """The entries of a value that can be unpacked, the rows of a matrix, the keys of a dict; None for others."""
        return None

    @property
    def has_items(self) -> bool:
        """Whether the value has an `item`."""
        return False

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        """The entry at an index that is known at compile time, or those in a slice; ``shown`` is its text."""
        raise NotImplementedError

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Any:
        """The list, dict or tuple with these entries in place of its own, and other attributes as ``changed`` says."""
        return self

    def renewed(self) -> Value:
        """The value at this point of the program, for a `View`; itself for other values."""
        return self

    # --- what it is in the kernel, and in Python ----------------------------------------------------------------

    def load(self, cx: Lowering, node: ast.expr) -> Value:
        """The value with its arguments and its elements of fields and ndarrays loaded."""
        return self

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        """The value, which must be a number; an error that describes it otherwise."""
        raise cx.fail("QL1406", node, what=self.describe())

    def python(self, cx: Lowering) -> Any:
        """The Python object that a compile-time value stands for; TypeError for a value of the running kernel."""
        raise TypeError(self.describe())

    def static_key(self) -> Any:
        """A key of what is known of it at compile time. A func may call itself with another key, because qd.static can
        decide on it; with the same key the recursion would not end."""
        return None


class Leaf(Value):
    """The answers of one number."""

    __slots__ = ()

    def leaves(self) -> Iterator[Any]:
        return iter((self,))

    def map(self, fn: Callable[[Any], Any]) -> Any:
        return fn(self)

    def leaf_names(self, name: str) -> Iterator[str]:
        return iter((name,))

    def structure(self) -> Any:
        return "a number"

    @property
    def is_shared(self) -> bool:
        return False
