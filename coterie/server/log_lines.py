"""The text of a line of the log: columns for people, JSON for programs.

A line is made where it is logged, with what Python has already imported for a server. A failure
comes with its traceback, but never with the values of variables, which may be secrets.
"""

import json
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

# Wide enough for most events, so that their fields begin in one column.
_EVENT_WIDTH = 28
# "exception", the longest name of a level that programs may expect, has nine letters.
_LEVEL_WIDTH = 9

# A text with one of these is quoted, so that its end is clear.
_QUOTED = frozenset(" \t=\r\n\"'")

_BRIGHT, _DIM, _RESET = "\033[1m", "\033[2m", "\033[0m"
_RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = (f"\033[{each}m" for each in (31, 32, 33, 35, 36))
_COLOURS = {"critical": _RED, "error": _RED, "warning": _YELLOW}


class LogLines:
    """Writes the lines of a log to one file, in one format."""

    def __init__(self, out: TextIO, log_format: str) -> None:
        """Write to `out`; `log_format` is console or json, and a terminal gets colours."""
        self._out = out
        self._is_json = log_format == "json"
        self._has_colours = out.isatty()

    def write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write a line.

        Args:
            level: the name of the level.
            event: what happened.
            fields: what belongs to it, by name; `exc_info` is a failure, or true for the one that
                is being handled, or what `sys.exc_info` returns.
        """
        failure = _failure(fields.pop("exc_info", None))
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if self._is_json:
            line = _json_line(now, level, event, fields, failure)
        else:
            line = _console_line(now, level, event, fields, colours=self._has_colours)
            if failure is not None:
                line += "\n" + "".join(traceback.format_exception(failure)).rstrip("\n")
        # One call, because threads write lines, too.
        self._out.write(line + "\n")
        self._out.flush()


def _failure(given: object) -> BaseException | None:
    if isinstance(given, tuple):
        given = given[1]
    if isinstance(given, BaseException):
        return given
    return sys.exception() if given else None


def _console_line(
    now: str, level: str, event: str, fields: dict[str, Any], *, colours: bool
) -> str:
    named = sorted((name, _shown(value)) for name, value in fields.items())
    padded = f"{event:<{_EVENT_WIDTH}}"
    if not colours:
        columns = [now, f"[{level:<{_LEVEL_WIDTH}}]", padded, *(f"{k}={v}" for k, v in named)]
        return " ".join(columns).rstrip(" ")
    columns = [
        f"{_DIM}{now}{_RESET}",
        f"[{_COLOURS.get(level, _GREEN)}{_BRIGHT}{level:<{_LEVEL_WIDTH}}{_RESET}]",
        f"{_BRIGHT}{padded}{_RESET}",
        *(f"{_CYAN}{name}{_RESET}={_MAGENTA}{value}{_RESET}" for name, value in named),
    ]
    return " ".join(columns)


def _shown(value: object) -> str:
    return value if isinstance(value, str) and _QUOTED.isdisjoint(value) else repr(value)


def _json_line(
    now: str, level: str, event: str, fields: dict[str, Any], failure: BaseException | None
) -> str:
    line = {**fields, "event": event, "level": level, "timestamp": now}
    if failure is not None:
        line["exception"] = [_described(each) for each in _chain(failure)]
    return json.dumps(line, default=_json_value)


def _chain(failure: BaseException) -> Iterator[BaseException]:
    """Return a failure, what it was raised from, and so on."""
    following: BaseException | None = failure
    while following is not None:
        yield following
        hidden = None if following.__suppress_context__ else following.__context__
        following = following.__cause__ or hidden


def _described(failure: BaseException) -> dict[str, Any]:
    frames = [
        {"filename": each.filename, "lineno": each.lineno, "name": each.name}
        for each in traceback.extract_tb(failure.__traceback__)
    ]
    return {"exc_type": type(failure).__name__, "exc_value": str(failure), "frames": frames}


def _json_value(value: object) -> str:
    """Return the text of a value that JSON has no type for, such as bytes or an enumeration."""
    return value.hex() if isinstance(value, bytes) else str(value)
