"""The protocol of values.

A value consists of numbers, its leaves, and of a structure around them, as a pytree of JAX does. A kind of value is a
subclass of `Value` in a module beside this one. Code that lowers a program uses the protocol, and does not test
classes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Lowering = Any  # a `context.Context`: its module stands on those of the kinds of values


class Value:
    """The protocol, with the answers of a value that holds no numbers and no entries. A kind overrides those that
    differ for it, attributes maybe by properties.

    fixed       "" for a local variable; otherwise the name that has the value cannot be assigned, and it says why
    words       describe the kind, for messages
    brackets    around its entries, where it is printed
    token       the identity of a list or dict that the kernel makes, and ``depth`` the number of conditions and loops
                around the place where it was made
    is_number   whether it is a number that is loaded
    is_held     whether a local holds it as numbers of its own: a number, a matrix, a struct, a list, a dict
    id          of the SSA value that it is, if it is one
    constant    the number that it is, if that is known at compile time
    shape       of a vector or matrix
    is_local    whether a name with this value is a local variable, which can be assigned
    is_variable  whether it is a place, a local variable or a part of one
    is_shared   whether it belongs to a local that all iterations of a parallel loop share
    is_alias    whether a running kernel does not compute it, so that a local or the result of a func is another name
                for it: an object of Python, a field, a range
    is_memory   whether it consists of numbers of fields and ndarrays that are not loaded, as a parameter by reference
                may
    view        the ndarray whose consecutive elements it is a view of
    parts       the entries of a list, dict or tuple
    length      what Python's ``len`` says of it
    has_items   whether it has an `item` and `items`
    holds       whether it is a list, dict or tuple, which holds values
    kind        of a list or dict that the kernel makes, "list" or "dict"; ``copied`` is one of Python with its entries
    fields      the fields of a field or ndarray: one, or those of the members of structs
    names       of the members of a struct
    member      the member of an enumeration whose number it is
    captured    the object of Python that it is, if it is one that is no number, field, vector, matrix or struct
    string      the text that it is, if it is a string of Python
    snode       the node of a layout that it is
    axes        of an ndrange, begin and end of each
    tile        the tile that it is, memory that a variable owns
    slab        the slice of an array of which a tile is loaded
    is_object   whether Python has an object for all of it: it is captured, or a list, dict or tuple
    is_space    whether a loop can go over it: a field, an ndarray, a range, an ndrange, a node
    static_key  describes what is known of it at compile time. A func may call itself if the key is another one, because
                qd.static can decide on it; with the same key the recursion would not end
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
        """What the name of each child adds to that of the value."""
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
        """The value with these numbers in place of its own."""
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
        """Whether the other value can replace it, as far as its numbers fit."""
        return bool(self.structure() == new.structure())

    def pairs(self, cx: Lowering, new: Value, node: ast.expr) -> Iterator[tuple[Any, Any]]:
        """Pairs of a number of it and the number of ``new`` that replaces it; a number is broadcast to a matrix. Error
        QL1417 where the shapes differ."""
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
        """The part that a `steps.Step` leads to, not loaded; of a local, a part of the local."""
        return step.take(cx, self, node)  # type: ignore[no-any-return]

    def cells(self, cx: Lowering, node: ast.expr) -> Any:
        """The value with the entries of elements of matrix fields one by one."""
        return self.map(lambda leaf: leaf.cells(cx, node))

    def held(self, cx: Lowering, node: ast.expr) -> Value:
        """The value of a place, not loaded: of a local what it holds, of all other values itself."""
        return self

    def with_parts(self, parts: Iterable[Value], **changed: Any) -> Any:
        """The list, dict or tuple with these entries in place of its own, and other attributes as ``changed`` says."""
        return self

    def pinned(self, why: str, node: ast.AST | None = None) -> Any:
        """A number, matrix or struct whose name cannot be assigned, as ``why`` says; other values as they are.
        ``node``: the place of a literal from now on."""
        return self

    def renewed(self) -> Value:
        """The value at this point of the program, for a `View`; itself for other values."""
        return self

    # --- what it is in the kernel, and in Python ------------------------------------------------------------------

    def owned(self, cx: Lowering, node: ast.expr) -> Any:
        """The value as a new variable holds it, which nothing else changes."""
        return self.map(lambda leaf: cx.new_variable(leaf, node))

    def load(self, cx: Lowering, node: ast.expr) -> Value:
        """The value with its arguments and its elements of fields and ndarrays loaded."""
        return self

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        """The value, which must be a number; an error that describes it otherwise."""
        raise cx.fail("QL1406", node, what=self.describe())

    def numbers(self, cx: Lowering, node: ast.expr) -> Any:
        """The value, which must be a number, a matrix or a struct; an error that describes it otherwise."""
        return self.number(cx, node)

    def printed(self, cx: Lowering) -> Iterable[tuple[str, Any]]:
        """The entries that ``print`` shows between `brackets`, each with the text before it."""
        return (("", entry) for entry in self.entries(cx) or ())

    def identity(self) -> Any:
        """What the operator ``is`` compares: the captured object, or the value itself if it is no object of Python."""
        return self

    def python(self, cx: Lowering) -> Any:
        """The Python object that a compile-time value stands for; TypeError for a value of the running kernel."""
        raise TypeError(self.describe())


class Leaf(Value):
    """The protocol of one number."""

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
