"""What the browser draws itself: listings, differences and graphs, as the data that it gets."""

import html
import json
import random
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from notebook.sample import TEXT, cell_view

from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.widgets.diff import counts, marked, ranges
from quadrants_lab.widgets.graph import _inside, drawing, svg
from quadrants_lab.widgets.layout import layout
from quadrants_lab.widgets.live import listed
from quadrants_lab.widgets.model import (
    ClusterView,
    EdgeView,
    GraphView,
    KernelView,
    Line,
    NodeView,
    Part,
    view_lines,
)
from quadrants_lab.widgets.panes import render
from quadrants_lab.widgets.tree import Lines


@pytest.fixture(scope="module")
def view():
    return cell_view()


def drawn(markup: str, name: str) -> list[dict]:
    return [json.loads(html.unescape(x)) for x in re.findall(f'data-{name}="([^"]*)"', markup)]


def ties(markup: str) -> set[tuple[int, int, int]]:
    """(source line, statement, adjoint of) of all lines that have a source line."""
    rows = [x for listing in drawn(markup, "lines") for x in listing["t"]]
    nodes = [node for graph in drawn(markup, "graph") for node in graph["nodes"]]
    rows += [x for node in nodes for x in node[7]]
    found = {tuple(map(int, x.split(" ", 3)[:3])) for x in rows} | {(node[6], -1, -1) for node in nodes}
    attributes = r"data-span-line='(\d+)'(?: data-stmt='(\d+)')?(?: data-adj='(\d+)')?"
    found |= {tuple(int(x or -1) for x in tie) for node in nodes for tie in re.findall(attributes, node[5])}
    return {t for t in found if t[0] > 0}


@pytest.mark.parametrize(
    "pane", ["source", "passes/gradient/0/given", "passes/gradient/2/ir", "cfg", "code/gradient/0"]
)
def test_lines_are_tied_to_the_source(view, pane):
    tied = ties(render(view, f"0/{pane}"))
    assert tied
    assert {line for line, _, _ in tied} <= set(range(1, 16))
    assert any(stmt >= 0 for _, stmt, _ in tied) is (pane != "source")


def test_the_adjoint_of_a_sine_names_the_sine(view):
    tied = ties(render(view, "0/passes/gradient/2/ir"))
    assert (10, 9, -1) in tied  # %9 = sin %8
    assert {line for line, _, adjoint_of in tied if adjoint_of == 9} == {10}


def test_marks_name_the_statement_of_their_line(view):
    assert {9, 10, 11} <= {stmt for line, stmt, _ in ties(render(view, "0/cfg")) if line == 10}


# --- differences ----------------------------------------------------------------------------------------------------

def lines(*texts: str) -> list[Line]:
    return [Line(x, 1, n) for n, x in enumerate(texts)]


def test_a_diff_counts_statements_and_keeps_both_sides():
    before = view_lines(KernelView("k", "cell", []), parse_kernel(TEXT, "cell"))
    after = [x for x in before if "const 0.01" not in x.text] + [Line("  new", 3, 99), Line("  newer", 3, 100)]
    after.insert(1, Line("  newest", 3, 101))
    assert counts(before, after) == (3, 1)
    cut = ranges(before, after)
    assert [x for _, a, b, _, _ in cut for x in before[a:b]] == before
    assert [x for *_, c, d in cut for x in after[c:d]] == after


def test_numbers_of_values_are_no_difference_but_which_value_is_read_is():
    before = lines("%1: f32 = const 1.0", "%2: f32 = const 2.0", "%3: f32 = sub %1, %2", "%4: f32 = mul %3, %3")
    renumbered = lines("%7: f32 = const 1.0", "%9: f32 = const 2.0", "%1: f32 = sub %7, %9", "%3: f32 = mul %1, %1")
    swapped = lines("%7: f32 = const 1.0", "%9: f32 = const 2.0", "%1: f32 = sub %9, %7", "%3: f32 = mul %1, %1")
    assert counts(before, renumbered) == (0, 0)
    assert counts(before, swapped)[0] >= 1
    assert all(b - a == d - c for tag, a, b, c, d in ranges(before, swapped) if tag == "equal")


def test_a_number_that_means_another_value_is_a_difference():
    before = lines("%1: f32 = load @x[]", "%2: f32 = load @y[]", "%3: f32 = sin %1")
    after = lines("%2: f32 = load @x[]", "%1: f32 = load @y[]", "%3: f32 = sin %1")
    assert counts(before, after) == (1, 1)


