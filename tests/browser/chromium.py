"""A real Chromium, driven through its DevTools protocol over a pair of pipes: nothing to install beside the browser.

`Chromium` is the browser, `Tab` one page of it: what it logged, what it asked for, and clicks, keys and scripts.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-extensions",
    "--mute-audio",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--enable-unsafe-swiftshader",  # figures of many points are drawn with WebGL, here by the CPU
)
SECONDS = 3600.0
"""Without an answer, after which the browser hangs."""


class Chromium:
    """The browser; `close` it, or use it in a ``with`` statement."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # The protocol's pipes are the descriptors 3 and 4 of the browser.
        line = ("bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", PROGRAM, *ARGUMENTS)
        self._process = subprocess.Popen(
            (*line, f"--user-data-dir={folder / 'profile'}"),
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._number, self._text = 0, b""
        self._tabs: dict[str, Tab] = {}
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        os.close(self._commands)
        os.close(self._answers)
        self._process.wait(SECONDS)

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Ask the browser, or one of its pages; events that come meanwhile go to their tabs."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self._commands,
            json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0",
        )
        while (told := self.next()).get("id") != self._number:
            pass
        assert "error" not in told, f"{method}: {told['error']}"
        return told["result"]

    def next(self) -> dict[str, Any]:
        """Return the next message, an answer or an event."""
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._answers], [], [], SECONDS)
            part = os.read(self._answers, 1 << 20) if ready else b""
            assert part, "Chromium does not answer"
            self._text += part
        head, self._text = self._text.split(b"\0", 1)
        told = json.loads(head)
        if (tab := self._tabs.get(told.get("sessionId", ""))) is not None and "method" in told:
            tab.heard(told["method"], told["params"])
        return told

    def tab(self) -> Tab:
        """Return a new, empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        return tab


class Tab:
    """A page: ``errors`` is what its console was told, ``requests`` what it asked for beside itself."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self.browser, self._session = browser, session
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded, self._url = False, ""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self._session, **parameters)

    def heard(self, event: str, told: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.errors.append(str(told["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(str(told["args"]))
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            if told["entry"]["source"] != "rendering":  # of the driver of the graphics card
                self.errors.append(str(told["entry"]))
        elif event == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if url.split("#")[0] != self._url and not url.startswith(("data:", "blob:")):
                self.requests.append(url)

    def open(
        self, page: Path, width: int = 1200, height: int = 900, *, unfolded: bool = True
    ) -> Tab:
        """Load a file, wait for it and for its figures; what it folds is opened, unless not `unfolded`."""
        self.sized(width, height)
        self._loaded, self._url = False, page.as_uri()
        self.call("Page.navigate", url=self._url)
        while not self._loaded:
            self.browser.next()
        if unfolded:
            self.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        self.wait(
            "[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('svg, canvas') "
            "|| plot.closest('details:not([open])'))"
        )
        return self

    def wait(self, script: str) -> None:
        """Wait until an expression is true; one that never is ends as a browser that does not answer."""
        self.run(
            f"new Promise(done => {{ const wait = () => ({script}) ? done(1) : setTimeout(wait, 20); wait(); }})"
        )

    def sized(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def shown_as(self, media: str = "", scheme: str = "light") -> None:
        """Show the page as ``print`` or on a screen, in a light or dark scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, script: str) -> Any:
        """Return the value of an expression; promises are waited for."""
        told = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def click(self, element: str) -> None:
        """Click with the mouse on what a script says."""
        self.run(f"({element}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        place = self.run(f"(({element}).getBoundingClientRect()).toJSON()")
        spot = {"x": place["x"] + place["width"] / 2, "y": place["y"] + place["height"] / 2}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **spot, **button)

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13, "Home": 36, "ArrowRight": 39}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **text,
            )

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)
