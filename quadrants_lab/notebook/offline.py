"""Implements `jupyter nbconvert --to qdhtml`, which makes nbconvert's HTML page without scripts or styles from
other hosts.

nbconvert's own page loads scripts for formulas, diagrams and widgets from other hosts. This page has none of these, and
shows inspectors as static copies, which need no script.
"""

import copy
from typing import Any

from nbconvert import HTMLExporter

_URLS = (
    "mathjax_url", "mermaid_js_url", "require_js_url", "jquery_url", "jupyter_widgets_base_url", "widget_renderer_url"
)  # fmt: skip
_WIDGET = "application/vnd.jupyter.widget-view+json"


class OfflineHTML(HTMLExporter):
    """HTML that loads nothing; ``export_from_notebook`` is its name in JupyterLab's menu."""

    export_from_notebook = "HTML without network"

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> tuple[Any, dict[str, Any]]:
        for url in _URLS:  # set, not redefined: a configuration of HTMLExporter may name them as well
            setattr(self, url, "")
        nb = copy.deepcopy(nb)
        nb.metadata.pop("widgets", None)
        for cell in nb.cells:
            if "outputs" in cell:
                cell.outputs = [o for o in cell.outputs if _WIDGET not in o.get("data", {})]
        return super().from_notebook_node(nb, resources, **kw)
