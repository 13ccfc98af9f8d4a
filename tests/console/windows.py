"""A page in windows of 1400, 768 and 390 pixels, light and dark, with a picture of each.

The pictures are in build/console, for people.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.console.accessible import serious_findings
from tests.pipeline.report.browser import Browser, Tab

PICTURES = Path(__file__).parents[2] / "build" / "console"
# A phone is a device of its own; the others are windows of one.
_DEVICES = ((1400, 768), (390,))
_FRAMES = (
    "(async () => { for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame); })()"
)


def every_window(browser: Browser, address: str, name: str, ready: str) -> Iterator[Tab]:
    """Yield a page in each window, after it was checked that it fits, and can be read by all.

    Args:
        browser: the browser.
        address: the page.
        name: of its pictures.
        ready: an expression of JavaScript that is true when the page shows everything.
    """
    PICTURES.mkdir(parents=True, exist_ok=True)
    for widths in _DEVICES:
        tab = browser.visit(address, width=widths[0])
        tab.wait(ready)
        for width in widths:
            if width != widths[0]:
                tab.page.set_viewport_size({"width": width, "height": 800})
            for shade in ("light", "dark"):
                tab.page.emulate_media(color_scheme="dark" if shade == "dark" else "light")
                tab.value(_FRAMES)
                tab.page.screenshot(path=PICTURES / f"{name}-{width}-{shade}.png", full_page=True)
                where = f"{name} at {width} px, {shade}"
                assert tab.value("document.documentElement.scrollWidth <= innerWidth"), where
                # Colours do not depend on the width, and roles not on the colours.
                if width == 1400 or (width == 390 and shade == "light"):
                    assert serious_findings(tab) == [], where
                yield tab
        assert tab.errors == []
