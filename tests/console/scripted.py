"""A console whose groups are what a test says: its pages get the events that the test publishes.

The application, its checks and its files are the real ones; only the source is scripted.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.console.api import events as events_row
from coterie.console.event import Event
from coterie.console.hub import Publish
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer

Row = dict[str, Any]


def now_ms() -> int:
    """Return the time of this machine."""
    return int(time.time() * 1000)


def group_row(name: str, **more: Any) -> Row:
    """Return a row of the groups page: a group that is well, but for `more`."""
    now = now_ms()
    return {
        "group": name,
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "members": 3,
        "partitions": 25,
        "lag": 120,
        "lag_ms": 900,
        "records_per_s": 44.5,
        "catch_up_s": 2.5,
        "rebalances_1h": 1,
        "last_rebalance": {"at_ms": now - 60_000, "cause": "join", "who": "worker-1"},
        "strip": [[now - 61_000, now - 60_000, "join", 350]],
        "lag_trend": [[now - 600_000, 20], [now - 300_000, 400], [now - 60_000, 120]],
        "last_commit_ms": now - 2_000,
        "refused": None,
        "trouble": 0,
    } | more


class ScriptedFeed:
    """A source whose events a test publishes; new pages get the newest of each name first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._publish: Publish | None = None
        self._rows: dict[str, Row] = {}
        self.past: list[Row] = []
        self._latest: dict[str, Any] = {
            "cluster": {
                "bootstrap": "localhost:9092",
                "state": "live",
                "version": "0.1.0",
                "allows_changes": False,
                "brokers": [{"id": 0, "address": "localhost:9092"}],
            },
            "findings": [],
        }

    def snapshot(self) -> list[Event]:
        """Return what a new page needs."""
        groups = {"at_ms": now_ms(), "changed": list(self._rows.values()), "removed": []}
        events = [Event(name, data) for name, data in self._latest.items()]
        return [*events, Event("groups", groups)]

    def rebalances(self) -> Any:
        """Return what the test has put into `past`."""
        return {"at_ms": now_ms(), "groups": self.past}

    def run(self, publish: Publish, stopped: threading.Event, opened_ms: int) -> None:
        """Publish what the test says."""
        with self.lock:
            self._publish = publish
        stopped.wait()

    def say(self, name: str, data: Any) -> None:
        """Publish an event."""
        with self.lock:
            self._latest[name] = data
            if self._publish is not None:
                self._publish(Event(name, data))

    def change(self, *rows: Row, removed: tuple[str, ...] = ()) -> None:
        """Publish rows that have changed, and the names of groups that are gone."""
        with self.lock:
            self._rows |= {row["group"]: row for row in rows}
            for name in removed:
                self._rows.pop(name, None)
            if self._publish is not None:
                data = {"at_ms": now_ms(), "changed": list(rows), "removed": list(removed)}
                self._publish(Event("groups", data))


@contextmanager
def scripted(
    monkeypatch: pytest.MonkeyPatch, servers: str
) -> Iterator[tuple[ConsoleServer, ScriptedFeed]]:
    """Serve a console of a broker, whose groups page gets what the test publishes."""
    feed = ScriptedFeed()
    monkeypatch.setattr(events_row, "GroupsFeed", lambda place: feed)
    with ConsoleServer(Place(lambda: Cluster(servers), servers)) as console:
        yield console, feed
