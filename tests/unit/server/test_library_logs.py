"""What libraries log with Python's own logging is part of the server's log."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from coterie.server.logging import make_logger, route_library_logs


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """A server's log as JSON, with the logs of libraries routed to it for one test."""
    root = logging.getLogger()
    before = root.handlers[:]
    stream = io.StringIO()
    route_library_logs(make_logger("info", "json", stream))
    yield stream
    root.handlers[:] = before


def test_warning_of_a_library_is_a_line_of_the_log(output: io.StringIO) -> None:
    logging.getLogger("asyncio").warning("Executing %s took %.1f seconds", "a handle", 0.5)
    line = json.loads(output.getvalue())
    assert line["event"] == "Executing a handle took 0.5 seconds"
    assert (line["level"], line["library"]) == ("warning", "asyncio")


def test_exception_of_a_library_comes_with_its_traceback(output: io.StringIO) -> None:
    try:
        int("wrong")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    line = json.loads(output.getvalue())
    assert line["exception"][0]["exc_type"] == "ValueError"


def test_lines_below_the_level_are_not_written(output: io.StringIO) -> None:
    logging.getLogger("asyncio").debug("Using selector")
    assert output.getvalue() == ""
