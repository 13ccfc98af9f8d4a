"""The pages of the site: where each is from, and what is changed on the way.

A page of docs keeps its path. Other files that pages link to are shown on pages of their own
(`shown.py`), the reference is made from the code (`documentation/reference`).
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from documentation import ROOT
from documentation.markup import Links, title_of, written
from documentation.reference import reference
from documentation.shown import shown_page

DOCS = ROOT / "docs"
_OWN = Path(__file__).parent
HOME = "index.md"
# Pages beside docs, and their places on the site.
_BESIDE = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
# Directories whose pages are listed on a page.
_INDEXED = {"spec": "Specification", "adr": "Decisions"}
_STYLES = "assets/coterie.css"


class Page(NamedTuple):
    """A page.

    Attributes:
        place: its path on the site, with .md.
        title: the text of its first heading.
        text: its Markdown, as the generator takes it.
    """

    place: str
    title: str
    text: str


def pages() -> list[Page]:
    """Return all pages; those of docs first, then the generated ones."""
    places = sources()
    links = Links(places)
    texts = {path: path.read_text(encoding="utf-8") for path in places}
    # The first page is for the site alone; its links are those of a page of docs.
    texts[DOCS / HOME] = (_OWN / HOME).read_text(encoding="utf-8")
    # So are those of the pages that are made from the code.
    texts |= {DOCS / place: text for place, text in reference().items()}
    found = [
        _page(place, written(text, path, place, links))
        for path, text in texts.items()
        for place in [places.get(path) or path.relative_to(DOCS).as_posix()]
    ]
    # Files that a shown file links to are not followed.
    found += [_page(place, shown_page(path)) for path, place in sorted(links.shown.items())]
    return [*found, *_indexes(found)]


def _indexes(found: list[Page]) -> Iterator[Page]:
    """Yield the pages that list what is in a directory."""
    for directory, title in _INDEXED.items():
        inside = [page for page in found if page.place.startswith(f"{directory}/")]
        lines = [f"* [{page.title}]({page.place.rpartition('/')[2]})" for page in inside]
        yield _page(f"{directory}/index.md", f"# {title}\n\n" + "\n".join(lines) + "\n")


def write(found: list[Page], directory: Path) -> None:
    """Write the pages and what they need into a directory."""
    for page in found:
        path = directory / page.place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.text, encoding="utf-8")
    shutil.copytree(DOCS / "images", directory / "images", dirs_exist_ok=True)
    shutil.copytree(_OWN / "drawings", directory / "drawings", ignore=_no_programs)
    (directory / _STYLES).parent.mkdir(exist_ok=True)
    shutil.copy(_OWN / "coterie.css", directory / _STYLES)


def _page(place: str, text: str) -> Page:
    return Page(place, title_of(text), text)


def sources() -> dict[Path, str]:
    """Return the Markdown files of the repository, and their places on the site."""
    documents = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    return documents | {ROOT / name: place for name, place in _BESIDE.items()}


def _no_programs(_directory: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".svg")]