def test_a_diff_is_a_diff():
    """Of random texts: both sides come out whole, and equal stretches are equal but for numbers, which mean the same on
    both."""
    source = random.Random(7)
    for _ in range(200):
        operands = [max(n - source.randrange(1, 4), 0) for n in range(12)]
        texts = [f"%{n}: f32 = {source.choice(['sin', 'cos'])} %{a}" for n, a in enumerate(operands)]
        left, right = ([x for x in texts if source.random() < 0.8] for _ in range(2))
        right = [re.sub(r"%(\d+)", lambda m: f"%{int(m[1]) * 3}", x) for x in right]
        cut = ranges(lines(*left), lines(*right))
        assert [k for _, a, b, _, _ in cut for k in range(a, b)] == list(range(len(left)))
        assert [k for _, _, _, c, d in cut for k in range(c, d)] == list(range(len(right)))
        means: dict[str, str] = {}
        for x, y in (p for tag, a, b, c, d in cut if tag == "equal" for p in zip(left[a:b], right[c:d], strict=True)):
            assert re.sub(r"\d+", "", x) == re.sub(r"\d+", "", y)
            for i, j in zip(re.findall(r"%(\d+)", x), re.findall(r"%(\d+)", y), strict=True):
                assert means.setdefault(i, j) == j
        assert len(set(means.values())) == len(means)


def test_changed_words_are_marked():
    before, after = lines("%4: f32 = add %1, %2", "x < 'a'"), lines("%4: f32 = sub %1, %2", "}")
    rows = [listed(Lines(side, "ir", "t")) for side in (before, after)]
    told = marked(before, after, ranges(before, after), *rows)
    assert [[n for n, _ in side] for side in told] == [[0], [0]]  # the second lines have nothing in common
    assert [re.findall("<mark>(.*?)</mark>", side[0][1]) for side in told] == [["add"], ["sub"]]
    assert [html.unescape(re.sub("<[^>]*>", "", side[0][1])) for side in told] == [
        "1 0 -1 %4: f32 = add %1, %2", "1 0 -1 %4: f32 = sub %1, %2"
    ]  # fmt: skip


def test_any_two_passes_can_be_compared(view):
    markup = render(view, "0/passes/gradient/2")
    menu = re.findall(r'data-req="([^"]*)"', markup)
    others = ("forward/0/ir", "gradient/0/ir", "gradient/2/given")
    assert {f"0/passes/gradient/2/since/{x}" for x in others} <= set(menu)
    assert 'data-from="0/passes/gradient/2/given" data-to="0/passes/gradient/2/ir"' in markup
    for request, pushes in (("forward/0/ir", False), ("gradient/0/given", False), ("gradient/2/ir", True)):
        (listing,) = drawn(render(view, f"0/passes/{request}"), "lines")
        assert any("adstack_push" in x for x in listing["t"]) == pushes
    assert "there is no such pass" in render(view, "0/passes/gradient/2/since/forward/9")


# --- graphs ---------------------------------------------------------------------------------------------------------

def test_svg_is_well_formed(view):
    for graph in (view.kernels[0].graphs[0].cfg, view.kernels[0].graphs[0].scc):
        ElementTree.fromstring(svg(graph))
        for node in drawing(graph)["nodes"]:
            ElementTree.fromstring(f'<svg xmlns:x="x">{node[5]}</svg>')


def loops(depth: int, width: int) -> GraphView:
    """Loops in loops, each with ``width`` ifs in a row: the shape of real control flow."""
    nodes: list[NodeView] = []
    edges: list[EdgeView] = []

    def node(label: str, into: list[Part]) -> str:
        nodes.append(NodeView(str(len(nodes)), label, [Line("%1: f32 = sin %0", 3, 1)]))
        into.append(nodes[-1].id)
        return nodes[-1].id

    def branch(before: str, into: list[Part], chain: int = 0) -> str:
        """An if, in whose else is a chain of others."""
        arms: tuple[list[Part], list[Part]] = [], []
        then, other = (node(label, arm) for label, arm in zip(("then", "else"), arms, strict=True))
        edges.extend((EdgeView(before, then, "then"), EdgeView(before, other, "else")))
        end = branch(other, arms[1], chain - 1) if chain else other
        into.append(arms)
        join = node("join", into)
        edges.extend((EdgeView(then, join), EdgeView(end, join)))
        return join

    def block(before: str, level: int, into: list[Part]) -> str:
        for n in range(width):
            before = branch(before, into, n % 3)
        if level:
            frame = ClusterView("loop", [])
            into.append(frame)
            header = node("for", frame.body)
            edges.append(EdgeView(before, header))
            edges.append(EdgeView(block(header, level - 1, frame.body), header, "back"))
            before = node("after", into)
            edges.append(EdgeView(header, before, "exit"))
        return before

    body: list[Part] = []
    block(node("entry", body), depth, body)
    return GraphView("big", nodes, edges, body)


