"""JupyterLab in a headless chromium: opens a notebook, runs it, and drives an inspector by mouse and by keyboard.

As a script, ``PYTHONPATH=tests python tests/notebook/browser.py NOTEBOOK OUT [--dark]`` writes a screenshot of every
pane.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from child import Child
from playwright.sync_api import Browser, Locator, Page, sync_playwright

PANES = ("Linked", "Passes", "CFG", "Stacks", "Stack sizes (SizeExpr)", "Steps", "Run", "History", "Backends", "Beside")
CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), "")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def offline(browser: Browser, width: int = 1300, height: int = 900, theme: Any = "light") -> tuple[Page, list[str]]:
    """A page without network; and a list of what it says to the console, and of what it asks of other hosts."""
    view: Any = {"width": width, "height": height}
    page, said = browser.new_context(offline=True, viewport=view, color_scheme=theme).new_page(), list[str]()
    page.set_default_timeout(60_000)
    page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: said.append(str(e)))
    page.on("request", lambda r: said.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    return page, said


def _settings(home: Path, dark: bool) -> dict[str, str]:
    """Variables for a JupyterLab that knows nothing of the user's: own folders, no news, the wanted theme."""
    lab = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    lab.mkdir(parents=True)
    theme = "JupyterLab Dark" if dark else "JupyterLab Light"
    (lab / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
    manager = lab.parents[1] / "@jupyter-widgets" / "jupyterlab-manager"
    manager.mkdir(parents=True)
    (manager / "plugin.jupyterlab-settings").write_text(json.dumps({"saveState": True}))
    (lab / "notification.jupyterlab-settings").write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    folders = {
        "HOME": "home",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "config/lab/user-settings",
        "IPYTHONDIR": "ipython",
    }
    for folder in folders.values():
        (home / folder).mkdir(parents=True, exist_ok=True)
    return {**{k: str(home / v) for k, v in folders.items()}, "ANYWIDGET_HMR": "0"}


class Lab:
    """A page that shows one notebook. ``errors`` collects what the console says, ``outside`` any request that leaves
    the server: there must be none."""

    def __init__(self, page: Page, base: str, token: str, work: Path, pages: str = "lab/tree") -> None:
        self.page = page
        self.pages = pages  # the address of a notebook begins with it
        self.work = work  # where its notebooks are
        self.base = base
        self.token = token
        self.errors: list[str] = []
        self.outside: list[str] = []
        page.set_default_timeout(90_000)
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.errors.append(f"page error: {e}"))
        page.context.route("**/*", self._route)

    def _route(self, route: Any) -> None:
        if route.request.url.startswith((self.base, "data:", "blob:")):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def open(self, name: str) -> None:
        """Opens the notebook and waits until its kernel is attached: the indicator says idle before that."""
        self.page.goto(f"{self.base}/{self.pages}/{name}?reset&token={self.token}")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        for _ in range(240):
            sessions = self._sessions()
            kernel = sessions[0]["kernel"] if sessions else {}
            if kernel.get("connections", 0) >= 1 and kernel.get("execution_state") == "idle":
                break
            self.page.wait_for_timeout(250)
        self.page.wait_for_selector("[data-status=idle].jp-Notebook-ExecutionIndicator")
        if self.page.locator(".jp-Dialog").count():
            self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def _sessions(self) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"{self.base}/api/sessions?token={self.token}", timeout=5) as answer:
                found: list[dict[str, Any]] = json.load(answer)
                return found
        except OSError:
            return []

    def save(self) -> None:
        """Saves the notebook, with the state of its widgets. JupyterLab makes a checkpoint last, and does not save
        again before that is done."""
        with self.page.expect_response(lambda r: r.request.method == "POST" and "/checkpoints" in r.url):
            self.menu("File", "Save Notebook")

    def end_kernels(self) -> None:
        for session in self._sessions():
            url = f"{self.base}/api/sessions/{session['id']}?token={self.token}"
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=20).close()

    def menu(self, menu: str, item: str) -> None:
        self.page.keyboard.press("Escape")
        self.page.click(f'.lm-MenuBar-itemLabel:text-is("{menu}")')
        self.page.click(f'.lm-Menu-itemLabel:text-is("{item}")')

    def run_all(self, seconds: float = 240) -> None:
        """Runs every cell; AssertionError with the text of the first error or warning."""
        self.menu("Run", "Run All Cells")
        end = time.time() + seconds
        while time.time() < end:
            self.page.wait_for_timeout(300)
            failed = self.page.locator('[data-mime-type="application/vnd.jupyter.stderr"], .jp-mod-error')
            assert not failed.count(), failed.first.inner_text()
            waiting = self.page.locator('.jp-CodeCell .jp-InputPrompt:text-matches("\\\\[[* ]\\\\]")')
            if not waiting.count():
                return
        raise AssertionError("the notebook did not finish")

    def inspectors(self, count: int = 1) -> list[Locator]:
        """Waits for so many inspectors, and returns them: they appear after the end of the cell."""
        found = self.page.locator(".qdi:not(.qdl *)")
        found.nth(count - 1).wait_for(state="attached", timeout=60_000)
        return found.all()

    def show(self, inspector: Locator, pane: str) -> Locator:
        """Opens the pane by mouse; the panel when it is filled."""
        inspector.get_by_role("tab", name=pane, exact=True).click()
        return self.filled(inspector)

    def filled(self, inspector: Locator) -> Locator:
        panel = inspector.get_by_role("tabpanel")
        panel.locator("xpath=self::*[not(@aria-busy)]").wait_for()
        self.page.wait_for_timeout(60)
        return panel

    def focused(self, script: str) -> Any:
        return self.page.evaluate(f"() => {{ const x = document.activeElement; return {script}; }}")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def lab(
    folder: Path, out: Path, dark: bool = False, width: int = 1280, height: int = 1000, notebook7: str = ""
) -> Iterator[Lab]:
    """JupyterLab on a copy of the notebooks in ``folder``, in a browser of its own; both end with the with. With
    ``notebook7``, a Python that has installed the project and Notebook 7, it is Notebook instead."""
    out.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="lab-"))
    (home / "work").mkdir()
    for notebook in folder.glob("*.ipynb"):
        shutil.copy(notebook, home / "work")
    port = free_port()
    token = secrets.token_hex(16)
    base = f"http://127.0.0.1:{port}"
    args = [
        *((notebook7, "-m", "notebook") if notebook7 else (sys.executable, "-m", "jupyterlab")),
        *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *(
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={token}",
            f"--ServerApp.root_dir={home / 'work'}",
        ),
        *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        *("--LabApp.extension_manager=readonly", "--ServerApp.terminals_enabled=False"),
    ]
    root = str(Path(__file__).resolve().parents[2])
    env = _settings(home, dark)
    if not notebook7:
        env["PYTHONPATH"] = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    server = Child(*args, env=env)
    try:
        wait_for(f"{base}/api?token={token}", server)
        with sync_playwright() as play:
            view: Any = {"width": width, "height": height}
            context = play.chromium.launch_persistent_context(
                str(home / "chrome"), executable_path=CHROMIUM, headless=True, viewport=view, args=_FLAGS
            )
            page = context.pages[0] if context.pages else context.new_page()
            yield Lab(page, base, token, home / "work", "notebooks" if notebook7 else "lab/tree")
            context.close()
    finally:
        _end(server)
        (out / "jupyter.log").write_text(server.output)
        shutil.rmtree(home, ignore_errors=True)


def wait_for(url: str, server: Child) -> None:
    """Waits until the server answers; the test fails if it does not."""
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            if server.process.poll() is not None:
                server.fail("the server ended at once")
            time.sleep(0.25)
    server.fail("the server does not answer")


def _end(server: Child) -> None:
    """Its kernels have process groups of their own and end with it."""
    server.send(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.process.wait(10)
    server.end()


def screenshots(notebook: Path, out: Path, dark: bool) -> None:
    """A picture of every pane of every inspector, and of the page."""
    theme = "dark" if dark else "light"
    with lab(notebook.parent, out, dark) as page:
        page.open(notebook.name)
        page.run_all()
        for n, inspector in enumerate(page.inspectors()):
            for pane in PANES:
                page.show(inspector, pane)
                inspector.screenshot(path=out / f"{theme}_{n}_{pane}.png")
        page.page.screenshot(path=out / f"{theme}_page.png")
        print("console:", page.errors, "outside:", page.outside)


if __name__ == "__main__":
    screenshots(Path(sys.argv[1]), Path(sys.argv[2]), "--dark" in sys.argv)
