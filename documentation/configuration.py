"""The configuration of the generator: look, search, Markdown and navigation.

It has the form of mkdocs.yml, which zensical and mkdocs-material both read.
"""

from typing import Any

from documentation.navigation import navigation
from documentation.pages import Page

_LIGHT, _DARK = (
    {
        "media": f"(prefers-color-scheme: {name})",
        "scheme": scheme,
        "toggle": {"icon": icon, "name": f"Switch to {other} colours"},
    }
    for name, scheme, icon, other in (
        ("light", "default", "lucide/sun", "dark"),
        ("dark", "slate", "lucide/moon", "light"),
    )
)
_THEME = {
    "name": "material",
    "variant": "modern",
    # The fonts of the reader's system: no request leaves the machine.
    "font": False,
    "language": "en",
    "palette": [_LIGHT, _DARK],
    "features": [
        "content.code.copy",
        "navigation.footer",
        "navigation.indexes",
        "navigation.prune",
        "navigation.tabs",
        "navigation.top",
        "search.highlight",
        "toc.follow",
    ],
}
# Anchors are those of the forge, so that a link works in both places.
_SLUGS = {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}}
_EXTENSIONS = [
    "attr_list",
    "md_in_html",
    "tables",
    {"toc": {"permalink": True, "slugify": _SLUGS}},
    {"pymdownx.highlight": {"anchor_linenums": False}},
    "pymdownx.superfences",
]


def configuration(pages: list[Page]) -> dict[str, Any]:
    """Return the configuration for the pages of the directory `pages`; HTML goes to `site`."""
    return {
        "site_name": "Coterie",
        "site_description": "A Kafka-wire-compatible group coordinator and development broker.",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,
        "theme": _THEME,
        "extra": {"generator": False},
        "extra_css": ["assets/coterie.css"],
        "plugins": ["search"],
        "markdown_extensions": _EXTENSIONS,
        "nav": navigation(pages),
    }
