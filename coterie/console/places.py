"""What a console looks at: a cluster, and the connections to it.

A cluster's connections belong to one thread at a time. A function that answers a request borrows
one; those that are not in use are kept for the next. Invariant: an error of a connection closes it,
so that the next request connects again to a broker that has come back.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from coterie.client.cluster import Cluster
from coterie.client.registry.decoding import Registry
from coterie.console.changes.previews import Previews
from coterie.console.hub import Hub
from coterie.console.model.rates import TopicRates
from coterie.console.over_control import present_over
from coterie.console.recent_day import RecentDay
from coterie.console.recent_past import RecentPast
from coterie.console.records.tail import MOST_TAILS
from coterie.server.beside import BrokerControl, Inside
from coterie.server.present import ReadPresent


class Place:
    """The cluster that a console looks at.

    Attributes:
        bootstrap: its address, as it was given.
        allows_changes: whether the console may change something.
        previews: the changes that were shown.
        is_beside: whether the brokers are in this process, so that the work of the console delays
            them.
        control: that of the brokers; None if they have none.
        registry: that of the schemas of records; None if none was named.
        figures: returns those of brokers in this process; None if nobody tells them.
        present: returns what a group does now; None if nobody tells it.
        hub: what is pushed to its pages.
        recent_past: what happened to all groups recently.
        recent_day: the rebalances of a day.
        topic_rates: what is written to topics.
        tails: is had by each reader who watches records; there are `MOST_TAILS`.
    """

    def __init__(
        self,
        connect: Callable[[], Cluster],
        bootstrap: str,
        *,
        allows_changes: bool = False,
        is_beside: bool = False,
        control: BrokerControl | None = None,
        registry: Registry | None = None,
        inside: Inside | None = None,
    ) -> None:
        """Prepare; nothing is connected before it is needed.

        Args:
            connect: makes a cluster, without connecting to it.
            bootstrap: the address, for people.
            allows_changes: whether changes are allowed.
            is_beside: whether the brokers are in this process.
            control: that of the brokers, if they have one.
            registry: that of the schemas of records, if one was named.
            inside: what is read of brokers in this process.
        """
        self.bootstrap = bootstrap
        self.allows_changes = allows_changes
        self.previews = Previews()
        self.is_beside = is_beside
        self.control = control
        self.registry = registry
        self.figures = None if inside is None else inside.figures
        self.present: ReadPresent | None = None
        if inside is not None:
            self.present = inside.present
        elif control is not None:
            self.present = partial(present_over, control)
        self.hub = Hub()
        self.recent_past = RecentPast()
        self.recent_day = RecentDay()
        self.topic_rates = TopicRates()
        self.tails = threading.BoundedSemaphore(MOST_TAILS)
        self._connect = connect
        self._idle: list[Cluster] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """Borrow a cluster for this thread."""
        with self._lock:
            cluster = self._idle.pop() if self._idle else self._connect()
        try:
            yield cluster
        except BaseException:
            cluster.close()
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(cluster)
                return
        cluster.close()

    def close(self) -> None:
        """Close the connections; those that are borrowed are closed when they are given back."""
        self.hub.close()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()
