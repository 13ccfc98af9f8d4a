"""What the consumer of Kafka 0.8.2 does with ZooKeeper, without any time, thread or socket.

A change of the members wakes all of them. Each one stops, reads everything, computes `range` over
the sorted members and claims its partitions with owner nodes. A node that another member still has
makes the attempt fail; after four failed attempts the consumer waits for the next event.

The work is written as generators, which yield what is to be done and get the result. The simulated
consumer (old_consumer.py) and the one that talks to a real ZooKeeper (coterie/lab/live) run the
same generators, so both send the same requests.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.assignors.averagely import share_of_client
from coterie.assignors.model import TopicPartition

# The nodes: brokers, and topics with their partitions; then those of the group.
BROKERS, TOPICS, IDS, OWNERS, OFFSETS = "brokers", "topics", "ids", "owners", "offsets"


class Request(NamedTuple):
    """Operations of one kind on nodes of one kind, one after the other.

    Attributes:
        api: getChildren, getData, create, delete or setData; a host may also send ping and
            closeSession.
        nodes: the kind of the nodes.
        keys: the nodes; none for the parent of all of this kind.
        values: what is to be written, as many as keys; () if the api writes no data.
        watch: whether a change of the nodes is to be reported.

    What they come to, by api:
        getChildren: the names of the children.
        getData: a mapping from each key that exists to its value.
        create: the keys that were created; the others existed.
        delete, setData: None.
    """

    api: str
    nodes: str
    keys: tuple[Any, ...] = ()
    values: tuple[Any, ...] = ()
    watch: bool = False

    @property
    def operations(self) -> int:
        """How many operations of ZooKeeper they are."""
        return len(self.keys) if self.keys else 1

    @property
    def writes(self) -> bool:
        """Whether they change nodes."""
        return self.api in ("create", "delete", "setData", "closeSession")


class Requests(NamedTuple):
    """Send these in order; the result is the list of what they come to."""

    all: tuple[Request, ...]


class Sleep(NamedTuple):
    """Wait; the result is None."""

    ms: int


class StopFetchers(NamedTuple):
    """Stop reading and own nothing; the result is `Stopped`."""


class StartFetchers(NamedTuple):
    """Own these partitions and read them from these offsets; the result is None."""

    offsets: Mapping[TopicPartition, int]


class Report(NamedTuple):
    """Note how the work goes on; the result is None.

    Attributes:
        event: "attempt", "view" (on which members it acts), "conflict", "attempt fails", "succeeds"
            or "gives up".
        members: the members of a view.
    """

    event: str
    members: tuple[str, ...] = ()


class Stopped(NamedTuple):
    """What was stopped.

    Attributes:
        owned: the partitions that the consumer owned.
        changed: the offsets that differ from the stored ones.
    """

    owned: Sequence[TopicPartition]
    changed: Mapping[TopicPartition, int]


# A piece of work of the watcher thread.
Work = Generator[Requests | Sleep | StopFetchers | StartFetchers | Report, Any, Any]


class OldConsumerWork:
    """The work of one consumer.

    Attributes:
        identity: its id, which is the value of its owner nodes.
        topics: its topics; it reads each with one thread.
    """

    def __init__(self, identity: str, topics: Iterable[str], retries: int, backoff_ms: int) -> None:
        self.identity = identity
        self.topics = tuple(topics)
        self._retries = retries
        self._backoff_ms = backoff_ms

    def register(self) -> Work:
        """Create the node of the consumer, watch and rebalance."""
        yield Requests((Request("create", IDS, (self.identity,), (self.topics,)),))
        yield from self.watch_and_rebalance()

    def watch_and_rebalance(self) -> Work:
        """Ask to hear of the next change, and rebalance."""
        yield Requests(
            (
                Request("getChildren", IDS, watch=True),
                Request("getData", TOPICS, self.topics, watch=True),
            )
        )
        for _ in range(self._retries):
            yield Report("attempt")
            succeeded = yield from self._attempt()
            if succeeded:
                yield Report("succeeds")
                return
            yield Report("attempt fails")
            yield StopFetchers()
            yield Sleep(self._backoff_ms)
        yield Report("gives up")

    def storing(self, offsets: Mapping[TopicPartition, int]) -> Requests:
        """Return the requests that store offsets."""
        return Requests((Request("setData", OFFSETS, tuple(offsets), tuple(offsets.values())),))

    def _attempt(self) -> Work:
        """Make one attempt; return whether all partitions were claimed."""
        own = (self.identity,)
        brokers = Request("getChildren", BROKERS)
        details = Request("getData", BROKERS, ("0",))
        yield Requests((brokers, details, Request("getData", IDS, own), brokers, details))
        stopped: Stopped = yield StopFetchers()
        if stopped.changed:
            yield self.storing(stopped.changed)
        if stopped.owned:
            yield Requests((Request("delete", OWNERS, tuple(stopped.owned)),))
        ids = Request("getChildren", IDS)
        counts, names, _ = yield Requests((Request("getData", TOPICS, self.topics), ids, ids))
        members = tuple(sorted(names))
        # Read in the order of the members, which is that of the shares.
        _, registrations = yield Requests(
            (Request("getData", IDS, own), Request("getData", IDS, members))
        )
        if len(registrations) < len(members):
            # A member has left between the two reads.
            return False
        yield Report("view", members)
        share = self._share(counts, registrations)
        if not share:
            return True
        (offsets,) = yield Requests((Request("getData", OFFSETS, share),))
        (created,) = yield Requests((Request("create", OWNERS, share, own * len(share)),))
        if len(created) < len(share):
            yield Report("conflict")
            if created:
                yield Requests((Request("delete", OWNERS, tuple(created)),))
            return False
        yield StartFetchers({each: offsets.get(each, 0) for each in share})
        return True

    def _share(
        self, counts: Mapping[str, int], registrations: Mapping[str, tuple[str, ...]]
    ) -> tuple[TopicPartition, ...]:
        """Return the share by `range`: the first members have one more of each topic."""
        share: list[TopicPartition] = []
        for topic in sorted(self.topics):
            readers = [name for name, topics in registrations.items() if topic in topics]
            place, count = readers.index(self.identity), counts.get(topic, 0)
            numbers = share_of_client(range(count), place, len(readers))
            share += [TopicPartition(topic, number) for number in numbers]
        return tuple(share)
