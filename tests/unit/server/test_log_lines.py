"""Lines of the log: columns for people, JSON for programs."""

import io
import json
import re
from enum import Enum
from typing import Any

from coterie.server.logging import Logger, make_logger

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Colour(Enum):
    RED = 1


def written(log_format: str, out: io.StringIO, event: str, **fields: Any) -> str:
    make_logger("info", log_format, out).info(event, **fields)
    return _TIME.sub("TIME", out.getvalue())


def fail(log: Logger) -> None:
    password = "opensesame"
    try:
        try:
            int(password[:4])
        except ValueError as error:
            raise KeyError("port") from error
    except KeyError as error:
        log.error("start failed", exc_info=error)  # noqa: TRY400 - the server's logger has no other


def test_fields_are_sorted_and_quoted_where_they_must_be() -> None:
    line = written("console", io.StringIO(), "topic created", topic="a b", partitions=3, host="x")
    assert line == (
        "TIME [info     ] topic created                host=x partitions=3 topic='a b'\n"
    )


def test_a_line_without_fields_ends_with_its_event() -> None:
    assert written("console", io.StringIO(), "stopped") == "TIME [info     ] stopped\n"


def test_a_terminal_gets_colours() -> None:
    line = written("console", Terminal(), "stopped", code=1)
    plain = re.sub(r"\x1b\[\d+m", "", line)
    assert plain == "TIME [info     ] stopped                      code=1\n"
    assert "\x1b[36mcode\x1b[0m=\x1b[35m1\x1b[0m" in line


def test_json_has_the_fields_and_texts_for_what_it_has_no_type_for() -> None:
    line = json.loads(written("json", Terminal(), "seen", count=1, key=b"\1", colour=Colour.RED))
    assert line == {
        "count": 1,
        "key": "01",
        "colour": "Colour.RED",
        "event": "seen",
        "level": "info",
        "timestamp": "TIME",
    }


def test_the_fields_of_a_bound_logger_come_with_each_line() -> None:
    out = io.StringIO()
    make_logger("info", "json", out).bind(broker=2).warning("slow", ms=5)
    line = json.loads(out.getvalue())
    assert (line["broker"], line["ms"], line["level"]) == (2, 5, "warning")


def test_a_failure_comes_with_what_it_was_raised_from_but_with_no_values() -> None:
    out = io.StringIO()
    fail(make_logger("info", "json", out))
    outer, inner = json.loads(out.getvalue())["exception"]
    assert (outer["exc_type"], outer["exc_value"]) == ("KeyError", "'port'")
    assert inner["exc_type"] == "ValueError"
    assert [each["name"] for each in outer["frames"]] == ["fail"]
    assert "opensesame" not in out.getvalue()


def test_on_the_console_a_failure_is_a_traceback() -> None:
    out = io.StringIO()
    fail(make_logger("info", "console", out))
    first, *rest = out.getvalue().splitlines()
    assert first.endswith("[error    ] start failed")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "KeyError: 'port'"
