"""docs/limits.md has the values of the constants and settings that it describes.

It names a file for each limit; `CONSTANTS` says which constants of that file are the limit.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from coterie.server.config.broker_keys import BROKER

DOCUMENT = Path(__file__).parents[2] / "docs" / "limits.md"
CONSTANTS = {
    "events that a page of the console is behind": ("QUEUE_EVENTS", "QUEUE_BYTES"),
    "requests of a console that block at a time": ("THREADS",),
    "readers of a console that follow records": ("MOST_TAILS", "LONGEST_S"),
    "facts of the journal that a console keeps": ("MOST_FACTS",),
    "access rules": ("MOST_RULES",),
    "brokers of a process": ("MOST_BROKERS",),
    "access rules that one DeleteAcls removes": ("MOST_REMOVED",),
    "internal topics of streams groups that could not be created, remembered": ("MOST_FAILURES",),
    "kept decisions of the authorizer": ("MOST_DECISIONS", "MOST_CLIENTS"),
    "smallest request": ("SMALLEST_REQUEST_BYTES",),
    "array elements of a request, nested ones included": ("REQUEST_ELEMENT_BUDGET",),
    "a string": ("MAX_STRING_BYTES",),
    "tagged fields of a structure": ("MAX_TAGS",),
    "time to complete a request": ("FRAME_DEADLINE_MS",),
    "time to log in, with the handshakes of TLS and SASL": ("LOGIN_DEADLINE_MS",),
    "bytes of a peer before its handshake is complete": ("HANDSHAKE_BYTES",),
    "handshakes of a listener at a time": ("MOST_HANDSHAKES", "STALLED_MS"),
    "bytes buffered for a muted connection": ("RECEIVE_BUFFER_BYTES",),
    "bytes buffered for all connections": ("TOTAL_BUFFERED_BYTES",),
    "time of the event loop for pipelined requests of all connections, in one turn": ("TURN_S",),
    "requests of one connection in one turn of the event loop": ("REQUESTS_PER_TURN",),
    "a request that is decoded in one turn": ("LARGE_REQUEST_BYTES", "LARGE_PRODUCE_BYTES"),
    "unread responses of a connection": (
        "UNREAD_HIGH_BYTES",
        "UNREAD_DEADLINE_MS",
        "UNREAD_LIMIT_BYTES",
    ),
    "responses of a connection that wait for the disk": ("DELAYED_RESPONSES",),
    "log lines about closed connections": ("CLOSE_LINES_PER_SWEEP",),
    "log lines about groups": ("EVENT_LINES_PER_SECOND",),
    "generated member ids that were not used yet, of a group": ("MAX_PENDING_JOINS",),
    "groups": ("GroupConfig.max_groups",),
    "topics and partitions whose share offsets one request alters or deletes": ("MAX_CHANGED",),
    "partitions of a ShareFetch, of its session and of a ShareAcknowledge that are handled in one"
    " turn": ("HANDLED_AT_ONCE",),
    "transactional ids": ("TransactionConfig.max_ids",),
    "partitions of a transaction": ("MAX_BATCH_BYTES",),
    "users, client ids and addresses with quotas": ("MAX_ENTITIES",),
    "delegation tokens": ("MOST_TOKENS",),
    "users with SCRAM credentials": ("MOST_USERS",),
    "failed logins whose answers are held": ("MOST_HELD",),
    "rates of throttled clients that are kept": ("_RATES_BEFORE_PRUNING",),
    "clients that push metrics and are remembered": ("MAX_CLIENTS",),
    "patterns of all subscriptions of client metrics": ("MAX_STATES",),
    "an operation on a group, as a batch of its log": ("MAX_BATCH_BYTES",),
    "decompressed records of a batch": (
        "FREE_DECOMPRESSED_BYTES",
        "MAX_RATIO",
        "MAX_DECOMPRESSED_BYTES",
    ),
    "partitions of all share sessions": ("MAX_SHARED_PARTITIONS",),
    "partitions of all fetch sessions": ("MAX_SESSION_PARTITIONS",),
    "topics that one Metadata request creates": ("MOST_CREATED",),
    "partitions that one request creates": ("MAX_PARTITIONS_PER_REQUEST",),
    "partitions of the broker": ("MAX_PARTITIONS",),
    "idempotent producers of a partition": ("MAX_PRODUCERS",),
    "one resource named many times (DescribeConfigs)": ("MAX_REPETITIONS",),
    "time of the event loop for a cleaning": ("SLICE_S",),
    "retry of a failed cleaning": ("FIRST_RETRY_MS", "LAST_RETRY_MS"),
    "time until a lost data directory is noticed": ("DIRECTORY_CHECK_S",),
    "open segment and index files": (
        "_RESERVED",
        "_FEWEST_FILES",
        "_MOST_FILES",
        "DEFAULT_HANDLES.files",
    ),
    "altered settings of the broker, and of the cluster": (
        "MAX_ALTERED_SETTINGS",
        "MAX_ALTERED_CHARACTERS",
    ),
    "connections to `--metrics-port`": ("CONNECTIONS",),
    "headers of a request there": ("HEADER_BYTES",),
    "duration of a connection there": ("DEADLINE_S",),
    "connections to `--control`": ("BOUNDS.connections",),
    "body of a request there": ("BODY_BYTES",),
    "time for a whole request there, and for its answer": ("BOUNDS.request_s", "BOUNDS.answer_s"),
    "time that a request waits there": ("MAX_WAIT_S",),
    "groups of a request that are handled together": (
        "GROUPS_TOGETHER",
        "MEMBERS_TOGETHER",
        "OWNED_TOGETHER",
    ),
    "tombstones of one operation when a topic is deleted, when offsets expire": (
        "_RECORDS_TOGETHER",
        "EXPIRED_TOGETHER",
    ),
    "names that match the regular expressions of a group and are encoded in one turn": (
        "_ENCODED_TOGETHER",
    ),
    "partitions and subscriptions of a target that is computed with a heartbeat": (
        "_COMPUTED_AT_ONCE",
    ),
    "members of a classic group that becomes a consumer group with the heartbeat of the joiner,"
    " and bytes of their assignments": ("_CONVERTED_AT_ONCE", "_CONVERTED_AT_ONCE_BYTES"),
    "members of a consumer group that becomes a classic one with the last departure, and their"
    " partitions": ("_CONVERTED_AT_ONCE", "_OWNED_AT_ONCE", "_CONVERTED_TOGETHER"),
    "heartbeats of consumer groups that are recognised by their bytes": ("_KEPT", "_LONGEST_BYTES"),
    "timers that are handled in one turn": ("_TIMERS_TOGETHER",),
    "transactional ids that are looked at, and changed, in one turn of a search": (
        "_LOOKED_AT_TOGETHER",
        "_CHANGED_TOGETHER",
    ),
    "groups and partitions counted for the metrics in one turn": (
        "_GROUPS_PER_TURN",
        "PARTITIONS_PER_TURN",
    ),
}
# What has no number of its own, or several parts in several files.
WITHOUT_CONSTANT = {
    "one group named many times (DescribeGroups, OffsetFetch)",
    "memory of a cleaning's key map",
    "other memory of a cleaning",
    "logs cleaned at the same time",
}
_UNITS = {
    "bytes": ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")),
    "ms": ((3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")),
}
_FILE = re.compile(r"`([a-z_/]+)\.py`")
_SETTING = re.compile(r"`([a-z.]+)`, (\d[\d,]*(?: (?:MiB|KiB|min))?)")


def rows() -> dict[str, str]:
    """Return the lines of the list: what is limited, and the rest."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    parts = (line.removeprefix("* ").partition(": ") for line in lines if line.startswith("* "))
    return {what: rest for what, _, rest in parts}


