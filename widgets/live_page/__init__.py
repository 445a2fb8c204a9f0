"""Pages that compute: a program's data (`notebook.live_page`) with the script that runs it in a browser. `machine.js`
launches and differentiates, `page.js` shows it and takes the reader's numbers."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from quadrants_lab.widgets.live import esc

HERE = Path(__file__).resolve().parent
NEEDS = (
    "Nothing computes here. This page needs a browser with scripts and WebAssembly; with a content policy, script-src "
    "'unsafe-inline' 'wasm-unsafe-eval', and worker-src blob: for a thread of its own."
)


def _short(text: str) -> str:
    """A script without comments and indentation."""
    return re.sub(r"(?m)^\s*(?://.*|/\*\*[^*]*\*/$)?\n?|^\s+", "", text)


@cache
def machine() -> str:
    return _short((HERE.parent / "sizes.js").read_text().partition("/** Makes `host` live")[0] + _read("machine.js"))


def _read(name: str) -> str:
    return (HERE / name).read_text()


def panel(program: dict[str, Any]) -> str:
    """HTML that computes, to stand anywhere in a page."""
    data = json.dumps(program, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(gzip.compress(data.encode(), 9, mtime=0)).decode()
    source = json.dumps(machine()).replace("</", "<\\/")
    return (
        f'<div class="qdl-box"><style>{_read("page.css")}</style>'
        f'<section class="qdl" aria-label="{esc(program["title"])}, computed here">{NEEDS}</section>'
        f'<script type="text/plain">{packed}</script>'
        f"<script>(() => {{\n{machine()}\n{_short(_read('page.js'))}\n"
        "const [data, host] = [document.currentScript.previousElementSibling, document.currentScript.parentElement];\n"
        f"mount(host.querySelector('.qdl'), data.textContent, {source});\n}})();</script></div>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>
body{{margin:0 auto;padding:8px 24px;max-width:1300px;font:14px/1.5 system-ui,sans-serif}}
</style></head><body>{body}</body></html>
"""


def page(title: str, panels: Sequence[str]) -> str:
    """A page of panels alone."""
    return _PAGE.format(title=esc(title), body="\n".join(panels))
