"""The first notebook in JupyterLab: every cell runs, every pane opens, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright")

from notebook.browser import PANES, lab  # after the skip: it imports playwright

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "browser"
NOTEBOOK = ROOT / "notebooks" / "01_a_kernel_and_its_gradient.ipynb"

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_first_notebook_in_both_themes(dark: bool):
    theme = "dark" if dark else "light"
    with lab(NOTEBOOK.parent, OUT, dark) as page:
        page.open(NOTEBOOK.name)
        page.run_all()
        inspectors = page.inspectors()
        assert len(inspectors) >= 4
        for pane in PANES:
            panel = page.show(inspectors[2], pane)
            if pane in ("Passes", "Code"):
                panel.get_by_role("radio", name="gradient").click()
                page.filled(inspectors[2])
            inspectors[2].screenshot(path=OUT / f"{theme}_{pane}.png")
            assert panel.inner_text().strip()
            assert "this pane failed" not in panel.inner_text()
        assert page.outside == []
        assert page.errors == []
