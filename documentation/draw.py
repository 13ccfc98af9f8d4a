"""Draw the diagrams of the pages: `make drawings`, which installs mermaid and needs Chromium.

A diagram is text in a page. The forge draws it by itself; for the site it is drawn once and kept in
`documentation/drawings`, so that no page needs the three megabytes of the program that draws.
"""

import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from documentation import BUILD
from documentation.markup import DRAWINGS, diagrams, drawing_name
from documentation.pages import sources

_MERMAID = BUILD / "mermaid" / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SETTINGS = """mermaid.initialize({
    startOnLoad: false, theme: "neutral", fontFamily: "system-ui, sans-serif",
    deterministicIds: true, deterministicIDSeed: "coterie",
})"""


def main() -> None:
    """Draw what has no drawing, and remove the drawings of diagrams that are gone."""
    wanted = all_diagrams()
    for path in DRAWINGS.glob("*.svg"):
        if path.name not in wanted:
            path.unlink()
    missing = {name: text for name, text in wanted.items() if not (DRAWINGS / name).exists()}
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise SystemExit("make drawings needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=_MERMAID)
        page.evaluate(_SETTINGS)
        for name, text in missing.items():
            _draw(page, text, DRAWINGS / name)
        chromium.close()
    print(f"{len(wanted)} drawings, {len(missing)} of them new")


def all_diagrams() -> dict[str, str]:
    """Return the diagrams of all pages, by the names of their drawings."""
    return {
        drawing_name(diagram): diagram
        for path in sources()
        for diagram in diagrams(path.read_text(encoding="utf-8"))
    }


def _draw(page: Page, diagram: str, path: Path) -> None:
    svg: str = page.evaluate("text => mermaid.render('drawing', text).then(it => it.svg)", diagram)
    # An image is read as XML, which has no void elements.
    path.write_text(svg.replace("<br>", "<br/>") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
