"""The inspector as one HTML file with all panes, which needs neither network nor kernel."""

import base64
import json
from typing import Any

from quadrants_lab.widgets import assets
from quadrants_lab.widgets.html import empty, esc
from quadrants_lab.widgets.pack import bundle

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title><style>
body{{--jp-ui-font-color1:#1f2328;--jp-ui-font-color2:#57606a;--jp-layout-color1:#fff;--jp-layout-color2:#f5f6f8;
--jp-border-color2:#d0d7de;--jp-brand-color1:#1565c0;background:#fff;color:#1f2328;font:14px/1.5 system-ui,sans-serif;
margin:0 auto;padding:16px 24px;max-width:1400px}}
body[data-jp-theme-light=false]{{--jp-ui-font-color1:#e6e8eb;--jp-ui-font-color2:#a0a7b0;--jp-layout-color1:#16181c;
--jp-layout-color2:#1f2227;--jp-border-color2:#3a3f47;--jp-brand-color1:#64b5f6;background:#111316;color:#e6e8eb}}
header{{display:flex;align-items:center;gap:16px}}h1{{font-size:18px;flex:1}}
header button{{font:inherit;color:inherit;
background:none;border:1px solid currentColor;border-radius:4px;padding:2px 10px;cursor:pointer}}
#view [role=tabpanel]{{max-height:none}}
</style></head><body><header><h1>{title}</h1><button type="button" id="theme">dark / light</button></header>
<main id="view"></main>
<script type="text/plain" id="data">{data}</script>
<script type="module">{loader}
const body = document.body;
const set = (light) => {{ body.dataset.jpThemeLight = light; }};
set(!matchMedia("(prefers-color-scheme: dark)").matches);
document.getElementById("theme").onclick = () => set(body.dataset.jpThemeLight !== "true");
const data = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
const {{ mount, shape, answers }} = await unpack(data);
mount(document.getElementById("view"), shape, async (request) => answers(request) ?? {missing});
</script></body></html>
"""


def page(shape: dict[str, Any], answers: dict[str, str]) -> str:
    """A self-contained page with the inspector of this shape and all its answers."""
    data = bundle(answers, shape=shape)
    return _PAGE.format(
        title=esc(shape["title"]),
        loader=assets.loader(),
        missing=json.dumps(empty("this page does not contain this: run the cell in a notebook")),
        data=base64.b64encode(data).decode(),
    )
