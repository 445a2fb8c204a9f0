"""`jupyter nbconvert --to qdhtml`: the page that nbconvert makes, without anything that asks another host.

Scripts for formulas, diagrams and widgets come from other hosts in nbconvert's own page. This one has none of them: of
an inspector it shows the static copy, which needs no script.
"""

from __future__ import annotations

import copy
from typing import Any

from nbconvert import HTMLExporter

_WIDGET = "application/vnd.jupyter.widget-view+json"


class OfflineHTML(HTMLExporter):
    """HTML with nothing from outside; ``export_from_notebook`` names it in JupyterLab's menu."""

    export_from_notebook = "HTML without network"
    mathjax_url = mermaid_js_url = require_js_url = jquery_url = jupyter_widgets_base_url = widget_renderer_url = ""

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> tuple[Any, dict[str, Any]]:
        nb = copy.deepcopy(nb)
        nb.metadata.pop("widgets", None)
        for cell in nb.cells:
            if "outputs" in cell:
                cell.outputs = [o for o in cell.outputs if _WIDGET not in o.get("data", {})]
        return super().from_notebook_node(nb, resources, **kw)
