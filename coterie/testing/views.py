"""What a test sees of its brokers: topics and records, groups, faults, requests.

One broker and several have the same views. Each view asks the broker that is in charge, which may
be another one the next time.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.server.broker import Broker as Server
from coterie.server.metadata.placing import Replicas
from coterie.testing.actions import Action, SlowDisk
from coterie.testing.bounds import check
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.faults import Fault, scope_of
from coterie.testing.groups import Group
from coterie.testing.in_charge import NobodyInCharge, any_server, leader, node_of
from coterie.testing.interception import Interception
from coterie.testing.lifetime import Lifetime
from coterie.testing.misses import why_not_met
from coterie.testing.records import Record, topic_records
from coterie.testing.report import Installed, Moment, Report
from coterie.testing.requests import Requests
from coterie.testing.topics import create_topic, delete_topic, produce
from coterie.testing.versions import checked_levels
from coterie.testing.waiting import Waiting


class Views(Lifetime):
    """Brokers that run from `start` to `close`, or in a `with` or `async with` block.

    Attributes:
        requests: the newest requests of clients, decoded.
    """

    def __init__(self) -> None:
        """See nothing yet."""
        self._interception = Interception()
        # For `unique`.
        self._numbers = itertools.count(1)
        self._unique: set[str] = set()

    @property
    def servers(self) -> Sequence[Server]:
        """The servers that run, for use in their thread; others after a restart."""
        raise NotImplementedError

    # --- features ---------------------------------------------------------------------------------

    @property
    def features(self) -> dict[str, int]:
        """The finalized level of each feature; one at level 0 is not listed."""
        server = any_server(self)
        return self.thread.call(lambda: dict(server.features.finalized))

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Finalize levels of features, as an administrator does while clients work.

        Args:
            levels: the level of each, such as {"transaction.version": 1}.

        Raises:
            WrongUse: there is no such feature, or not this level.
        """
        features = any_server(self).features
        checked = checked_levels(levels, features.supported)
        self.thread.call(lambda: features.start_with(checked))

    # --- topics and records -----------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic, without the broker's own topics."""
        server = any_server(self)
        return self.thread.call(
            lambda: {
                topic.name: len(topic.partitions)
                for topic in server.topics.by_name.values()
                if not topic.is_own
            }
        )

    def topic(
        self,
        name: str,
        partitions: int = 1,
        records: Iterable[Any] = (),
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic; return its name.

        Args:
            name: its name.
            partitions: their number.
            records: values to produce, in turn to each partition; see `produce`.
            config: settings of the topic.

        Raises:
            WrongUse: it exists already, or a value cannot be used; the text is Kafka's.
        """
        return self._create(name, partitions, records, config, 1)

    def _create(
        self,
        name: str,
        partitions: int,
        records: Iterable[Any],
        config: Mapping[str, str] | None,
        replicas: Replicas,
    ) -> str:
        check(partitions=partitions)
        server, settings = any_server(self), config or {}
        self.thread.run(create_topic(server, name, partitions, settings, replicas))
        for number, value in enumerate(records):
            self.produce(name, value, partition=number % partitions)
        return name

    def delete_topic(self, name: str) -> Waiting[None]:
        """Delete a topic.

        Raises:
            WrongUse: it does not exist.
        """
        return Waiting(self.thread, delete_topic(any_server(self), name))

    def unique(self, name: str) -> str:
        """Return a name for a topic or group that no other test uses.

        With a shared broker, what has that name is deleted after the test.
        """
        found = f"{name}-{next(self._numbers)}"
        self._unique.add(found)
        return found

    def delete_unique(self) -> None:
        """Delete the topics and groups named by `unique`, but for groups with members."""
        for name in self._unique & self.topics.keys():
            self.delete_topic(name)
        for name in self._unique.intersection(self.groups):
            group = self.group(name)
            if not group.members:
                group.delete()
        self._unique.intersection_update(self.groups)

    def produce(
        self,
        topic: str,
        *values: Any,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Append records to a partition; return the offset of the first.

        Args:
            topic: the topic; it is not created.
            values: bytes, text, or None for a tombstone.
            key, headers, timestamp_ms: of every record.
            partition: its number.

        Raises:
            WrongUse: there are no values, the broker refuses them, or nothing leads the partition.
        """
        if not values:
            raise WrongUse("there is nothing to produce: give at least one value")
        check(partition=partition, timestamp_ms=timestamp_ms)

        async def append() -> int:
            server = leader(self, topic, partition)
            return await produce(server, topic, partition, values, key, headers, timestamp_ms)

        return self.thread.run(append())

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return the records of a topic, by partition and offset; with `partition` of one only.

        Raises:
            WrongUse: the topic or partition does not exist.
        """
        check(partition=partition)
        return self.thread.run(topic_records(any_server(self), topic, partition))

    # --- groups, faults, requests -----------------------------------------------------------------

    @property
    def groups(self) -> list[str]:
        """The ids of all groups, sorted."""
        servers = self.servers
        return self.thread.call(
            lambda: sorted(each.group_id for one in servers for each in one.coordinator.groups())
        )

    def group(self, group_id: str) -> Group:
        """Return a view of a group, which need not exist yet."""
        _ = self.servers
        return Group(self, group_id)

    @property
    def requests(self) -> Requests:
        """The newest requests of clients, decoded."""
        return self._interception.requests

    def moment(self) -> Moment:
        """Return the time of the brokers and how many requests they have received."""
        server, met = any_server(self), self._interception
        return self.thread.call(lambda: Moment(server.now_ms(), met.received))

    def report(self) -> Report:
        """Return what the report of a failed test shows: groups, faults and last requests."""
        try:
            return self.thread.run(self._report(with_history=True))
        except WrongUse:
            # The history cannot be read: in virtual time it is still being written.
            return self.thread.run(self._report(with_history=False))

    def groups_page(self, title: str) -> str | None:
        """Return the report page of all groups as HTML; None if none has had a rebalance.

        Args:
            title: of the page.

        Raises:
            WrongUse: in virtual time the history is still being written.
        """
        # Imported here, because few tests fail.
        from coterie.testing.page import groups_page

        server = any_server(self)
        found = sorted(each.group_id for one in self.servers for each in one.coordinator.groups())
        return self.thread.run(groups_page(server, found, title))

    async def _report(self, *, with_history: bool) -> Report:
        server, met = any_server(self), self._interception
        found = sorted(each.group_id for one in self.servers for each in one.coordinator.groups())
        texts = [await self.group(each).described(with_history=with_history) for each in found]
        return Report(
            server.now_ms(),
            met.received,
            "\n".join([*_brokers_line(server, self.servers), *(texts or ["no groups"])]),
            tuple(Installed(each.number, each.received, str(each)) for each in met.known),
            tuple(each.shown(server) for each in met.exchanges),
            tuple(met.left.values()),
        )

    def fault(
        self,
        action: Action,
        *,
        api: str | None = None,
        version: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        connection_id: int | None = None,
        node_id: int | None = None,
        skip: int = 0,
        times: int | None = None,
        for_seconds: float | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Fault:
        """Let requests meet a fault from now on, until it is removed or its `with` block ends.

        Args:
            action: what goes wrong, such as `AnswerError("NOT_COORDINATOR")`.
            api: Kafka's name of an API, such as JoinGroup; by default all of them.
            version, client_id, group, topic, connection_id, node_id: narrow the requests down;
                `node_id` to those at one of several brokers.
            skip: how many requests pass before the first one meets it.
            times: how many requests meet it; by default all.
            for_seconds: how long, by the broker's clock; by default without end.
            probability: with which each of them meets it; `seed` decides which.
            seed: for `probability`.

        Raises:
            WrongUse: an unknown API, error or broker, or a number that makes no sense.
        """
        scope = scope_of(api, version, client_id, group, topic, connection_id, node_id)
        fault = Fault(
            action,
            scope,
            skip=skip,
            times=times,
            for_seconds=for_seconds,
            probability=probability,
            seed=seed,
        )
        server = any_server(self)
        known = server.shared.node_ids
        if node_id is not None and node_id not in known:
            names = ", ".join(map(str, known))
            raise WrongUse(f"node_id: there is no broker {node_id}; there are {names}")
        if isinstance(action, SlowDisk) and not server.flusher.commit:
            raise WrongUse("this broker never waits for a sync: make it with flush='commit'")
        fault.explain = lambda times: self._why_not_met(fault, times)
        self.thread.run(self._install(fault))
        return fault

    async def _install(self, fault: Fault) -> None:
        """Let requests meet a fault, in the thread of the brokers."""
        self._interception.install(fault, any_server(self).now_ms())

    def _why_not_met(self, fault: Fault, times: int | None) -> str:
        met = self._interception
        try:
            server = any_server(self)
        except (BrokerNotStarted, NobodyInCharge):
            return f"no request has met {fault}"
        return self.thread.call(
            lambda: why_not_met(fault, times, met.requests, met.received, server)
        )

    @property
    def faults(self) -> list[Fault]:
        """The faults that are installed and not over."""
        server = any_server(self)
        return self.thread.call(lambda: self._interception.installed(server.now_ms()))


def _brokers_line(server: Server, servers: Sequence[Server]) -> list[str]:
    """Return a line about several brokers: which run, and which do not."""
    if node_of(server) is None:
        return []
    running = [each.node_id for each in servers]
    down = [each for each in server.shared.node_ids if each not in running]
    text = f"brokers that run: {', '.join(map(str, running))}"
    return [text + (f"; down: {', '.join(map(str, down))}" if down else "")]
