"""Makes pages that compute: a program's data (`notebook.live_page`) with the script that runs it in a browser.
`machine.js` launches and differentiates, `page.js` takes the reader's numbers, `plots.js` draws, `steps.js` follows
an iteration by the inspector's stepper, and `exercise.js` checks a derivative that the reader writes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from quadrants_lab.widgets.live import esc
from quadrants_lab.widgets.pack import short

HERE = Path(__file__).resolve().parent
NEEDS = (
    "Nothing computes here. This page needs a browser with scripts and WebAssembly; with a content policy, script-src "
    "'unsafe-inline' 'wasm-unsafe-eval', and worker-src blob: for a thread of its own."
)
_START = """(async ({ previousElementSibling: packed, parentElement: box }) => {
const host = box.querySelector(".qdl");
try {
const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const { program, machine, page, style } = await new Response(stream).json();
const [look, script] = ["style", "script"].map((name) => document.createElement(name));
look.textContent = style;
box.append(look);
script.textContent = `document.currentScript.panel = (...about) => {${machine}${page};return new Panel(...about)}`;
box.append(script);
host.panel = script.panel(host, program, machine);
} catch (e) { host.textContent = `${host.textContent} ${e.message}`; }
})(document.currentScript);"""


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


@cache
def machine() -> str:
    """The script that a Worker runs."""
    sizes = (HERE.parent / "sizes.js").read_text(encoding="utf-8")
    return short(sizes.partition("/** Makes `host` live")[0] + _read("machine.js"))


@cache
def _script() -> str:
    """The rest of the script, with the inspector's listing and stepper."""
    theirs = "const HELP = [];\n" + "".join(map(_read, ("../dom.js", "../lines.js", "../stepper.js")))
    return short(theirs + "".join(map(_read, ("plots.js", "steps.js", "exercise.js", "page.js"))))


def panel(program: dict[str, Any]) -> str:
    """HTML that computes, to stand anywhere in a page."""
    style = _read("page.css") + _read("../inspector.css")
    packed = {"program": program, "machine": machine(), "page": _script(), "style": style}
    data = json.dumps(packed, separators=(",", ":"), allow_nan=False)
    text = base64.b64encode(gzip.compress(data.encode(), 9, mtime=0)).decode()
    return (
        f'<div class="qdl-box"><section class="qdl" aria-label="{esc(program["title"])}, computed here">{NEEDS}'
        f'</section><script type="text/plain">{text}</script><script>{_START}</script></div>'
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
