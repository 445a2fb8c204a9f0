"""The live widget of the inspector: it contains as many panes as a notebook can hold, and asks Python for the
others."""

import re
from collections.abc import Callable
from threading import Thread
from typing import Any

import anywidget
import traitlets

from quadrants_lab.ir.temporary import uncollected
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import NotReady
from quadrants_lab.widgets.pack import bundle, loader, only_ready
from quadrants_lab.widgets.tree import Block, empty

_FINAL = re.compile(r"\d+/(?:(?:passes|cfg)\b.*|code/\w+/\d+)")  # requests whose answer never changes
# It waits until the browser is idle, so that all widgets start soon: anywidget drops messages for a widget that takes
# more than two seconds to start.
_RENDER = """
const idle = () => new Promise((done) => (globalThis.requestIdleCallback ?? setTimeout)(done, { timeout: 1000 }));
export default { async render(context) {
  const { model, el } = context, { live, answers } = await unpack(model.get("bundle"), el);
  await idle();
  return live(context, answers);
} };
"""


class Inspector(anywidget.AnyWidget):
    """One inspector. ``uid`` ties it to its static copy, which it hides with its first answer. ``answer`` makes the
    answers that are not among the ``initial_answers``. ``stop`` kills the process that makes code."""

    _esm = loader() + _RENDER
    shape = traitlets.Dict().tag(sync=True)
    uid = traitlets.Unicode().tag(sync=True)
    bundle = traitlets.Bytes().tag(sync=True)

    def __init__(
        self, shape: dict[str, Any], initial_answers: dict[str, str], answer: Callable[[str], str], uid: str = "",
        stop: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(shape=shape, uid=uid, bundle=bundle(initial_answers))
        self._made = answer
        self._stop = stop
        self._making: dict[str, NotReady] = {}
        self.on_msg(self._take)

    def __repr__(self) -> str:
        """The text where a front end shows no widgets."""
        return "The live inspector is a widget, which is not shown here. A static copy follows."

    def _take(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        if message.get("kind") == "stop":
            missing = self._making.get(str(message.get("request")))
            ((missing and missing.stop) or self._stop)()
        elif message.get("kind") == "ask":
            self._answer(str(message.get("request")))

    def _answer(self, request: str) -> None:
        """Answers at once, or in a thread if code must be made first, so that the kernel stays responsive."""
        final = False
        try:
            # answers leave no garbage, and collecting the records of all passes would take as long as the answer
            with only_ready(), uncollected():
                html = self._made(request)
            final = bool(_FINAL.fullmatch(request))
        except NotReady as e:
            self._making[request] = e
            self.send({"kind": "wait", "request": request, "text": f"making {e}"})
            Thread(target=self._make, args=(request, e), daemon=True).start()
            return
        except Exception as e:  # show any error in the pane
            html = write(empty(f"this pane failed: {type(e).__name__}: {e}"))
        self.send({"kind": "html", "request": request, "html": html, "final": final})

    def _make(self, request: str, missing: NotReady) -> None:
        try:
            missing.make()
        except Exception as e:
            text = write([Block(line) for line in str(e).splitlines()])
            self.send({"kind": "html", "request": request, "html": text})
        else:
            self._answer(request)
        finally:
            if self._making.get(request) is missing:
                del self._making[request]
