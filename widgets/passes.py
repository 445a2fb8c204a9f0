"""The Passes pane shows every pass from source to IR with sized stacks, what each changed, and the difference
between any two."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.diff import counts
from quadrants_lab.widgets.model import KernelView, Line, PassView, view_lines
from quadrants_lab.widgets.tree import (
    Block,
    Control,
    Difference,
    Lines,
    Slot,
    Tree,
    Word,
    choices,
    code,
    count,
    empty,
    head,
    menu,
    muted,
    seconds,
)

NONE = "no pass was recorded: run the kernel in a %%qdkernel cell or within qd.recording()"


def changed(view: KernelView, step: PassView) -> tuple[int, int] | None:
    """The numbers of added and removed statements, or None if the pass changed nothing."""
    if step.before is step.after:
        return None
    known = (id(step.before), id(step.after))
    if known not in view.changes:
        before, after = view_lines(view, step.before), view_lines(view, step.after)
        same = [x.text for x in before] == [x.text for x in after]
        view.changes[known] = None if same else counts(before, after)
    return view.changes[known]


def delta(change: tuple[int, int] | None) -> Tree:
    if change is None:
        return Word("no change", "same")
    came, gone = change
    if not came and not gone:
        return Word("statements unchanged", "same")
    return [Word(f"+{came}", "add") if came else "", " ", Word(f"−{gone}", "del") if gone else ""]


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The part of the pane that a request asks for: ``""`` everything; ``trace`` the list of passes of that trace;
    ``trace/n`` what pass n changed; ``trace/n/given`` and ``trace/n/ir`` the IR before and after pass n;
    ``trace/n/since/other/m/given`` or ``.../ir`` how the IR after pass n differs from the IR before or after pass m
    of the trace ``other``."""
    if not view.traces:
        return empty(NONE)
    names = [*view.traces, *view.lowered]
    match rest:
        case [trace] if trace in names:
            return _trace(view, prefix, trace)
        case [_, _]:
            return _step(view, prefix, *rest) or empty("there is no such pass")
        case [_, _, ("ir" | "given")]:
            return ir(view, *rest) or empty("there is no such pass")
        case [trace, n, "since", *other] if len(other) == 3:
            return _since(view, prefix, "/".join(other), f"{trace}/{n}/ir") or empty("there is no such pass")
        case [_, *_]:
            return empty("there is no such pass")
    first = "gradient" if "gradient" in view.traces else names[0]
    items = [(name, f"{prefix}/{name}") for name in names]
    which = choices("Which kernel", items, "trace", names.index(first))
    toggles = [
        Control("label", {"class": "tg"}, [Control("input", {"type": "checkbox", "data-toggle": name}), f" {text}"])
        for name, text in (("show-same", "passes that changed nothing"), ("unified", "one column"))
    ]
    bar = Control("div", {"class": "bar"}, [which, Control("span", {"class": "toggles"}, toggles)])
    return [bar, Slot("trace", _trace(view, prefix, first))]


def answer(view: KernelView) -> str:
    """The pane in a sentence: how many passes, and what is left of the kernel, forward and of its gradient."""
    said = []
    for name, steps in view.traces.items():
        if steps and " on " not in name:
            left = sum(line.stmt >= 0 for line in view_lines(view, steps[-1].after))
            said.append(f"{name}: {count(left, 'statement')} after {count(len(steps), 'step')}")
    took = seconds(sum(s.seconds for steps in view.traces.values() for s in steps))
    return f"{'; '.join(said)}{f'; {took} in all' if took else ''}." if said else ""


