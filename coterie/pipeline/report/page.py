"""The page: a skeleton, styles, a script and the data that the script draws, in one file.

The order is that of a reader's questions: is anything wrong, in which group, when, who caused it,
what did it cost, and can the records be trusted. The page loads nothing from elsewhere. `data.py`
selects, sorts and cuts the rows; `assets/` has the script, and coterie.web the components that the
console draws with, too.
"""

import functools
import json
import os
import tempfile
from html import escape
from importlib.resources import files
from string import Template

from coterie.client.names import printable
from coterie.pipeline.report.content import Content
from coterie.pipeline.report.data import page_data
from coterie.web.modules import components, joined

DEFAULT_TITLE = "Rebalances"
_ASSETS = files("coterie.pipeline.report") / "assets"


def render(content: Content, title: str = DEFAULT_TITLE) -> str:
    """Return the whole page as HTML."""
    data = json.dumps(page_data(content), ensure_ascii=False, separators=(",", ":"))
    return Template(_asset("page.html")).substitute(
        title=escape(printable(title), quote=True),
        style=_style(),
        # A name cannot end the element, because no tag can begin in it.
        data=data.replace("<", "\\u003c"),
        script=_script(),
    )


def write_page(path: str, text: str) -> None:
    """Replace the file at `path` in one step: a reader sees the old page or the whole new one.

    Raises:
        OSError: the page cannot be written there.
    """
    directory = os.path.dirname(os.path.abspath(path))
    descriptor, new = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=directory)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        # mkstemp creates a file that only its owner can read. The page gets the permissions that
        # any program would give it.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(new, 0o666 & ~mask)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


@functools.cache
def _script() -> str:
    return joined(_ASSETS, "page.js")


@functools.cache
def _style() -> str:
    shared = (components() / "components.css").read_text(encoding="utf-8")
    return shared + _asset("page.css")


@functools.cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