def written(name: str, value: float) -> list[str]:
    """Return how the value of a constant or setting may be written, from its unit on."""
    unit = name.lower().replace(".", "_").rpartition("_")[2]
    if unit == "s":
        unit, value = "ms", value * 1000
    found = [f"{size}" for size in _in_units(value, _UNITS.get(unit, ()))]
    return [*found, f"{value:g} ms"] if unit == "ms" and value < 1 else [*found, f"{value:,.0f}"]


def _in_units(value: float, units: Any) -> list[str]:
    return [f"{value / size:,.0f} {unit}" for size, unit in units if value % size == 0]


def value_of(module: Any, name: str) -> float:
    """Return a constant, or a part of one."""
    found = module
    for part in name.split("."):
        defaults = getattr(found, "_field_defaults", {}) if isinstance(found, type) else {}
        found = defaults[part] if part in defaults else getattr(found, part)
    assert isinstance(found, int | float), name
    return found


@pytest.mark.parametrize("what", CONSTANTS)
def test_a_limit_has_the_value_of_its_constant(what: str) -> None:
    text = rows()[what]
    (path,) = _FILE.findall(text)
    module = import_module(f"coterie.{path.replace('/', '.')}")
    for name in CONSTANTS[what]:
        texts = written(name, value_of(module, name))
        assert any(re.search(rf"(?<![\d.,]){re.escape(each)}(?!\d|,\d)", text) for each in texts), (
            f"{name} is {' or '.join(texts)}"
        )


def test_a_limit_that_is_a_setting_has_its_default() -> None:
    named = [found for text in rows().values() for found in _SETTING.findall(text)]
    assert len(named) > 5
    for name, text in named:
        default = BROKER[name].default
        assert default is not None, name
        unit = "bytes" if text.endswith("iB") else name
        assert text in written(unit, float(default)), (name, default)


def test_every_limit_is_checked() -> None:
    of_files = {what for what, text in rows().items() if _FILE.search(text)}
    assert of_files - CONSTANTS.keys() <= WITHOUT_CONSTANT
    assert CONSTANTS.keys() <= of_files