def irs(view: KernelView, prefix: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each trace, the passes that changed something, each as (name, request for the IR after the pass; it
    begins with ``prefix``). A trace that is not made yet has one pass."""
    made = [
        (trace, [(s.name, f"{prefix}{trace}/{n}/ir") for n, s in enumerate(steps) if not n or changed(view, s)])
        for trace, steps in view.traces.items()
    ]
    return made + [(trace, [(x.name, f"{prefix}{trace}/0/ir")]) for trace, x in view.lowered.items()]


def ir(view: KernelView, trace: str, n: str, when: str) -> Lines | None:
    """The listing of the IR before ("given") or after ("ir") the pass; None if there is no such pass."""
    steps = view.trace(trace)
    if not n.isdigit() or int(n) >= len(steps) or when not in ("given", "ir"):
        return None
    step = steps[int(n)]
    kernel, word = (step.after, "after") if when == "ir" else (step.before, "before")
    lines = view_lines(view, kernel)
    folds, top = folded(lines)
    return Lines(lines, "ir", f"IR {word} {step.name} ({trace})", folds=folds, top=top)


def folded(lines: Sequence[Line]) -> tuple[list[tuple[int, int, str]], int]:
    """The buffers of the kernel, and the bounds of each task, as one line each; and where the longest task begins."""
    texts = [line.text for line in lines]
    tasks = [n for n, text in enumerate(texts) if text.startswith("  offload")] or [len(texts)]
    buffers = sum(text.startswith("  buffer") for text in texts)
    folds = [(1, tasks[0], count(buffers, "buffer"))] if buffers > 1 and buffers == tasks[0] - 1 else []
    for begin in tasks:
        body = next((n for n in range(begin, len(texts)) if texts[n].startswith("  } do ")), begin)
        folds += [(begin + 1, body, "bounds of the loop")] if body > begin + 2 else []
    longest = max(zip(tasks, [*tasks[1:], len(texts)], strict=True), key=lambda task: task[1] - task[0])
    return folds, longest[0] if len(tasks) > 1 else 0


def _trace(view: KernelView, prefix: str, trace: str) -> Tree:
    steps = view.trace(trace)
    deltas = [changed(view, step) for step in steps]
    sizes = [sum(d) if d is not None and step.before is not None else 0 for step, d in zip(steps, deltas, strict=True)]
    chosen = max(range(len(steps)), key=lambda n: sizes[n], default=0)  # the largest change
    items = []
    for n, (step, d) in enumerate(zip(steps, deltas, strict=True)):
        item = {"class": "ps noop" if d is None else "ps", "role": "option", "data-item": ""}
        item |= {"aria-selected": "true" if n == chosen else "false", "tabindex": "0" if n == chosen else "-1"}
        item |= {"data-req": f"{prefix}/{trace}/{n}", "data-into": "step", "title": step.doc.replace("`", "")}
        parts = [Word(step.name, "nm"), Word(delta(d), "dl"), Word(seconds(step.seconds), "tm")]
        items.append(Control("div", item, parts))
    total = seconds(sum(s.seconds for s in steps)) or "in a process of its own"
    noops = sum(d is None for d in deltas)
    front = sum(s.before is None for s in steps[:1])  # the front end is no pass, and has a row
    passes = len(steps) - front
    told = f"{f'{steps[0].name} and ' * front}{passes} pass{'es' * (passes != 1)}"
    foot = Control("div", {"class": "foot"}, f"{told}, {total}; {noops} changed nothing")
    box = {"class": "list", "data-roving": "", "data-follow": "", "role": "listbox", "aria-label": "Passes"}
    side = Control("div", {"class": "side"}, [Control("div", box, items), foot])
    shown = Slot("step", _step(view, prefix, trace, str(chosen)) or ())
    return Control("div", {"class": "split"}, [side, shown])


def _step(view: KernelView, prefix: str, trace: str, n: str) -> Tree | None:
    """Shows what the pass changed, under a heading with what it guarantees."""
    after = ir(view, trace, n, "ir")
    if after is None:
        return None
    step, own = view.trace(trace)[int(n)], f"{trace}/{n}"
    doc = [code(part) if k % 2 else part for k, part in enumerate(step.doc.replace("``", "`").split("`"))]
    ask = f"{prefix}/{own}/since/"
    since = [(name, [(text, ask + request) for text, request in items]) for name, items in irs(view, "")]
    groups = [("", [("what it was given", f"{ask}{own}/given")]), *since]
    # an exported page has comparisons with the last of each trace, and with the first of this one: there are too many
    far = {request for name, items in since for _, request in items[name == trace : -1]}
    pick = menu("compared with", groups, "since", f"{ask}{own}/given", far)
    same = changed(view, step) is None
    shown = after if same or step.before is None else _since(view, prefix, f"{own}/given", f"{own}/ir")
    return [
        head(step.name),
        Block(doc) if step.doc else (),
        Control("div", {"class": "bar"}, muted(["compared with ", pick])) if step.before is not None else (),
        empty("This pass changed nothing.") if same else (),
        Slot("since", shown or ()),
    ]


def _since(view: KernelView, prefix: str, before: str, after: str) -> Tree | None:
    """How the second of two listings, both as ``trace/n/when``, differs from the first."""
    left, right = (ir(view, *x.split("/")) for x in (before, after))
    return Difference(left, right, (f"{prefix}/{before}", f"{prefix}/{after}")) if left and right else None
