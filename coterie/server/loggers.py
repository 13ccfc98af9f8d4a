"""The loggers of one broker and their levels, which clients may alter (KIP-412).

The parts of the broker log under the names of the classes that have these tasks in Kafka, so that
programs which set levels of a Kafka find them here [settings/loggers]. A name without a level has
that of the nearest name above it, whose parts are separated by dots, or that of the root.
"""

import logging
from functools import partial
from typing import Any

from coterie.server.logging import Logger

ROOT = "root"
AUTHORIZER = "kafka.authorizer.logger"
BROKER_SERVER = "kafka.server.BrokerServer"
CLEANER = "org.apache.kafka.storage.internals.log.LogCleaner"
CONTROLLER = "org.apache.kafka.controller.ReplicationControlManager"
GROUP_COORDINATOR = "org.apache.kafka.coordinator.group.GroupCoordinatorService"
LOG_MANAGER = "kafka.log.LogManager"
REQUESTS = "kafka.server.KafkaApis"
SOCKET_SERVER = "kafka.network.SocketServer"

_NAMES = (
    ROOT,
    AUTHORIZER,
    BROKER_SERVER,
    CLEANER,
    CONTROLLER,
    GROUP_COORDINATOR,
    LOG_MANAGER,
    REQUESTS,
    SOCKET_SERVER,
)

# The levels of Kafka's loggers, and what they are here.
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.NOTSET,
    "WARN": logging.WARNING,
}
_NAMES_OF_LEVELS = {number: name for name, number in LEVELS.items()}


class Loggers:
    """The loggers of a broker."""

    def __init__(self, log: Logger) -> None:
        """Begin with the level of `log`, which itself is not changed."""
        # Tests have loggers of other classes, which log everything.
        self._has_levels = isinstance(log, Logger)
        number = log.level if self._has_levels else logging.INFO
        self._levels = {ROOT: _NAMES_OF_LEVELS.get(number, "INFO")}
        bind = log.bind if self._has_levels else partial(_same, log)
        self._loggers: dict[str, Any] = {name: bind() for name in _NAMES}
        # Those that were made of them since, with their names.
        self._bound: list[tuple[str, Any]] = []

    def named(self, name: str) -> Logger:
        """Return a logger; `name` is one of the constants of this module."""
        logger: Logger = self._loggers[name]
        return logger

    def named_of_broker(self, name: str, node_id: int) -> Logger:
        """Return a logger whose lines name one broker of several."""
        logger = self._loggers[name]
        if not self._has_levels:
            return self.named(name)
        bound: Logger = logger.bind(broker=node_id)
        self._bound.append((name, bound))
        return bound

    def level(self, name: str) -> str | None:
        """Return the level that a logger has or inherits; None if there is no such logger."""
        if name not in self._loggers:
            return None
        while name not in self._levels:
            above, dot, _ = name.rpartition(".")
            name = above if dot else ROOT
        return self._levels[name]

    @property
    def names(self) -> list[str]:
        """The names of all loggers."""
        return sorted(self._loggers)

    def set_levels(self, levels: dict[str, str | None]) -> None:
        """Give loggers a level of their own, or with None the one that they inherit."""
        for name, level in levels.items():
            assert name in self._loggers, "only loggers that exist have levels"
            if level is None:
                self._levels.pop(name, None)
            else:
                self._levels[name] = level
        assert ROOT in self._levels, "every logger has a level"
        if self._has_levels:
            for name, logger in [*self._loggers.items(), *self._bound]:
                logger.level = LEVELS[self.level(name) or ""]


def _same(log: Logger) -> Logger:
    return log
