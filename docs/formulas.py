"""A Sphinx extension: formulas as MathML, which browsers draw without a script from another host."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def _formula(self: Any, node: Any) -> None:
    text = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", node.astext()).replace(r"\dots", r"\ldots")
    self.body.append(tex2mathml(text, as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
