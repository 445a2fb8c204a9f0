"""Finds which local variables a loop changes: a serial loop must carry them, and a parallel loop must share them.
For this it lowers code tentatively, and undoes it.

Assignments are visible in the text of a loop. But an atomic on a local, a func that takes a local by reference and a
method change locals too, and a callee may have any name or come out of a table. So a loop is lowered once more if its
body turned out to change further locals, or if it made lists alias.
"""

import ast
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.frontend.syntax.scan import assigned_names
from quadrants_lab.frontend.values import Value
from quadrants_lab.frontend.values.context import Context, Env


def changed_locals(cx: Context, owner: ast.AST, body: Sequence[ast.AST]) -> tuple[str, ...]:
    """The local variables that ``body``, which belongs to the loop ``owner``, changes: those that its text assigns, and
    those that earlier lowerings of the loop found to change."""
    return tuple(dict.fromkeys((*assigned_names(cx.frame.source, owner, body), *_found(cx, owner))))


def lower_until_stable(cx: Context, owner: ast.AST, lower: Callable[[], None]) -> None:
    """Lowers the loop ``owner`` by calling ``lower``, and repeats that as long as `record_changes` finds further
    changed locals or lists in the body become aliases."""
    found = _found(cx, owner)
    while True:
        known, undo = len(found), snapshot(cx)
        with cx.setting(lower_again=False):
            lower()
            again = cx.lower_again
        if len(found) == known and not again:
            break
        undo()
    if cx.top:  # no loop around this one may be lowered again
        cx.found_changes.clear()


def record_changes(cx: Context, owner: ast.AST, before: Env, names: Iterable[str]) -> None:
    """Records those of the locals ``names`` that the body of the loop ``owner`` has changed since ``before``."""
    found, env = _found(cx, owner), cx.frame.env
    found.update((name, None) for name in names if env[name] is not before[name])


def _found(cx: Context, owner: ast.AST) -> dict[str, None]:
    """The locals that change in the loop, as far as earlier lowerings of it in this call of its function have
    shown. They stay known while an outer loop is lowered again; otherwise each outer loop would double the number
    of times that this loop is lowered."""
    return cx.found_changes.setdefault((id(owner), cx.frame.call), {})


def snapshot(cx: Context) -> Callable[[], None]:
    """Returns a function that undoes all lowering from now on: it restores the whole state except
    `Context.found_changes` and `Context.list_aliases`. It can be called several times."""
    b, frame, found, list_aliases = cx.b, cx.frame, cx.found_changes, cx.list_aliases
    stmts, count, next_id, span, returned = b.stmts, len(b.stmts), b.next_id, b.span, len(frame.returning or ())
    state = _copied(vars(cx))
    scope = _copied({name: getattr(frame, name) for name in ("globals", "env", "out_of_scope", "loop", "hiding")})

    def undo() -> None:
        vars(cx).update(_copied(state), found_changes=found, list_aliases=list_aliases)
        for name, value in _copied(scope).items():
            setattr(frame, name, value)
        del stmts[count:]
        b.stmts, b.next_id, b.span = stmts, next_id, span
        if frame.returning is not None:
            del frame.returning[returned:]

    return undo


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """Copies the state, with each list, dict and set in it."""
    return {k: copy(v) if isinstance(v, (dict, list, set)) else v for k, v in state.items()}


def speculate(cx: Context, lower: Callable[[], list[Value]]) -> list[Value]:
    """Calls ``lower`` and discards the code that it emits. Returns its result, or [] if it raises an error. Attributes
    that it read stay in `Context.reads`. While ``lower`` runs, no func that it inlines speculates: otherwise a
    recursion that a static condition ends would not end."""
    undo = snapshot(cx)
    cx.speculating = cx.frame
    try:
        found = lower()
    except QuadrantsError:
        found = []
    reads = cx.reads
    undo()
    cx.reads = reads
    return found
