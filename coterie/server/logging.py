"""The log of the server: structlog events with Kafka's names, on standard error.

Console lines for people, JSON lines for machines. What happens once per rebalance is logged at
info, what happens once per member at debug, and nothing per heartbeat, commit or fetch. Of the
whole product only this package logs; the coordinator returns events and knows nothing of it.
"""

import sys
from typing import TYPE_CHECKING, TextIO

if "rich" in sys.modules:
    import structlog
else:
    # structlog.dev imports rich where it is installed, for tracebacks in colour: 40 ms and 5 MiB
    # that a server spends on nothing. A module that is None makes the import fail, as if it were
    # absent.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("console", "json")


def make_logger(
    level: str = "info", log_format: str = "console", stream: TextIO | None = None
) -> "FilteringBoundLogger":
    """The logger of one server.

    Args:
        level: one of `LEVELS`; calls below it cost one empty method.
        log_format: one of `FORMATS`.
        stream: where lines go; standard error by default.
    """
    out = sys.stderr if stream is None else stream
    renderer: Processor
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        processors.append(structlog.processors.dict_tracebacks)
        renderer = structlog.processors.JSONRenderer(default=_plain)
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
    # Bound once, so that a call does not assemble the logger again.
    return logger.bind()


def _plain(value: object) -> str:
    """What JSON has no form for: bytes and enumerations."""
    return value.hex() if isinstance(value, bytes) else str(value)
