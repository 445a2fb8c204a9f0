"""`make demo` as its user sees it: the notebook's checks pass, gradients are printed, the page stands alone."""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

import pytest
from child import run
from conftest import ROOT


def test_demo_prints_gradients_and_writes_a_page_that_stands_alone(tmp_path: Path) -> None:
    pytest.importorskip("nbformat")
    page = tmp_path / "inspector.html"
    done = run(sys.executable, ROOT / "scripts" / "demo.py", "--out", page, env={"PYTHONPATH": str(ROOT)})
    computed = float(re.search(r"computed +([\d.e-]+)", done.stdout).group(1))  # type: ignore[union-attr]  # fails if absent
    assert abs(computed - 0.95**50) < 1e-5
    assert re.search(r"^ *512 +1.586549058696 +1.586549058696$", done.stdout, re.MULTILINE)  # the shares of all steps
    assert str(page) in done.stdout
    html = page.read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)|@import|url\((?!["']?(?:data:|#))""", html)
    assert len(html) < 1_500_000  # with modules that compute
    packed = re.search(r'id="data">([^<]+)<', html).group(1)  # type: ignore[union-attr]  # fails if absent
    shape = json.loads(gzip.decompress(base64.b64decode(packed)))["shape"]
    assert shape["kernels"] == ["relax", "wave", "weighted", "chain", "drive"]
