"""The log of the server: structured events with Kafka's names, on standard error.

The console format is for people, JSON for machines. Events that happen once a rebalance are logged
at info, those that happen once a member at debug. Heartbeats, commits and fetches are not logged.
Only the server logs; the coordinator returns its events as data.
"""

import logging
import sys
from functools import cached_property
from importlib import import_module
from typing import Any, TextIO

# A start of the server is a twelfth shorter without it.
_RENDERER = "structlog"


class Logger:
    """Writes the lines of one part of a server, from a level on.

    A call below the level costs a comparison.

    Attributes:
        level: the lowest level that is written, as in `logging`.
    """

    __slots__ = ("_context", "_lines", "level")

    def __init__(self, lines: "_Lines", level: int, context: dict[str, Any]) -> None:
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
            self._lines.renderer.debug(event, **self._context, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Write a line about what happens."""
        if self.level <= logging.INFO:
            self._lines.renderer.info(event, **self._context, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write a line about what may need somebody's attention."""
        if self.level <= logging.WARNING:
            self._lines.renderer.warning(event, **self._context, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Write a line about what went wrong; `exc_info=True` adds the traceback."""
        if self.level <= logging.ERROR:
            self._lines.renderer.error(event, **self._context, **fields)

    def log(self, level: int, event: str, **fields: Any) -> None:
        """Write a line of any level."""
        if level >= self.level:
            self._lines.renderer.log(level, event, **self._context, **fields)


class _Lines:
    """Where lines are written and in which format; structlog makes them."""

    def __init__(self, out: TextIO, log_format: str) -> None:
        self._out = out
        self._format = log_format

    @cached_property
    def renderer(self) -> Any:
        """structlog's logger, which writes all levels."""
        structlog = import_renderer()
        processors: list[Any] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ]
        if self._format == "json":
            processors.append(structlog.processors.dict_tracebacks)
            processors.append(structlog.processors.JSONRenderer(default=_json_default))
        else:
            processors.append(
                structlog.dev.ConsoleRenderer(
                    colors=self._out.isatty(),
                    exception_formatter=structlog.dev.plain_traceback,
                    pad_event_to=28,
                )
            )
        # Bound once; otherwise each call would assemble the logger again.
        return structlog.wrap_logger(
            structlog.WriteLogger(self._out),
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
            cache_logger_on_first_use=True,
        ).bind()


def import_renderer() -> Any:
    """Import structlog and return it."""
    if "rich" in sys.modules:
        return import_module(_RENDERER)
    # structlog imports rich, if it is installed, for tracebacks in colour. That takes 40 ms and
    # 5 MiB, and the server does not use it. A module that is None makes the import fail as if rich
    # were not installed.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        return import_module(_RENDERER)
    finally:
        del sys.modules["rich"]


def make_logger(
    level: str = "info",
    log_format: str = "console",
    stream: TextIO | None = None,
    *,
    renders_late: bool = False,
) -> Logger:
    """Make the logger of one server.

    Args:
        level: debug, info, warning or error.
        log_format: console or json.
        stream: where lines are written; by default standard error.
        renders_late: import structlog with the first line, and not now.
    """
    if not renders_late:
        import_renderer()
    lines = _Lines(sys.stderr if stream is None else stream, log_format)
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


def _json_default(value: object) -> str:
    """Return the text of a value that JSON has no type for, such as bytes or an enumeration."""
    return value.hex() if isinstance(value, bytes) else str(value)
