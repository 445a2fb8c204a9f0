"""Implements `jupyter nbconvert --to qdhtml`, which makes nbconvert's HTML page without scripts or styles from
other hosts.

nbconvert's own page loads scripts for formulas, diagrams and widgets from other hosts. This page has none of these, and
shows inspectors as static copies, which need no script.
"""

from typing import Any

from nbconvert import HTMLExporter

_WIDGET = "application/vnd.jupyter.widget-view+json"


def _without_widgets(notebook: Any, resources: Any) -> tuple[Any, Any]:
    """A preprocessor of nbconvert: the outputs that are left are static copies."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [o for o in cell.outputs if _WIDGET not in o.get("data", {})]
    return notebook, resources


class OfflineHTML(HTMLExporter):
    """HTML that loads nothing; ``export_from_notebook`` is its name in JupyterLab's menu."""

    export_from_notebook = "HTML without network"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        for name in self.trait_names():  # set, not redefined: a configuration of HTMLExporter may name them as well
            if name.endswith("_url"):
                setattr(self, name, "")
        # the last of them: one before it may execute the notebook
        self.register_preprocessor(_without_widgets, enabled=True)  # type: ignore[no-untyped-call]
