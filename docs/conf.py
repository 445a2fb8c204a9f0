"""How Sphinx builds these pages: `make docs`."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent), str(DOCS.parent / "scripts")]

os.environ["QL_LIVE"] = "1"  # the lessons' cells get panels that compute in the reader's browser
import quadrants_lab  # noqa: E402  # after the path

project = "quadrants_lab"
author = "the authors of quadrants_lab"
version = release = quadrants_lab.__version__
extensions = ["myst_nb", "tables"]
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