@pytest.mark.parametrize("depth, width", [(0, 1), (2, 3), (3, 170), (40, 1)])
def test_boxes_lie_apart_and_inside_their_loops(depth, width):
    graph = loops(depth, width)
    sizes = {n.id: (80.0 + 7 * (int(n.id) % 5), 40.0) for n in graph.nodes}
    placed = layout(graph, sizes)
    assert set(placed.nodes) == set(sizes)
    rows: dict[float, list[tuple[float, float]]] = {}
    for name, (x, y) in placed.nodes.items():
        w = sizes[name][0]
        assert 0 <= x - w / 2 <= x + w / 2 <= placed.width
        assert 0 <= y - 20 <= y + 20 <= placed.height
        rows.setdefault(y, []).append((x - w / 2, x + w / 2))
    for row in rows.values():
        assert all(a[1] < b[0] for a, b in pairwise(sorted(row)))
    heights = sorted(rows)
    assert all(b - a > 40 for a, b in pairwise(heights)) or depth > 1  # beside each other only in different frames
    for cluster, x0, y0, x1, y1 in placed.frames:
        inside = set(_inside(cluster.body))
        for name, (x, y) in placed.nodes.items():
            w = sizes[name][0]
            within = x0 <= x - w / 2 and x + w / 2 <= x1 and y0 <= y - 20 and y + 20 <= y1
            outside = x + w / 2 < x0 or x - w / 2 > x1 or y + 20 < y0 or y - 20 > y1
            assert within if name in inside else outside


def test_a_long_chain_of_elifs_in_a_loop_is_drawn_and_stays_narrow():
    arms: tuple[list[Part], list[Part]] = ["2"], ["3"]
    nodes, edges = ["0", "1", "2", "3"], [EdgeView("0", "2", "then"), EdgeView("0", "3", "else")]
    body: list[Part] = ["0", arms, "1"]
    for n in range(4, 3000, 2):
        then, other = str(n), str(n + 1)
        edges += [EdgeView(str(n - 1), then, "then"), EdgeView(str(n - 1), other, "else")]
        inner: tuple[list[Part], list[Part]] = [then], [other]
        arms[1].append(inner)
        nodes += [then, other]
        arms = inner
    graph = GraphView("chain", [NodeView(n, "if") for n in nodes], edges, [ClusterView("loop", body)])
    placed = layout(graph, dict.fromkeys(nodes, (80.0, 40.0)))
    assert placed.width < 25 * len(nodes)
    assert len(drawing(graph)["frames"][0][-1]) == len(nodes)


def test_edges_end_at_their_boxes_and_go_down(view):
    graph: GraphView = view.kernels[0].graphs[0].cfg
    placed = layout(graph, {node.id: (80.0, 40.0) for node in graph.nodes})
    assert any(edge.kind == "back" for edge, _, _ in placed.edges)
    for edge, points, _ in placed.edges:
        for (x, y), end in ((points[0], edge.src), (points[-1], edge.dst)):
            across, down = abs(x - placed.nodes[end][0]), abs(y - placed.nodes[end][1])
            assert (across, down) in ((40, 0), (0, 20)), (edge, points)
        if edge.kind != "back":
            assert all(a[1] <= b[1] for a, b in pairwise(points)), (edge, points)


def test_edges_run_where_no_box_is():
    graph = loops(2, 6)
    sizes = {n.id: (80.0 + 7 * (int(n.id) % 5), 40.0 + 9 * (int(n.id) % 7)) for n in graph.nodes}
    placed = layout(graph, sizes)
    boxes = [(x, y, *sizes[name]) for name, (x, y) in placed.nodes.items()]
    for edge, points, _ in placed.edges:
        for (ax, ay), (bx, by) in pairwise(points):  # a curve is within this box, too
            x0, x1, y0, y1 = min(ax, bx), max(ax, bx), min(ay, by), max(ay, by)
            for x, y, w, h in boxes:
                apart = x1 <= x - w / 2 or x0 >= x + w / 2 or y1 <= y - h / 2 or y0 >= y + h / 2
                assert apart, (edge, (ax, ay), (bx, by), (x, y))
