"""Configures Sphinx, which builds these pages (`make docs`). Formulas become MathML, for which a browser needs no
script from another host."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent), str(DOCS.parent / "scripts")]

import quadrants_lab  # noqa: E402  # after the path

project = "quadrants_lab"
author = "the authors of quadrants_lab"
version = release = quadrants_lab.__version__
extensions = ["myst_nb", "tables"]
html_math_renderer = "mathml"
exclude_patterns = ["README.md", "**/.ipynb_checkpoints"]
nb_execution_mode = "cache"  # a lesson of docs/lessons is run when its text is another one than the last time
nb_execution_cache_path = str(Path(__file__).parent.parent / "out" / "live_lessons")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_ipywidgets_js = {}  # the panes are static copies: a page asks no other host for scripts
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
smartquotes = False  # messages are shown as they are
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["cells.css"]
html_title = "quadrants_lab"
html_copy_source = False
pygments_style = "tango"


def _formula(writer: Any, node: Any) -> None:
    text = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", node.astext()).replace(r"\dots", r"\ldots")
    writer.body.append(tex2mathml(text, as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
