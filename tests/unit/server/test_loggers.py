"""Loggers: names, inherited levels, and what a level changes [settings/loggers]."""

import io

from coterie.coordinator.kernel.event import Event
from coterie.protocol.messages.partition_facts import PartitionLoaded
from coterie.server.groups.event_log import EventLog
from coterie.server.loggers import (
    BROKER_SERVER,
    CLEANER,
    GROUP_COORDINATOR,
    ROOT,
    SOCKET_SERVER,
    Loggers,
)
from coterie.server.logging import make_logger


def test_a_logger_has_the_level_of_the_nearest_name_above() -> None:
    loggers = Loggers(make_logger("warning"))
    assert loggers.level(SOCKET_SERVER) == loggers.level(ROOT) == "WARN"
    loggers.set_levels({SOCKET_SERVER: "ERROR", ROOT: "DEBUG"})
    assert loggers.level(SOCKET_SERVER) == "ERROR"
    assert loggers.level(CLEANER) == "DEBUG"
    loggers.set_levels({SOCKET_SERVER: None})
    assert loggers.level(SOCKET_SERVER) == "DEBUG"
    assert loggers.level("kafka.nope") is None


def test_levels_change_what_is_logged() -> None:
    out = io.StringIO()
    log = make_logger("info", stream=out)
    loggers = Loggers(log)
    server, sockets = loggers.named(BROKER_SERVER), loggers.named(SOCKET_SERVER)
    server.debug("one")
    loggers.set_levels({BROKER_SERVER: "TRACE"})
    server.debug("two")
    sockets.debug("three")
    loggers.set_levels({ROOT: "FATAL", BROKER_SERVER: None})
    server.error("four")
    sockets.error("five")
    # What made the broker has a logger of its own.
    log.info("six")
    events = [line.split()[3] for line in out.getvalue().splitlines()]
    assert events == ["two", "six"]


def test_lines_of_a_broker_of_several_name_it_and_follow_the_level() -> None:
    out = io.StringIO()
    loggers = Loggers(make_logger("info", stream=out))
    second = loggers.named_of_broker(GROUP_COORDINATOR, 2)
    second.info("one")
    loggers.set_levels({GROUP_COORDINATOR: "ERROR"})
    second.info("two")
    (line,) = out.getvalue().splitlines()
    assert line.endswith("broker=2")


def test_events_of_groups_follow_the_level() -> None:
    out = io.StringIO()
    loggers = Loggers(make_logger("info", stream=out))
    events = EventLog(loggers.named(GROUP_COORDINATOR))
    event = Event("g", PartitionLoaded(at_ms=1, partition=0, group_count=1))
    events.add([event])
    assert out.getvalue() == ""
    loggers.set_levels({GROUP_COORDINATOR: "DEBUG"})
    events.add([event])
    assert "partition_loaded" in out.getvalue()
