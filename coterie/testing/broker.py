"""A broker for tests, as a test sees it: topics and records, groups, faults, requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.testing.actions import Action, CoordinatorMoves, SlowDisk
from coterie.testing.bounds import check
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.faults import Fault, scope_of
from coterie.testing.groups import Group
from coterie.testing.misses import why_not_met
from coterie.testing.records import Record, topic_records
from coterie.testing.report import Installed, Moment, Report
from coterie.testing.requests import Requests
from coterie.testing.secured_broker import SecuredBroker
from coterie.testing.topics import create_topic, delete_topic, produce
from coterie.testing.versions import checked_levels
from coterie.testing.waiting import Waiting


class Broker(SecuredBroker):
    """A broker that runs from `start` to `close`, or in a `with` or `async with` block.

    Attributes:
        host, port: where it listens.
        requests: the newest requests of clients, decoded.
    """

    # --- features ---------------------------------------------------------------------------------

    @property
    def features(self) -> dict[str, int]:
        """The finalized level of each feature; one at level 0 is not listed."""
        server = self.server
        return self.thread.call(lambda: dict(server.features.finalized))

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Finalize levels of features, as an administrator does while clients work.

        Args:
            levels: the level of each, such as {"transaction.version": 1}.

        Raises:
            WrongUse: there is no such feature, or not this level.
        """
        features = self.server.features
        checked = checked_levels(levels, features.supported)
        self.thread.call(lambda: features.start_with(checked))

    # --- topics and records -----------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic, without the broker's own topics."""
        server = self.server
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
        check(partitions=partitions)
        self.thread.run(create_topic(self.server, name, partitions, config or {}))
        for number, value in enumerate(records):
            self.produce(name, value, partition=number % partitions)
        return name

    def delete_topic(self, name: str) -> Waiting[None]:
        """Delete a topic.

        Raises:
            WrongUse: it does not exist.
        """
        return Waiting(self.thread, delete_topic(self.server, name))

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
            WrongUse: there are no values, or the broker refuses them.
        """
        if not values:
            raise WrongUse("there is nothing to produce: give at least one value")
        check(partition=partition, timestamp_ms=timestamp_ms)
        work = produce(self.server, topic, partition, values, key, headers, timestamp_ms)
        return self.thread.run(work)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return the records of a topic, by partition and offset; with `partition` of one only.

        Raises:
            WrongUse: the topic or partition does not exist.
        """
        check(partition=partition)
        return self.thread.run(topic_records(self.server, topic, partition))

    # --- groups, faults, requests -----------------------------------------------------------------

    @property
    def groups(self) -> list[str]:
        """The ids of all groups, sorted."""
        server = self.server
        return self.thread.call(
            lambda: sorted(group.group_id for group in server.coordinator.groups())
        )

    def group(self, group_id: str) -> Group:
        """Return a view of a group, which need not exist yet."""
        _ = self.server
        return Group(self, group_id)

    @property
    def requests(self) -> Requests:
        """The newest requests of clients, decoded."""
        return self._interception.requests

    def moment(self) -> Moment:
        """Return the time of the broker and how many requests it has received."""
        server, met = self.server, self._interception
        return self.thread.call(lambda: Moment(server.now_ms(), met.received))

    def report(self) -> Report:
        """Return what the report of a failed test shows: groups, faults and last requests."""
        try:
            return self.thread.run(self._report(with_history=True))
        except WrongUse:
            # The history cannot be read: in virtual time it is still being written.
            return self.thread.run(self._report(with_history=False))

    async def _report(self, *, with_history: bool) -> Report:
        server, met = self.server, self._interception
        texts = []
        for group in sorted(server.coordinator.groups(), key=lambda each: each.group_id):
            view = self.group(group.group_id)
            texts.append(await view.described(with_history=with_history))
        return Report(
            server.now_ms(),
            met.received,
            "\n".join(texts) or "no groups",
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
            version, client_id, group, topic, connection_id: narrow the requests down.
            skip: how many requests pass before the first one meets it.
            times: how many requests meet it; by default all.
            for_seconds: how long, by the broker's clock; by default without end.
            probability: with which each of them meets it; `seed` decides which.
            seed: for `probability`.

        Raises:
            WrongUse: an unknown API or error, or a number that makes no sense.
        """
        scope = scope_of(api, version, client_id, group, topic, connection_id)
        fault = Fault(
            action,
            scope,
            skip=skip,
            times=times,
            for_seconds=for_seconds,
            probability=probability,
            seed=seed,
        )
        server = self.server
        if isinstance(action, SlowDisk) and not server.flusher.commit:
            raise WrongUse("this broker never waits for a sync: make it with flush='commit'")
        if isinstance(action, CoordinatorMoves) and self._elsewhere is None:
            self.thread.run(self._listen_elsewhere())
        fault.explain = lambda times: self._why_not_met(fault, times)
        self.thread.call(lambda: self._interception.install(fault, server.now_ms()))
        return fault

    def _why_not_met(self, fault: Fault, times: int | None) -> str:
        met = self._interception
        try:
            server = self.server
        except BrokerNotStarted:
            return f"no request has met {fault}"
        return self.thread.call(
            lambda: why_not_met(fault, times, met.requests, met.received, server)
        )

    @property
    def faults(self) -> list[Fault]:
        """The faults that are installed and not over."""
        server = self.server
        return self.thread.call(lambda: self._interception.installed(server.now_ms()))
