"""A headless Chromium that tests drive over a pipe, with the protocol of its developer tools."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Without these Chromium connects to hosts of Google, which tests must not do.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
LIMIT_S = 60.0
# The browser reads commands from file 3 and writes answers to file 4.
_LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def browser_path() -> str:
    """Return the path of a browser; without one the test is skipped."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed (apt-get install chromium)")
    return found


class Browser:
    """A running browser. It is a context manager."""

    def __init__(self, profile: Path) -> None:
        commands_in, self._commands = _pipe()
        self._answers, answers_out = _pipe()

        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(commands_in), str(answers_out),
             browser_path(), *FLAGS, f"--user-data-dir={profile}"],
            stderr=subprocess.DEVNULL,
            pass_fds=(commands_in, answers_out),
        )  # fmt: skip
        os.close(commands_in)
        os.close(answers_out)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert time.monotonic() < deadline, "the browser does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(
        self, page: Path, *, width: int = 1400, dark: bool = False, zone: str = "Europe/Berlin"
    ) -> "Tab":
        """Open a page in a new tab and wait until it has painted itself.

        Args:
            page: the file.
            width: of the window; a narrow one is that of a phone with a touch screen.
            dark: whether the reader prefers dark colours.
            zone: the reader's time zone.
        """
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        for domain in ("Runtime", "Log", "Page"):
            tab.call(f"{domain}.enable")
        phone = width < 500
        tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        tab.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        tab.call("Emulation.setTimezoneOverride", timezoneId=zone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        tab.call("Page.navigate", url=page.as_uri())
        tab.wait("performance.getEntriesByName('painted').length")
        return tab


class Tab:
    """A page in a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command for this page and return its result."""
        return self._browser.call(method, self._session, **parameters)

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.02)
        return found

    def box(self, selector: str) -> dict[str, float]:
        """Return the place of an element in the window, after scrolling to it.

        The page hides its tips when it scrolls, and hears of that with the next frame.
        """
        box: dict[str, float] = self.value(
            f"(async () => {{ const found = document.querySelector({json.dumps(selector)});"
            " found.scrollIntoView({ block: 'center' });"
            " for (let n = 0; n < 2; n++) await new Promise(requestAnimationFrame);"
            " return found.getBoundingClientRect().toJSON(); })()"
        )
        return box

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Press the mouse at a part of an element's width and release it at another one."""
        box = self.box(selector)
        y = box["y"] + box["height"] * 0.6
        for kind, part in (("mousePressed", begin), ("mouseMoved", (begin + end) / 2),
                           ("mouseMoved", end), ("mouseReleased", end)):  # fmt: skip
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=box["x"] + box["width"] * part, y=y,
                button="left", buttons=1, clickCount=1,
            )  # fmt: skip

    def touch(self, selector: str, part: float = 0.5) -> None:
        """Touch an element at a part of its width."""
        box = self.box(selector)
        point = {"x": box["x"] + box["width"] * part, "y": box["y"] + box["height"] * 0.6}
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def swipe(self, selector: str, begin: float, end: float) -> None:
        """Move a finger from a part of an element's width to another one."""
        box = self.box(selector)
        for kind, part in (("touchStart", begin), ("touchMove", (begin + end) / 2),
                           ("touchMove", end), ("touchEnd", None)):  # fmt: skip
            points = [] if part is None else [
                {"x": box["x"] + box["width"] * part, "y": box["y"] + box["height"] * 0.6}
            ]  # fmt: skip
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page, or of the window."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def errors(self) -> list[Any]:
        """Return the errors of scripts and of the console."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            parameters = event["params"]
            if (
                event["method"] == "Runtime.exceptionThrown"
                or (event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error")
                or (event["method"] == "Runtime.consoleAPICalled" and parameters["type"] == "error")
            ):
                found.append(parameters)
        return found


def _pipe() -> tuple[int, int]:
    """Return a pipe whose numbers leave 3 and 4 free, which are the browser's."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
