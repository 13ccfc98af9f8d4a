"""Checks the links of the built pages: each leads to a page and an anchor, or to another site."""

import os.path
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, and what a reader follows.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
_FOLLOWED = {"a": "href"}


class _Links(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.followed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads, links to, and is called."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if _LOADED.get(tag) in values:
            self.loaded.append(values[_LOADED[tag]])
        if _FOLLOWED.get(tag) in values:
            self.followed.append(values[_FOLLOWED[tag]])


def problems(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and each thing loaded from another host."""
    pages = {path.relative_to(site).as_posix(): _read(path) for path in site.rglob("*.html")}
    found = []
    # Its links begin at the root of the server.
    pages.pop("404.html", None)
    for name, page in sorted(pages.items()):
        found += [
            f"{name}: loads {link} from another host" for link in page.loaded if _is_outside(link)
        ]
        found += [
            f"{name}: {link} leads nowhere"
            for link in dict.fromkeys([*page.loaded, *page.followed])
            if not _is_outside(link) and not _leads(site, name, link, pages)
        ]
    return found


def _read(path: Path) -> _Links:
    links = _Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


def _is_outside(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.scheme and parts.scheme != "data") or bool(parts.netloc)


def _leads(site: Path, name: str, link: str, pages: dict[str, _Links]) -> bool:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return True
    path = os.path.normpath(os.path.join(os.path.dirname(name), unquote(parts.path) or "."))
    target = name if not parts.path else path
    if target not in pages:
        return (site / target).is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].anchors
