"""The log of the server: structured events with Kafka's names, on standard error.

The console format is for people, JSON for machines. Events that happen once a rebalance are logged
at info, those that happen once a member at debug. Heartbeats, commits and fetches are not logged.
Only the server logs; the coordinator returns its events as data.
"""

import logging
import sys
from typing import Any, TextIO

from coterie.server.log_lines import LogLines


class Logger:
    """Writes the lines of one part of a server, from a level on.

    A call below the level costs a comparison.

    Attributes:
        level: the lowest level that is written, as in `logging`.
    """

    __slots__ = ("_context", "_lines", "level")

    def __init__(self, lines: LogLines, level: int, context: dict[str, Any]) -> None:
        """Write to `lines`; each line has the fields of `context`, too."""
        self._lines = lines
        self._context = context
        self.level = level

    def bind(self, **fields: Any) -> "Logger":
        """Return a logger with the same level, whose lines have these fields, too."""
        return Logger(self._lines, self.level, {**self._context, **fields})

    def is_enabled_for(self, level: int) -> bool:
        """Return whether lines of a level are written."""
        return level >= self.level

    def debug(self, event: str, **fields: Any) -> None:
        """Write a line that is for the search of mistakes."""
        if self.level <= logging.DEBUG:
            self._lines.write("debug", event, {**self._context, **fields})

    def info(self, event: str, **fields: Any) -> None:
        """Write a line about what happens."""
        if self.level <= logging.INFO:
            self._lines.write("info", event, {**self._context, **fields})

    def warning(self, event: str, **fields: Any) -> None:
        """Write a line about what may need somebody's attention."""
        if self.level <= logging.WARNING:
            self._lines.write("warning", event, {**self._context, **fields})

    def error(self, event: str, **fields: Any) -> None:
        """Write a line about what went wrong; `exc_info=True` adds the traceback."""
        if self.level <= logging.ERROR:
            self._lines.write("error", event, {**self._context, **fields})

    def log(self, level: int, event: str, **fields: Any) -> None:
        """Write a line of any level."""
        if level >= self.level:
            name = logging.getLevelName(level).lower()
            self._lines.write(name, event, {**self._context, **fields})


def make_logger(
    level: str = "info", log_format: str = "console", stream: TextIO | None = None
) -> Logger:
    """Make the logger of one server.

    Args:
        level: debug, info, warning or error.
        log_format: console or json.
        stream: where lines are written; by default standard error.
    """
    lines = LogLines(sys.stderr if stream is None else stream, log_format)
    return Logger(lines, logging.getLevelNamesMapping()[level.upper()], {})


class _LibraryHandler(logging.Handler):
    """Passes what libraries log with Python's own logging on to the server's logger."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        self._logger.log(
            record.levelno, record.getMessage(), library=record.name, exc_info=record.exc_info
        )


def route_library_logs(logger: Logger) -> None:
    """Let the warnings of libraries, asyncio among them, be lines of the server's log.

    Without this they would be plain text on standard error, also where the log is JSON. It changes
    the process: only a process that runs nothing but a broker may do it.
    """
    logging.getLogger().addHandler(_LibraryHandler(logger))
