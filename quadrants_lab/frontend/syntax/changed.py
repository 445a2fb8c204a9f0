"""Which locals a loop changes: what it has to carry, or to share.

Its text shows the assignments. An atomic on a local, a func that takes a local by reference and a method change locals
too, and the text does not show it: what is called may be known by any name, or come out of a table. So a loop whose
body turned out to change more than was known is lowered once more, now that it is known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.frontend.syntax.scan import assigned
from quadrants_lab.frontend.values.context import Context, Env
from quadrants_lab.frontend.values.values import Value


def changed(cx: Context, owner: ast.AST, body: Sequence[ast.AST]) -> tuple[str, ...]:
    """Names that ``body``, which belongs to the loop ``owner``, gives a new value, as far as that is known."""
    return tuple(dict.fromkeys((*assigned(cx.frame.source, owner, body), *_found(cx, owner))))


def settled(cx: Context, owner: ast.AST, lower: Callable[[], None]) -> None:
    """Lowers the loop ``owner`` by ``lower``, again while `missed` finds further changed locals."""
    found = _found(cx, owner)
    while True:
        known, back = len(found), mark(cx)
        lower()
        if len(found) == known:
            break
        back()
    if cx.top:  # no loop around it may be lowered again
        cx.unforeseen.clear()


def missed(cx: Context, owner: ast.AST, before: Env, names: Iterable[str]) -> None:
    """Remembers which of ``names``, locals as they were ``before`` the body of the loop ``owner``, it has changed."""
    found, env = _found(cx, owner), cx.frame.env
    found.update((name, None) for name in names if env[name] is not before[name])


def _found(cx: Context, owner: ast.AST) -> dict[str, None]:
    """The changed locals of a loop, by the loop and its call. They are kept, so that the number of times a loop is
    lowered does not double with each loop around it."""
    return cx.unforeseen.setdefault((id(owner), cx.frame.call), {})


def mark(cx: Context) -> Callable[[], None]:
    """Returns a function that undoes everything lowered from now on. Call it in the same frame."""
    b, frame = cx.b, cx.frame
    stmts, count, next_id, messages = b.stmts, len(b.stmts), b.next_id, len(cx.messages)
    tables = cx.buffers, cx.bindings, cx.by_field, cx.reads, frame.globals, frame.env, frame.ended
    copies = [dict(t) for t in tables]
    returned, sites, stopped = len(frame.returning or ()), cx.sites, set(cx.stopped)

    def back() -> None:
        del stmts[count:], cx.messages[messages:]
        b.stmts, b.next_id = stmts, next_id
        cx.buffers, cx.bindings, cx.by_field, cx.reads, frame.globals, frame.env, frame.ended = map(dict, copies)
        if frame.returning is not None:
            del frame.returning[returned:]
        cx.sites, cx.stopped, cx.exited = sites, set(stopped), False

    return back


def tried(cx: Context, lower: Callable[[], list[Value]]) -> list[Value]:
    """What ``lower`` gives, with all of it undone but the attributes that launches must look at again; nothing where it
    is an error. Funcs in it do not try anything themselves: a recursion that a decided condition ends would not end."""
    back, inlining = mark(cx), len(cx.inlining)
    state = {name: set(value) if isinstance(value, set) else value for name, value in vars(cx).items()}
    span, loop, active = cx.b.span, cx.frame.loop, [set(cells) for cells in cx.active]
    cx.trying = cx.frame
    try:
        found = lower()
    except QuadrantsError:
        found = []
    reads = dict(cx.reads)
    vars(cx).update(state)
    back()
    del cx.inlining[inlining:]
    cx.b.span, cx.frame.loop, cx.active, cx.reads = span, loop, active, reads
    return found
