"""A headless Chromium, the one of the system, that tests drive with Playwright."""

import shutil
import time
from pathlib import Path
from typing import Any, Self

import pytest
from playwright.sync_api import Page, sync_playwright

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Without these Chromium connects to hosts of Google, which tests must not do.
FLAGS = ("--disable-gpu", "--disable-quic", "--disable-sync")
LIMIT_S = 60.0


def browser_path() -> str:
    """Return the path of a browser; without one the test is skipped."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed (apt-get install chromium)")
    return found


class Browser:
    """A running browser. It is a context manager."""

    def __init__(self) -> None:
        path = browser_path()
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=path, args=list(FLAGS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()

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
        tab = self.visit(page.as_uri(), width=width, dark=dark, zone=zone)
        tab.wait("performance.getEntriesByName('painted').length")
        return tab

    def visit(
        self,
        address: str,
        *,
        width: int = 1400,
        height: int = 800,
        dark: bool = False,
        zone: str = "Europe/Berlin",
    ) -> "Tab":
        """Open an address in a new tab, whose storage is empty; the arguments are those of `open`.

        Args:
            address: it.
            height: of the window.
        """
        phone = width < 500
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=2 if phone else 1,
            is_mobile=phone,
            has_touch=phone,
            timezone_id=zone,
            color_scheme="dark" if dark else "light",
        )
        context.set_default_timeout(LIMIT_S * 1_000)
        tab = Tab(context.new_page())
        tab.page.goto(address)
        return tab


class Tab:
    """A page in a browser.

    Attributes:
        page: Playwright's.
        errors: those of scripts and of the console.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console", lambda said: self.errors.append(said.text) if said.type == "error" else None
        )

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        return self.page.evaluate(expression)

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.page.wait_for_timeout(20)
        return found

    def _places(self, selector: str, *parts: float) -> list[tuple[float, float]]:
        """Return points at parts of an element's width, after scrolling to it.

        The page hides its tips when it scrolls, and hears of that with the next frame.
        """
        box = self.page.locator(selector).first.evaluate(
            "async found => { found.scrollIntoView({ block: 'center' });"
            " for (let n = 0; n < 2; n++) await new Promise(requestAnimationFrame);"
            " return found.getBoundingClientRect().toJSON(); }"
        )
        y = box["y"] + box["height"] * 0.6
        return [(box["x"] + box["width"] * part, y) for part in parts]

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Press the mouse at a part of an element's width and release it at another one."""
        from_place, to_place = self._places(selector, begin, end)
        self.page.mouse.move(*from_place)
        self.page.mouse.down()
        self.page.mouse.move(*to_place, steps=2)
        self.page.mouse.up()

    def touch(self, selector: str, part: float = 0.5) -> None:
        """Touch an element at a part of its width."""
        (place,) = self._places(selector, part)
        self.page.touchscreen.tap(*place)

    def swipe(self, selector: str, begin: float, end: float) -> None:
        """Move a finger from a part of an element's width to another one."""
        places = self._places(selector, begin, (begin + end) / 2, end)
        tools = self.page.context.new_cdp_session(self.page)
        for number, (x, y) in enumerate(places):
            kind = "touchMove" if number else "touchStart"
            event = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
            tools.send("Input.dispatchTouchEvent", event)
        tools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
