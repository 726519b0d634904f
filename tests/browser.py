"""Drives JupyterLab in headless Chromium as a learner does: with its menus, the keyboard, and by reading the page."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = "--disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run"
PATIENCE = 60_000  # milliseconds; only a test that fails waits for so long
WINDOW = {"width": 1280, "height": 900}
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
FAILURES = ".jp-OutputArea-output:is([data-mime-type$='jupyter.error'], [data-mime-type$='jupyter.stderr'])"
# JupyterLab says these about itself. Each entry is the whole text of one message.
NOISE = (
    # A restart cuts off the question for the debugger's state that was still open.
    "Could not restore the debugger state: Canceled future for debug_request message before replies were done",
)
NUMBERED = re.compile(r"^\[\d+\]:$")

# ---- the server ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A running JupyterLab. folder: the copy of the course that it serves"""

    folder: Path
    address: str
    token: str

    def ask(self, path: str, method: str = "GET") -> Any:
        """Call the server's own interface. Returns the decoded JSON, or None for an empty answer."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"{self.address}/api/{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def end_kernels(self) -> None:
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", "DELETE")


@contextmanager
def serving(course: Path, scratch: Path) -> Iterator[Server]:
    """Run JupyterLab on a course. Its settings, its signatures and what it logs go to the folder `scratch`."""
    token, port = secrets.token_urlsafe(), _free_port()
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
        *(f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0", "--LabApp.extension_manager=readonly"),
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
    _no_news(scratch)
    log = scratch / "server.log"
    with log.open("w", encoding="utf-8") as lines:
        environment = _environment(course, scratch)
        process = subprocess.Popen(command, cwd=course, env=environment, stdout=lines, stderr=subprocess.STDOUT)
    try:
        server = Server(course, f"http://127.0.0.1:{port}", token)
        _wait_for(server, process, log)
        yield server
    finally:
        process.terminate()  # it ends its kernels first
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()  # kernels end by themselves when their server is gone
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _environment(course: Path, scratch: Path) -> dict[str, str]:
    """The kernels import this copy of the course, and keep progress as they do for a learner, not as under pytest."""
    ours = ("PYTEST_", "ATTENTION_PROGRESS", "CHECK_STRICT", "JUPYTER", "IPYTHONDIR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    folders = {f"JUPYTER_{name}_DIR": str(scratch / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    return {**kept, **folders, "IPYTHONDIR": str(scratch / "ipython"), "PYTHONPATH": str(course)}


def _no_news(scratch: Path) -> None:
    """JupyterLab does not ask whether it may fetch news: that note would lie over the notebook."""
    settings = scratch / "config/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"fetchNews": "false"}', encoding="utf-8")


def _wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end and process.poll() is None:
        try:
            server.ask("status")
            return
        except urllib.error.HTTPError as error:  # it answers, and does not know us
            error.close()
            break
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not answer. It said:\n{log.read_text('utf-8')}")


# ---- the browser -----------------------------------------------------------------------------------------


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start for root, nor in most containers.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *QUIET.split()])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def lab(browser: Browser, server: Server) -> Iterator[Lab]:
    """A fresh window with a fresh workspace; its kernels end with it."""
    context = browser.new_context(viewport=WINDOW)
    try:
        yield Lab(context.new_page(), server)
    finally:
        context.close()
        server.end_kernels()


class Lab:
    """One window of JupyterLab.

    complaints: errors in the browser's console, and requests that left this machine
    """

    def __init__(self, page: Page, server: Server):
        self.page, self._server = page, server
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("request", self._watch)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and message.text not in NOISE:
            self.complaints.append(f"console: {message.text} ({message.location.get('url', '?')})")

    def _watch(self, request: Request) -> None:
        if not request.url.startswith((self._server.address, "data:", "blob:")):
            self.complaints.append(f"request to elsewhere: {request.url}")

    # ---- opening and saving

    def open(self, notebook: str) -> None:
        workspace = secrets.token_hex(4)
        address = f"{self._server.address}/lab/workspaces/{workspace}/tree/notebooks/{notebook}.ipynb"
        self.page.goto(f"{address}?token={self._server.token}")
        self._wait_for_cells(notebook)

    def reload(self, notebook: str) -> None:
        """Save, and load the page anew."""
        self.page.keyboard.press("Control+s")
        expect(self.page.locator(".lm-DockPanel-tabBar .lm-mod-current.jp-mod-dirty")).to_have_count(
            0, timeout=PATIENCE
        )
        self.page.reload()
        self._wait_for_cells(notebook)

    def _wait_for_cells(self, notebook: str) -> None:
        cells = json.loads((self._server.folder / f"notebooks/{notebook}.ipynb").read_text("utf-8"))["cells"]
        expect(self.page.locator(".jp-Notebook .jp-Cell")).to_have_count(len(cells), timeout=PATIENCE)
        self._wait_until_idle()

    # ---- running

    def menu(self, *path: str) -> None:
        """Click through a menu, for example "Run", "Run All Cells"."""
        first, *inner = path
        self.page.get_by_role("menubar").get_by_text(first, exact=True).click()
        for label in inner:
            self.page.locator(".lm-Menu-itemLabel").get_by_text(label, exact=True).click()

    def run_all(self) -> None:
        """Run every cell, after the outputs that came with the notebook are cleared."""
        self.clear()
        self.menu("Run", "Run All Cells")
        prompts = self.page.locator(".jp-CodeCell .jp-InputPrompt")
        expect(prompts).to_have_text([NUMBERED] * prompts.count(), timeout=PATIENCE)
        self._wait_until_idle()

    def clear(self) -> None:
        self.menu("Edit", "Clear Outputs of All Cells")
        expect(self.page.locator(".jp-CodeCell .jp-OutputArea-output")).to_have_count(0, timeout=PATIENCE)

    def restart(self) -> None:
        self.menu("Kernel", "Restart Kernel…")
        self.page.locator(".jp-Dialog button.jp-mod-accept").click()
        expect(self.page.locator(".jp-Dialog")).to_have_count(0, timeout=PATIENCE)

    def run(self, cell: Locator) -> str:
        """Run one cell with Shift + Enter. Returns its number, like "[3]:"."""
        prompt = cell.locator(".jp-InputPrompt")
        before = prompt.text_content() or ""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        expect(prompt).not_to_have_text(before, timeout=PATIENCE)
        expect(prompt).to_have_text(NUMBERED, timeout=PATIENCE)
        return prompt.text_content() or ""

    def write_last_line(self, cell: Locator, line: str) -> None:
        """Type over the last line of a cell, key by key; its indentation stays."""
        cell.locator(".cm-content").click()
        for key in ("Control+End", "Shift+Home"):
            self.page.keyboard.press(key)
        self.page.keyboard.type(line)
        expect(cell.locator(".cm-line").last).to_have_text(f"    {line}", timeout=PATIENCE)

    def _wait_until_idle(self) -> None:
        indicator = self.page.locator(".jp-Notebook-ExecutionIndicator").first
        expect(indicator).to_have_attribute("data-status", "idle", timeout=PATIENCE)

    # ---- looking

    def cell(self, source: str) -> Locator:
        """The code cell that holds this text."""
        return self.page.locator(".jp-CodeCell", has=self.page.locator(".cm-content", has_text=source))

    def failures(self) -> list[str]:
        """Tracebacks, warnings, and widgets without a model."""
        lost = self.page.locator(".jp-OutputArea-output", has_text="Error displaying widget")
        return [*self.page.locator(FAILURES).all_text_contents(), *lost.all_text_contents()]

    def spoken(self) -> str:
        """The name that a screen reader says for what has the focus."""
        session = self.page.context.new_cdp_session(self.page)
        try:
            focused = session.send("Runtime.evaluate", {"expression": "document.activeElement"})["result"]
            which = {"objectId": focused["objectId"], "fetchRelatives": False}
            return session.send("Accessibility.getPartialAXTree", which)["nodes"][0]["name"]["value"]
        finally:
            session.detach()

    def use_theme(self, theme: str) -> None:
        self.menu("Settings", "Theme", theme)
        light = "true" if theme == LIGHT else "false"
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light, timeout=PATIENCE)
        # A theme that loads for the first time does so behind JupyterLab's start picture, which then fades.
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0, timeout=PATIENCE)

    def keep_screenshots(self, folder: Path, name: str) -> None:
        """Keep the whole notebook as it looks in the light and in the dark theme."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._show_everything()
            for theme in (DARK, LIGHT):
                self.use_theme(theme)
                suffix = theme.split()[-1].lower()
                self.page.locator(".jp-Notebook").screenshot(path=folder / f"{name}-{suffix}.png")
        finally:
            self.page.set_viewport_size(WINDOW)

    def _show_everything(self) -> None:
        """Make the window as high as the notebook. The height of a cell is only known once it was shown."""
        height = 0
        while (needed := self.page.evaluate(HEIGHT)) != height:
            height = needed
            self.page.set_viewport_size({**WINDOW, "height": height})
        self.page.wait_for_function(ALL_PICTURES_DRAWN)


HEIGHT = """() => {
  const cells = document.querySelectorAll('.jp-Notebook .jp-Cell');
  const top = document.querySelector('.jp-Notebook').getBoundingClientRect().top;
  const length = cells[cells.length - 1].getBoundingClientRect().bottom - cells[0].getBoundingClientRect().top;
  return Math.ceil(top + length) + 60;
}"""
ALL_PICTURES_DRAWN = """() =>
  [...document.querySelectorAll('.jp-Notebook img')].every(image => image.complete && image.naturalWidth > 0)
"""
