"""`Kernel.graph`: DOT text, with and without the package graphviz."""

import re
import sys
import types

import pytest
from sessions import ended  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsKeyError, QuadrantsRuntimeError
from quadrants_lab.ir import dot
from quadrants_lab.ir.dot import Edge, Frame, Node, digraph

_ID = r'"(?:[^"\\]|\\.)*"'
_ATTRIBUTES = rf'\[\w+=(?:{_ID}|[\w.]+)(?:, \w+=(?:{_ID}|[\w.]+))*\]'
_STATEMENT = re.compile(
    rf'(?:(?:node|edge) {_ATTRIBUTES}|\w+=(?:{_ID}|[\w.]+)|{_ID}(?: {_ATTRIBUTES})?|{_ID} -> {_ID}(?: {_ATTRIBUTES})?)'
)


def is_dot(text: str) -> bool:
    """Whether the text is a digraph of DOT's grammar, one statement a line."""
    first, *rest = text.splitlines()
    depth = 1 if re.fullmatch(rf"digraph {_ID} \{{", first) else 0
    for line in map(str.strip, rest):
        if depth == 0:
            return False
        if line == "}":
            depth -= 1
        elif re.fullmatch(r"subgraph cluster_\d+ \{", line):
            depth += 1
        elif not _STATEMENT.fullmatch(line):
            return False
    return depth == 0


@pytest.fixture
def waves():
    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def waves(n: qd.i32):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v) if v > 0.5 else v * v
            y[None] += v
        for i in x:
            x[i] = x[i] * x[i]

    waves(3)
    y.grad[None] = 1.0
    waves.grad(3)
    return waves


def test_text_is_quoted() -> None:
    nodes = [Node("a", 'say "x\\n"', ('"1" < 2',), "push"), Node("b{}", "two\nlines", note="note")]
    frames = [Frame("outer", ("a", Frame("inner", ("b{}",))))]
    text = digraph('of "f"', nodes, [Edge("a", "b{}", "kept", "back")], frames)
    assert is_dot(text), text
    assert r'label="say \"x\\n\"\n\"1\" < 2\l"' in text
    assert '"a" -> "b{}" [label="kept", style=dashed, color="#b4530a"]' in text


@pytest.mark.parametrize(("name", "has"), [
    ("cfg", "adstack_push"), ("scc", "pushes v +1"), ("sizes", "3 slots, 12 bytes an iteration"),
])  # fmt: skip
def test_each_graph_is_dot_and_is_drawn(waves, name, has) -> None:
    drawn = waves.graph(name)
    assert is_dot(drawn.source)
    assert has in drawn.source
    shown = drawn._repr_mimebundle_()
    assert shown["text/plain"] == drawn.source
    assert ("image/svg+xml" in shown or "text/html" in shown) is (name != "sizes")


def test_each_task_has_a_frame_and_each_loop_one_in_it(waves) -> None:
    text = waves.graph("cfg").source
    tasks = text.count('    label="Control flow of')
    assert tasks > 1
    assert text.count("subgraph") == tasks + 1
    edges = re.findall(r'"([\d.]+)" -> "([\d.]+)"', text)
    nodes = set(re.findall(r'^  "([\d.]+)" \[', text, re.MULTILINE))
    assert {n for edge in edges for n in edge} <= nodes


def test_without_the_package_rendering_says_what_is_missing(waves, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    dot._class.cache_clear()
    try:
        drawn = waves.graph("cfg")
        with pytest.raises(QuadrantsRuntimeError, match=r"graphviz is not installed.*\n.*pip install graphviz"):
            drawn.render("cfg", format="pdf")
        assert is_dot(open(drawn.save("cfg.gv", tmp_path)).read())
        assert repr(drawn) == drawn.source
    finally:
        dot._class.cache_clear()


def test_with_the_package_it_is_a_source(waves, monkeypatch) -> None:
    class Source:
        def __init__(self, source: str) -> None:
            self.source = source

        def _repr_mimebundle_(self, include=None, exclude=None, **_):
            return {"image/svg+xml": "<svg/>"}

        def render(self, *args, **options):
            return args, options

        save = pipe = view = render

    monkeypatch.setitem(sys.modules, "graphviz", types.SimpleNamespace(Source=Source))
    dot._class.cache_clear()
    try:
        drawn = waves.graph("scc")
        assert isinstance(drawn, Source)
        assert drawn._repr_mimebundle_() == {"image/svg+xml": "<svg/>"}
        assert drawn.render("cfg", format="pdf") == (("cfg",), {"format": "pdf"})
        monkeypatch.setattr(Source, "_repr_mimebundle_", lambda *_: 1 / 0)  # as where the program dot is missing
        assert "text/plain" in drawn._repr_mimebundle_()
    finally:
        dot._class.cache_clear()


def test_what_there_is_not_is_said(waves) -> None:
    with pytest.raises(QuadrantsKeyError, match="a kernel has no graph 'flow': there are cfg, scc, sizes, program"):
        waves.graph("flow")
    with pytest.raises(QuadrantsRuntimeError, match=r"tape.graph\(\)"):
        waves.graph("program")

    @qd.kernel
    def plain() -> qd.i32:
        return 1

    plain()
    for name in ("cfg", "scc", "sizes"):
        with pytest.raises(QuadrantsRuntimeError, match=r"launch plain.grad first"):
            plain.graph(name)
