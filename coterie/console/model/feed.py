"""The source of the groups page: it reads the cluster and its journal while a page is open.

Two threads: one looks at all groups again and again, less often the longer a look takes; the other
waits for facts of the journal. An error between console and cluster ends neither: the page shows
since when, keeps what it has with its time, and reading goes on when the cluster answers again
[console/broken].
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError, Refused, error_name
from coterie.client.group_description import GroupDescription
from coterie.client.groups import TYPES, describe_groups, list_groups
from coterie.client.health.checks import findings
from coterie.client.health.finding import Severity
from coterie.client.health.observation import CHECKED_TYPES, Look, Past, observe, whole_look
from coterie.client.history import NoJournal
from coterie.client.journal_reader import JournalReader
from coterie.client.offsets import Committed
from coterie.client.progress import Sample, take_sample
from coterie.client.share_groups import StartOffset
from coterie.client.times import now_ms
from coterie.console.data_directory import data_directory
from coterie.console.event import Event
from coterie.console.hub import Publish
from coterie.console.model.figures import BrokerFigures
from coterie.console.model.groups import Changes, GroupsLook, GroupsModel, Row
from coterie.console.model.past import HOUR_MS
from coterie.console.places import Place
from coterie.pipeline.findings.of_journal import journal_findings

# A person sees a second as "now".
INTERVAL_S = 1.0
# The cluster is waited for at most for this part of the time, which is more than a broker works.
LOOKING_PART = 0.05
# A page that is older than this is no live page, whatever it costs.
LONGEST_INTERVAL_S = 60.0
# So many groups are described at once: a broker that describes thousands keeps its clients waiting.
_GROUPS_AT_ONCE = 500
_CHECK_INTERVAL_S = 10.0
# So long the broker holds a request for facts that there are none of.
_WAIT_MS = 1_000
# A journal is made with the first rebalance, which has an initial delay.
_RETRY_S = 0.4
_WEIGHTS = {Severity.ERROR: 100, Severity.WARNING: 10}


class GroupsFeed:
    """The source of `/api/events`."""

    def __init__(self, place: Place) -> None:
        self.lock = threading.Lock()
        self._place = place
        self._model = GroupsModel()
        self._at_ms: int | None = None
        self._cluster: dict[str, Any] = {"bootstrap": place.bootstrap, "state": "connecting"}
        self._since_ms = now_ms()
        self._findings: list[Row] | None = None
        self._earlier: Look | None = None
        self._reader: JournalReader | None = None
        self._opened_ms = 0
        self._figures = BrokerFigures(place.figures)

    def snapshot(self) -> list[Event]:
        """Return what a new page needs; called with the lock held."""
        events = [Event("cluster", self._head())]
        if self._at_ms is not None:
            whole = {"at_ms": self._at_ms, "changed": self._model.rows, "removed": []}
            events.append(Event("groups", whole))
        if self._findings is not None:
            events.append(Event("findings", self._findings))
        return events

    def rebalances(self) -> dict[str, Any]:
        """Return the rebalances of the last hour, by group, and when they were looked at."""
        with self.lock:
            return {"at_ms": self._at_ms, "groups": self._model.strips(now_ms())}

    def run(self, publish: Publish, stopped: threading.Event, opened_ms: int) -> None:
        """Look and listen until `stopped` is set."""
        self._opened_ms = opened_ms
        listening = threading.Thread(
            target=self._listen,
            args=(publish, stopped),
            name="coterie-console-journal",
            daemon=True,
        )
        listening.start()
        try:
            self._look_on(publish, stopped)
        finally:
            stopped.set()
            listening.join()

    def _look_on(self, publish: Publish, stopped: threading.Event) -> None:
        checked_s = checks_took_s = 0.0
        while not stopped.is_set():
            began_s, own_s = time.monotonic(), time.thread_time()
            try:
                with self._place.cluster() as cluster:
                    look = self._look(cluster, publish)
                    if began_s - checked_s >= max(_CHECK_INTERVAL_S, checks_took_s / LOOKING_PART):
                        checked_s = time.monotonic()
                        self._check(cluster, look, publish)
                        checks_took_s = time.monotonic() - checked_s
            except ClientError as error:
                self._broken(error, publish)
            took_s = time.monotonic() - began_s
            # The rest of the time the cluster was waited for.
            own_s = 0.0 if self._place.is_beside else time.thread_time() - own_s
            interval_s = max(INTERVAL_S, min((took_s - own_s) / LOOKING_PART, LONGEST_INTERVAL_S))
            stopped.wait(interval_s - took_s)

    def _look(self, cluster: Cluster, publish: Publish) -> GroupsLook:
        began_ms = now_ms()
        brokers = cluster.metadata([])
        listed = list_groups(cluster)
        names = [each.group_id for each in listed if each.type in TYPES]
        # It is the same until the broker is started again.
        is_live = self._cluster["state"] == "live"
        data_dir = self._cluster["data_dir"] if is_live else data_directory(cluster)
        refused: dict[str, int] = {}
        described, sample = _read(cluster, names, refused)
        errors = {name: error_name(code) for name, code in refused.items()}
        look = GroupsLook(began_ms, listed, described, sample, refused=errors)
        with self.lock:
            ended_ms = now_ms()
            changes = self._model.add_look(look, ended_ms)
            self._at_ms = ended_ms
            if self._cluster["state"] != "live":
                self._since_ms = ended_ms
            self._cluster = {
                "bootstrap": self._place.bootstrap,
                "state": "live",
                "cluster_id": brokers.cluster_id,
                "controller_id": brokers.controller_id,
                "data_dir": data_dir,
                "brokers": [
                    {"id": each.node_id, "address": f"{each.host}:{each.port}"}
                    for each in brokers.brokers
                ],
                **self._figures.now(),
            }
            publish(Event("cluster", self._head()))
            # It says how new the rows are, even if none has changed.
            self._publish(changes, publish, even_if_none=True)
        return look

    def _publish(self, changes: Changes, publish: Publish, *, even_if_none: bool = False) -> None:
        if changes.changed or changes.removed or even_if_none:
            publish(Event("groups", {"at_ms": self._at_ms, **changes._asdict()}))

    def _head(self) -> dict[str, Any]:
        rows = self._model.rows
        states: dict[str, int] = {}
        for row in rows:
            states[row["state"]] = states.get(row["state"], 0) + 1
        return {
            **self._cluster,
            "at_ms": self._at_ms,
            "since_ms": self._since_ms,
            "allows_changes": self._place.allows_changes,
            "has_control": self._place.control is not None,
            "has_journal": self._model.facts is not None,
            "groups": len(rows),
            "states": states,
        }

    def _broken(self, error: ClientError, publish: Publish) -> None:
        with self.lock:
            if self._cluster["state"] != "broken":
                self._since_ms = now_ms()
            self._cluster |= {"state": "broken", "error": error.cause, "remedy": error.remedy}
            publish(Event("cluster", self._head()))

    # -- findings ----------------------------------------------------------------------------------

    def _check(self, cluster: Cluster, seen: GroupsLook, publish: Publish) -> None:
        with self.lock:
            facts = self._model.facts
            facts = None if facts is None else {name: list(each) for name, each in facts.items()}
        checked = {n: each for n, each in seen.described.items() if each.type in CHECKED_TYPES}
        look = whole_look(cluster, checked, seen.sample)
        at_ms = now_ms()
        judged = {} if facts is None else journal_findings(facts, at_ms)
        past = Past(facts, at_ms - HOUR_MS, at_ms, judged)
        found = [
            each
            for name in look.groups
            for each in findings(observe(name, self._earlier, look, past))
        ]
        self._earlier = look
        found.sort(key=lambda each: -_WEIGHTS[each.finding.severity])
        trouble: dict[str, int] = {}
        for each in found:
            weight = _WEIGHTS[each.finding.severity]
            trouble[each.group_id] = trouble.get(each.group_id, 0) + weight
        with self.lock:
            since = {_key(each): each["since_ms"] for each in self._findings or ()}
            rows: list[Row] = []
            for each in found:
                row = each.row()
                rows.append({**row, "since_ms": since.get(_key(row), at_ms)})
            self._findings = rows
            publish(Event("findings", rows))
            self._publish(self._model.set_trouble(trouble, at_ms), publish)

    # -- the journal -------------------------------------------------------------------------------

    def _listen(self, publish: Publish, stopped: threading.Event) -> None:
        while not stopped.is_set():
            try:
                with self._place.cluster() as cluster:
                    if self._reader is None:
                        self._begin_facts(cluster, publish, stopped)
                    while self._reader is not None and not stopped.is_set():
                        found = self._reader.read(cluster, _WAIT_MS)
                        if found.by_group:
                            self._note(found.by_group, publish)
            except (NoJournal, Refused):
                # A journal that was there may be another one, or may be made.
                self._reader = None
                stopped.wait(_RETRY_S)
            except ClientError:
                # The other thread publishes it.
                stopped.wait(_RETRY_S)

    def _begin_facts(self, cluster: Cluster, publish: Publish, stopped: threading.Event) -> None:
        """Read what the journal has of the last hour."""
        reader = JournalReader(cluster, now_ms() - HOUR_MS)
        by_group: dict[str, list[Any]] = {}
        while not stopped.is_set():
            found = reader.read(cluster)
            for name, facts in found.by_group.items():
                by_group.setdefault(name, []).extend(facts)
            if found.is_complete:
                self._reader = reader
                with self.lock:
                    self._model.forget_facts()
                self._note(by_group, publish)
                return

    def _note(self, by_group: dict[str, list[Any]], publish: Publish) -> None:
        with self.lock:
            changes, ended = self._model.add_facts(by_group, now_ms())
            for each in ended:
                # What ended before the page was opened is in its row, and no news.
                if each["at_ms"] >= self._opened_ms:
                    publish(Event("rebalance", each))
            self._publish(changes, publish)


def _read(
    cluster: Cluster, names: Sequence[str], refused: dict[str, int]
) -> tuple[dict[str, GroupDescription], Sample]:
    """Describe groups and read their offsets, some at a time; those that may not are `refused`."""
    described: dict[str, GroupDescription] = {}
    committed: dict[str, dict[TopicPartition, Committed]] = {}
    ends: dict[TopicPartition, int] = {}
    shared: dict[str, Mapping[TopicPartition, StartOffset]] = {}
    for begin in range(0, len(names), _GROUPS_AT_ONCE):
        part = describe_groups(cluster, names[begin : begin + _GROUPS_AT_ONCE], refused)
        found = {name: each for name, each in part.items() if each.exists}
        sample = take_sample(cluster, found.values())
        described |= found
        committed |= sample.committed
        ends |= sample.ends
        shared |= sample.shared
    return described, Sample(time.monotonic(), committed, ends, shared)


def _key(finding: Mapping[str, Any]) -> tuple[str, str, str | None]:
    return finding["group"], finding["check"], finding["subject"]
