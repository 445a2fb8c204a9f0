"""Defines the protocol of values: what an expression of a kernel is while it is lowered.

A value consists of numbers, its leaves, and of a structure around them, as a pytree of JAX does. Each kind of value
is a subclass of `Value` in another module of this package. Code that lowers a program uses the protocol and does
not test for classes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Lowering = Any  # a `context.Context`: its module imports this one


class Value:
    """The protocol of values. The defaults are those of a value without numbers and entries; a kind of value overrides
    what differs, also by properties in place of attributes.

    fixed       "" for a local variable; for a value whose name cannot be assigned, the reason why
    words       the kind of the value in words, for messages
    brackets    the brackets around its entries when it is printed
    token       the identity of a list or dict that the kernel makes; ``depth`` is the number of conditions and loops
                around the place where it was made
    is_number   whether it is a number that is loaded
    is_held     whether a local holds it as numbers of its own: a number, a matrix, a struct, a list, a dict
    id          the id of the SSA value, for a value that is one
    constant    the Python number, for a number that is known at compile time
    shape       the shape of a vector or matrix; () for other values
    is_local    whether a name with this value is a local variable, which can be assigned
    is_variable whether it is a place, a local variable or a part of one
    is_shared   whether it belongs to a local that all iterations of a parallel loop share
    is_alias    whether a running kernel does not compute it, so that a local or the result of a func is another name
                for it: an object of Python, a field, a range
    is_memory   whether it consists of numbers of fields and ndarrays that are not loaded, as a parameter by reference
                may
    view        the ndarray, for a view of consecutive elements of an ndarray
    parts       the entries of a list, dict or tuple
    length      the result of Python's ``len``
    has_items   whether it has an `item` and `items`
    holds       whether it is a list, dict or tuple, which holds values
    kind        "list" or "dict", for one that the kernel makes; ``copied`` is a Python list or dict of its entries
    fields      the fields of a field or ndarray: one, or one for each member of a struct
    names       the names of the members of a struct
    member      the member of an enumeration, for a number that is the value of one
    captured    the Python object, for a value that is one, but no number, field, vector, matrix or struct
    string      the text, for a Python string
    snode       the node, for a node of a layout
    axes        begin and end of each axis, for an ndrange
    tile        the tile, for a tile: memory that a variable owns
    slab        the slice of an array from which a tile is loaded
    is_object   whether Python has an object for all of it: it is captured, or a list, dict or tuple
    is_space    whether a loop can go over it: a field, an ndarray, a range, an ndrange, a node
    static_key  what compile time knows of the value. A func may call itself if some argument has another key, because
                qd.static can end the recursion depending on the key; with equal keys it would not end
    """

    __slots__ = ()
    fixed: str = ""
    words = ""
    brackets: Any = None
    token: object = None
    kind = ""
    copied: Any = None
    depth: int = 0
    is_number = is_held = False
    id: Any = None
    constant: Any = None
    shape: Any = ()
    is_local: Any = False
    is_variable = False
    is_shared: Any = property(lambda self: any(leaf.is_shared for leaf in self.leaves()))
    is_alias = False
    is_memory: Any = False
    view: Any = None
    parts: Any = ()
    length: Any = None
    has_items: Any = False
    static_key: Any = None
    holds = False
    fields: Any = ()
    captured: Any = None
    string: Any = None
    names: Any = ()
    member: Any = None
    snode: Any = None
    axes: Any = ()
    tile: Any = None
    slab: Any = None
    is_object = False
    is_space: Any = False

    def describe(self) -> str:
        """The value in words, for messages."""
        return self.words

    # --- the tree of numbers --------------------------------------------------------------------------------------

    def children(self) -> Sequence[Any]:
        """The values that hold its numbers, in order. A kind with children has `labels` and `rebuilt`."""
        return ()

    def labels(self) -> Iterable[str]:
        """For each child the suffix that makes its name of the name of the value, such as ``[0]`` or ``.pos``."""
        return ()

    def rebuilt(self, children: Iterable[Any]) -> Any:
        """A value of other children in the same structure."""
        return self

    def leaves(self) -> Iterator[Any]:
        """The numbers of a number, matrix, struct, list or dict, in order."""
        for child in self.children():
            yield from child.leaves()

    def map(self, fn: Callable[[Any], Any]) -> Any:
        """The value with ``fn`` applied to each of its numbers."""
        return self.rebuilt([child.map(fn) for child in self.children()])

    def with_leaves(self, numbers: Iterable[Any]) -> Any:
        """The value, in which these numbers replace the leaves, in order."""
        left = iter(numbers)
        return self.map(lambda _: next(left))

    def leaf_names(self, name: str) -> Iterator[str]:
        """The names of the numbers of a local ``name``: ``v``, ``v[0]``, ``m[1,0]``, ``s.a``."""
        for label, child in zip(self.labels(), self.children(), strict=True):
            yield from child.leaf_names(name + label)

    def structure(self) -> Any:
        """A description that is equal for two values between which a run-time condition can choose: kinds, names of
        members, numbers of entries, and the identity of everything that is not a number."""
        return id(self)

    def fits(self, new: Value) -> bool:
        """Whether the value ``new`` can be assigned to a local with this value, judged by the shapes of their
        numbers."""
        return bool(self.structure() == new.structure())

    def pairs(self, cx: Lowering, new: Value, node: ast.expr) -> Iterator[tuple[Any, Any]]:
        """Pairs of each number of this value and the number of ``new`` that replaces it. If ``new`` is a number, it is
        broadcast. Raises QL1417 if the shapes differ."""
        if not self.fits(new):
            raise cx.fail("QL1417", node, what=new.describe(), target=self.describe())
        for a, b in zip(self.children(), new.children(), strict=True):
            yield from a.pairs(cx, b, node)

    # --- its entries and elements ---------------------------------------------------------------------------------

    def nth(self, k: int) -> Any:
        """Element ``k``, row by row, of a vector or matrix; a number stands for any element."""
        return self

    def entries(self, cx: Lowering) -> tuple[Any, ...] | None:
        """The entries of a value that can be unpacked, the rows of a matrix, the keys of a dict; None for others."""
        return None

    def item(self, cx: Lowering, index: Any, shown: str, node: ast.Subscript) -> Value:
        """The entry at an index that is known at compile time; ``shown`` is the text of the index."""
        raise NotImplementedError

    def items(self, cx: Lowering, part: slice, shown: str, node: ast.Subscript) -> Value:
        """The entries in a slice that is known at compile time; ``shown`` is the text of the slice."""
        raise NotImplementedError

    def part(self, cx: Lowering, step: Any, node: ast.expr) -> Value:
        """The part to which a `steps.Step` leads, not loaded. For a `Local` the part is a `Local`, too."""
        return step.take(cx, self, node)  # type: ignore[no-any-return]

    def cells(self, cx: Lowering, node: ast.expr) -> Any:
        """The value, in which each element of a matrix field is replaced by its single entries."""
        return self.map(lambda leaf: leaf.cells(cx, node))

    def held(self, cx: Lowering, node: ast.expr) -> Value:
        """The value that a place holds, not loaded: for a `Local` the value of the variable (or part), for all other
        values the value itself."""
        return self

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Any:
        """A copy of the list, dict or tuple with the entries ``parts``, and with the attributes in ``changed``."""
        return self

    def pinned(self, why: str, node: ast.AST | None = None) -> Any:
        """A copy of a number, matrix or struct whose name cannot be assigned, for the reason ``why``; other values are
        returned unchanged. ``node`` becomes the source expression of a literal."""
        return self

    def renewed(self) -> Value:
        """A `View` as it is at this point of the program; other values are returned unchanged."""
        return self

    # --- what it is in the kernel, and in Python ------------------------------------------------------------------

    def owned(self, cx: Lowering, node: ast.expr) -> Any:
        """The value for a new variable, so that changes of no other variable change it."""
        return self.map(lambda leaf: cx.new_variable(leaf, node))

    def load(self, cx: Lowering, node: ast.expr) -> Value:
        """The value, in which arguments and elements of fields and ndarrays are loaded."""
        return self

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        """The value, if it is a number; raises an error that describes any other value."""
        raise cx.fail("QL1406", node, what=self.describe())

    def numbers(self, cx: Lowering, node: ast.expr) -> Any:
        """The value, if it is a number, a matrix or a struct; raises an error that describes any other value."""
        return self.number(cx, node)

    def printed(self, cx: Lowering) -> Iterable[tuple[str, Any]]:
        """The entries that ``print`` shows between the `brackets`, each with the text in front of it."""
        return (("", entry) for entry in self.entries(cx) or ())

    def identity(self) -> Any:
        """What the operator ``is`` compares: the captured object, or the value itself if it is no object of Python."""
        return self

    def python(self, cx: Lowering) -> Any:
        """The Python object that a compile-time value stands for; TypeError for a value of the running kernel."""
        raise TypeError(self.describe())


class Leaf(Value):
    """The protocol of a value that is one number."""

    __slots__ = ()
    is_shared = False

    def leaves(self) -> Iterator[Any]:
        return iter((self,))

    def map(self, fn: Callable[[Any], Any]) -> Any:
        return fn(self)

    def leaf_names(self, name: str) -> Iterator[str]:
        return iter((name,))

    def cells(self, cx: Lowering, node: ast.expr) -> Any:
        return self

    def structure(self) -> Any:
        return "a number"

    def pairs(self, cx: Lowering, new: Value, node: ast.expr) -> Iterator[tuple[Any, Any]]:
        if new.children() and new.token is None:
            raise cx.fail("QL1417", node, what=new.describe(), target="a number")
        yield self, new.number(cx, node)
