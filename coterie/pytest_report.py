"""What the report of a failed test shows of its brokers.

The broker is also looked at when a comparison in an `assert` is found to be false: the test often
stops its clients before pytest sees the failure.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from coterie.testing.callers import is_inner
from coterie.testing.errors import EXPLAINED
from coterie.testing.shown import Line, ShownBroker, explain_error

_PYTEST = ("/_pytest/", "/pluggy/")
# A name of a test may have any character; a name of a file has these, and not too many.
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_LETTERS = 120


def compared(brokers: Iterable[ShownBroker]) -> None:
    """Look at brokers: an `assert` compares, and the result is false."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to see who asserts
    while frame is not None and _is_of_tools(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None:
        for each in brokers:
            each.failed(Line(frame.f_code, frame.f_lineno))


def explain(found: pytest.ExceptionInfo[BaseException], *, whole_traceback: bool) -> None:
    """Shorten the traceback of an error that says all, and add the right call to a wrong one."""
    if explain_error(found.value, found.tb, whole_traceback=whole_traceback):
        # It may have been read already.
        found.traceback = type(found.traceback)(found.tb)


def kept_page(item: pytest.Item, name: str, broker: ShownBroker) -> list[tuple[str, str]]:
    """Keep the report page of the groups of a failed test; return a section with its path."""
    wanted = item.config.getini("kafka_pages")
    if wanted == "off":
        return []
    page = broker.page(f"{name} of {item.nodeid}")
    if page is None:
        return []
    file_name = _NOT_IN_A_NAME.sub("-", f"{item.nodeid}-{name}").strip("-")[-_NAME_LETTERS:]
    if not wanted:
        factory: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001
        directory = factory.getbasetemp() / "kafka-pages"
    else:
        directory = item.config.rootpath / wanted
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{file_name}.html"
    path.write_text(page, encoding="utf-8", errors="replace")
    return [(f"page of the groups of {name}", str(path))]


@contextmanager
def explained() -> Iterator[None]:
    """Let a fixture of ours fail with the text of its error, without our code."""
    try:
        yield
    except EXPLAINED as error:
        text = f"{type(error).__name__}: {error}"
        raise pytest.fail.Exception(text, pytrace=False) from None


def _is_of_tools(filename: str) -> bool:
    return is_inner(filename) or any(each in filename for each in _PYTEST)
