"""The log of the server: structured events with Kafka's names, on standard error.

The console format is for people, JSON for machines. Events that happen once a rebalance are logged
at info, those that happen once a member at debug. Heartbeats, commits and fetches are not logged.
Only the server logs; the coordinator returns its events as data.
"""

import logging
import sys
from typing import TYPE_CHECKING, TextIO

if "rich" in sys.modules:
    import structlog
else:
    # structlog imports rich, if it is installed, for tracebacks in colour. That takes 40 ms and
    # 5 MiB, and the server does not use it. A module that is None makes the import fail as if rich
    # were not installed.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor


def make_logger(
    level: str = "info", log_format: str = "console", stream: TextIO | None = None
) -> "FilteringBoundLogger":
    """Make the logger of one server.

    Args:
        level: debug, info, warning or error; a call below it costs one empty method.
        log_format: console or json.
        stream: where lines are written; by default standard error.
    """
    out = sys.stderr if stream is None else stream
    renderer: Processor
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        processors.append(structlog.processors.dict_tracebacks)
        renderer = structlog.processors.JSONRenderer(default=_json_default)
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=28
        )
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    # Bound once; otherwise each call would assemble the logger again.
    return logger.bind()


class _LibraryHandler(logging.Handler):
    """Passes what libraries log with Python's own logging on to the server's logger."""

    def __init__(self, logger: "FilteringBoundLogger") -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        self._logger.log(
            record.levelno, record.getMessage(), library=record.name, exc_info=record.exc_info
        )


def route_library_logs(logger: "FilteringBoundLogger") -> None:
    """Let the warnings of libraries, asyncio among them, be lines of the server's log.

    Without this they would be plain text on standard error, also where the log is JSON. It changes
    the process: only a process that runs nothing but a broker may do it.
    """
    logging.getLogger().addHandler(_LibraryHandler(logger))


def _json_default(value: object) -> str:
    """Return the text of a value that JSON has no type for, such as bytes or an enumeration."""
    return value.hex() if isinstance(value, bytes) else str(value)
