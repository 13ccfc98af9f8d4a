"""Looks at one group again and again while a page is open, and publishes what it sees.

A look is cheap while nothing happens: the description of one group and a Fetch of the journal,
which waits at the broker for the next fact. Offsets, findings and history are read when one of them
shows a change, and every `FULL_LOOK_S` in any case [console/group-events].
"""

import threading
import time

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.group_description import GroupDescription
from coterie.client.health.observation import REBALANCING
from coterie.client.times import now_ms
from coterie.client.waiting import Owed
from coterie.console.event import Event
from coterie.console.group.look import GroupMemory, is_changed
from coterie.console.group.past import history_data, past_of
from coterie.console.group.rows import Json, gone_json, group_json, owed_of
from coterie.console.hub import Publish, failure_event
from coterie.console.model.figures import BrokerFigures
from coterie.console.places import Place

# What is shown is never older, and an offset that moves is seen to move.
FULL_LOOK_S = 2.0
# How long a Fetch of the journal waits for a fact. A change that no fact tells is seen after it;
# the end of a rebalance is a fact, which ends the wait.
WAIT_MS = 250
# Between two looks, however much happens in the journal.
_PAUSE_S = 0.05
# A broker that is away is asked again after this.
_RETRY_S = 1.0
# A history that takes long to work out is worked out less often.
_HISTORY_SHARE = 4


class GroupSource:
    """What the page of a group shows; a `Source` of the hub.

    Attributes:
        lock: that of its state.
    """

    def __init__(self, place: Place, group_id: str) -> None:
        """Prepare; nothing is read before `run`."""
        self.lock = threading.Lock()
        self._place = place
        self._group_id = group_id
        self._memory = GroupMemory(group_id, place.recent_past, place.present)
        self._figures = BrokerFigures(place.figures)
        self._cluster: Json | None = None
        self._shown: Json | None = None
        self._history: Json | None = None
        self._next_history_s = 0.0

    def snapshot(self) -> list[Event]:
        """Return the last look and the history, as far as they are known."""
        known = {"cluster": self._cluster, "group": self._shown, "history": self._history}
        return [Event(name, data) for name, data in known.items() if data is not None]

    def run(self, publish: Publish, stopped: threading.Event, opened_ms: int) -> None:  # noqa: ARG002 - all is shown
        """Look until `stopped` is set."""
        while not stopped.is_set():
            try:
                with self._place.cluster() as cluster:
                    self._look_on(cluster, publish, stopped)
            except ClientError as error:
                # A broker that comes back may have other data at the same offsets.
                self._memory.recorded.forget()
                with self.lock:
                    publish(failure_event(error))
                stopped.wait(_RETRY_S)

    def _look_on(self, cluster: Cluster, publish: Publish, stopped: threading.Event) -> None:
        last: GroupDescription | None = None
        next_full_s = next_cluster_s = 0.0
        has_past = True
        owed: Owed = {}
        while not stopped.is_set():
            has_past |= self._memory.recorded.read(cluster, WAIT_MS if next_full_s else 0)
            now = self._memory.describe(cluster)
            before, owed = owed, self._owed(now)
            is_news = has_past or before != owed or is_changed(last, now)
            if is_news or time.monotonic() >= next_full_s:
                last = now
                self._look(cluster, publish)
                next_full_s = time.monotonic() + FULL_LOOK_S
            if time.monotonic() >= next_cluster_s:
                self._tell_cluster(publish)
                next_cluster_s = time.monotonic() + FULL_LOOK_S
            if has_past and time.monotonic() >= self._next_history_s:
                self._tell_history(cluster, publish)
                has_past = False
            stopped.wait(_PAUSE_S if self._memory.recorded.facts is not None else WAIT_MS / 1000)

    def _owed(self, group: GroupDescription | None) -> Owed:
        """Return the responses that members wait for: no fact says that a member has rejoined."""
        is_asked = group is not None and group.state in REBALANCING
        present = self._memory.present() if is_asked else None
        return {} if present is None else owed_of(present)

    def _look(self, cluster: Cluster, publish: Publish) -> None:
        seen = self._memory.look(cluster)
        shown = gone_json(self._group_id, now_ms()) if seen is None else group_json(seen)
        with self.lock:
            self._shown = shown
            publish(Event("group", shown))

    def _tell_cluster(self, publish: Publish) -> None:
        """Tell what the head of the page shows and no request of the protocol tells."""
        cluster = {"state": "live", **self._figures.now()}
        with self.lock:
            self._cluster = cluster
            publish(Event("cluster", cluster))

    def _tell_history(self, cluster: Cluster, publish: Publish) -> None:
        began_s = time.monotonic()
        past = past_of(self._memory.recorded, cluster, self._place.bootstrap)
        data = history_data(past)
        now_s = time.monotonic()
        self._next_history_s = now_s + _HISTORY_SHARE * (now_s - began_s)
        if data == self._history:
            return
        with self.lock:
            self._history = data
            publish(Event("history", data))
