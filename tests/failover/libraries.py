"""What client libraries do in a run: send records, commit and fetch offsets, read in a group.

Each object belongs to one thread and its calls block. A call that fails raises an error of its
library; a commit or a record that has failed may have happened all the same.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import aiokafka
import aiokafka.client
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AiokafkaError
from kafka.errors import KafkaError

from tests.histories.register import INITIAL
from tests.soak.ledger import TopicPartition

T = TypeVar("T")


class RemoteError(Exception):
    """A client in another language has failed."""


# What a call may raise; anything else is a mistake of the run.
ERRORS = (AiokafkaError, KafkaError, confluent_kafka.KafkaException, RemoteError, TimeoutError)
_LIMIT_S = 30.0
_LIMIT_MS = 30_000
# A consumer of kafka-python 3.0 hangs now and then if a shorter poll ends while it joins.
_POLL_S = 0.5
# Longer than a cluster needs to name the next coordinator, so that nobody is removed meanwhile.
_SESSION_MS = 30_000
_HEARTBEAT_MS = 200
_COMMIT_INTERVAL_MS = 100


class Record(NamedTuple):
    """A record that a member has read."""

    partition: TopicPartition
    offset: int
    value: bytes


class Producer(Protocol):
    """Sends records."""

    def send(self, partition: TopicPartition, value: bytes) -> int:
        """Send a record; return its offset."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Register(Protocol):
    """The offset of one partition that a group without members has committed."""

    def commit(self, offset: int) -> None:
        """Commit an offset."""
        ...

    def committed(self) -> int:
        """Return the committed offset; INITIAL if there is none."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Member(Protocol):
    """A member of a group.

    Attributes:
        assignments: how often it was given partitions.
    """

    assignments: int

    def poll(self) -> list[Record]:
        """Return the next records, or none after a short time."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Library(NamedTuple):
    """A client library.

    Attributes:
        name: its name, without blanks.
        producer: makes a producer of the bootstrap servers; it repeats what has no answer, without
            writing it twice.
        register: makes a register of the bootstrap servers, a group and a partition.
        member: makes a member of the bootstrap servers, a group and a topic; it commits by itself.
        rejoins: whether a member joins again by itself when it cannot connect to a dead broker.
    """

    name: str
    producer: Callable[[str], Producer]
    register: Callable[[str, str, TopicPartition], Register]
    member: Callable[[str, str, str], Member]
    rejoins: bool = False


class _PythonProducer:
    def __init__(self, bootstrap: str) -> None:
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks="all")

    def send(self, partition: TopicPartition, value: bytes) -> int:
        topic, index = partition
        sent = self._producer.send(topic, value, partition=index)
        return int(sent.get(timeout=_LIMIT_S).offset)

    def close(self) -> None:
        self._producer.close(timeout=_LIMIT_S)


class _PythonRegister:
    def __init__(self, bootstrap: str, group_id: str, partition: TopicPartition) -> None:
        self._partition = kafka.TopicPartition(*partition)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group_id, enable_auto_commit=False
        )
        self._consumer.assign([self._partition])

    def commit(self, offset: int) -> None:
        self._consumer.commit(
            {self._partition: kafka.OffsetAndMetadata(offset, "", -1)}, timeout_ms=_LIMIT_MS
        )

    def committed(self) -> int:
        found = self._consumer.committed(self._partition, timeout_ms=_LIMIT_MS)
        return INITIAL if found is None else int(found)

    def close(self) -> None:
        self._consumer.close()


class _Counted:
    """Counts how often a member is given partitions, as a listener of two libraries."""

    assignments = 0

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assignments += bool(assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass


class _PythonMember(_Counted, kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            auto_commit_interval_ms=_COMMIT_INTERVAL_MS,
        )
        self._consumer.subscribe([topic], listener=self)

    def poll(self) -> list[Record]:
        return [
            Record((each.topic, each.partition), each.offset, each.value)
            for records in self._consumer.poll(int(_POLL_S * 1000)).values()
            for each in records
        ]

    def close(self) -> None:
        self._consumer.close()


class _ConfluentProducer:
    def __init__(self, bootstrap: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    def send(self, partition: TopicPartition, value: bytes) -> int:
        topic, index = partition
        reports: list[tuple[Any, Any]] = []
        self._producer.produce(
            topic,
            value,
            partition=index,
            on_delivery=lambda error, message: reports.append((error, message)),
        )
        self._producer.flush(_LIMIT_S)
        if not reports:
            raise TimeoutError(f"no report of {value!r}")
        error, message = reports[0]
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        return int(message.offset())

    def close(self) -> None:
        self._producer.flush(_LIMIT_S)


class _ConfluentRegister:
    def __init__(self, bootstrap: str, group_id: str, partition: TopicPartition) -> None:
        self._partition = partition
        config = {"bootstrap.servers": bootstrap, "group.id": group_id, "log_level": 0}
        self._consumer = confluent_kafka.Consumer({**config, "enable.auto.commit": False})

    def commit(self, offset: int) -> None:
        wanted = confluent_kafka.TopicPartition(*self._partition, offset)
        answered = self._consumer.commit(offsets=[wanted], asynchronous=False)
        if answered[0].error is not None:
            raise confluent_kafka.KafkaException(answered[0].error)

    def committed(self) -> int:
        wanted = confluent_kafka.TopicPartition(*self._partition)
        (found,) = self._consumer.committed([wanted], timeout=_LIMIT_S)
        if found.error is not None:
            raise confluent_kafka.KafkaException(found.error)
        return INITIAL if found.offset < 0 else int(found.offset)

    def close(self) -> None:
        self._consumer.close()


class _ConfluentMember:
    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        self.assignments = 0
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": _SESSION_MS,
                "heartbeat.interval.ms": _HEARTBEAT_MS,
                "auto.commit.interval.ms": _COMMIT_INTERVAL_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, _consumer: Any, partitions: list[Any]) -> None:
        self.assignments += bool(partitions)

    def poll(self) -> list[Record]:
        message = self._consumer.poll(_POLL_S)
        if message is None or message.error() is not None:
            return []
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None, "a message of a partition has a topic"
        assert partition is not None, "and a number"
        assert offset is not None, "and an offset"
        return [Record((topic, partition), offset, message.value() or b"")]

    def close(self) -> None:
        self._consumer.close()


class _Client(Protocol):
    """A producer or a consumer of aiokafka."""

    async def start(self) -> None:
        """Connect."""
        ...

    async def stop(self) -> None:
        """Close all connections."""
        ...


C = TypeVar("C", bound=_Client)


def _connections_of(client: _Client) -> aiokafka.client.AIOKafkaClient:
    """Return what has the connections of a client: a producer shows it, a consumer does not."""
    if isinstance(client, aiokafka.AIOKafkaProducer):
        return client.client
    assert isinstance(client, aiokafka.AIOKafkaConsumer), client
    return client._client


class _Looped(Generic[C]):
    """A client of aiokafka with an event loop of its own."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._runner = asyncio.Runner()
        self._client = self._run(make())
        try:
            self._run(self._client.start())
        except BaseException:
            self.close()
            raise

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        async def limited() -> T:
            try:
                async with asyncio.timeout(_LIMIT_S):
                    return await call
            except asyncio.CancelledError:
                # aiokafka cancels calls itself when it reconnects.
                raise TimeoutError("aiokafka has cancelled the call") from None

        return self._runner.run(limited())

    def close(self) -> None:
        """Close the connections and the loop."""
        # aiokafka may cancel its own end, too; nothing is left to wait for then.
        with closing(self._runner):
            with suppress(TimeoutError):
                self._run(self._client.stop())
            # What it has cancelled has left connections open.
            with suppress(TimeoutError):
                self._run(_connections_of(self._client).close())


class _AiokafkaProducer(_Looped[aiokafka.AIOKafkaProducer]):
    def __init__(self, bootstrap: str) -> None:
        async def made() -> aiokafka.AIOKafkaProducer:
            return aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)

        super().__init__(made)

    def send(self, partition: TopicPartition, value: bytes) -> int:
        topic, index = partition
        sent = self._run(self._client.send_and_wait(topic, value, partition=index))
        return int(sent.offset)


class _AiokafkaRegister(_Looped[aiokafka.AIOKafkaConsumer]):
    def __init__(self, bootstrap: str, group_id: str, partition: TopicPartition) -> None:
        self._partition = aiokafka.TopicPartition(*partition)

        async def made() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=group_id, enable_auto_commit=False
            )
            consumer.assign([self._partition])
            return consumer

        super().__init__(made)

    def commit(self, offset: int) -> None:
        self._run(self._client.commit({self._partition: offset}))

    def committed(self) -> int:
        found = self._run(self._client.committed(self._partition))
        if found is None:
            # aiokafka 0.14.0 overlooks the error of the whole answer, such as NOT_COORDINATOR, and
            # says that there is no offset: docs/clients.md.
            raise AiokafkaError("either no offset, or a refusal")
        return int(found)


class _AiokafkaMember(
    _Counted,
    _Looped[aiokafka.AIOKafkaConsumer],
    aiokafka.ConsumerRebalanceListener,  # type: ignore[misc]
):
    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        async def made() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group_id,
                auto_offset_reset="earliest",
                session_timeout_ms=_SESSION_MS,
                heartbeat_interval_ms=_HEARTBEAT_MS,
                auto_commit_interval_ms=_COMMIT_INTERVAL_MS,
            )
            consumer.subscribe([topic], listener=self)
            return consumer

        super().__init__(made)

    def poll(self) -> list[Record]:
        found = self._run(self._client.getmany(timeout_ms=int(_POLL_S * 1000)))
        return [
            Record((each.topic, each.partition), each.offset, each.value)
            for records in found.values()
            for each in records
        ]


LIBRARIES = (
    # The loop of each object runs while one of its calls does.
    Library("aiokafka", _AiokafkaProducer, _AiokafkaRegister, _AiokafkaMember),
    Library("confluent-kafka", _ConfluentProducer, _ConfluentRegister, _ConfluentMember),
    Library("kafka-python", _PythonProducer, _PythonRegister, _PythonMember),
)
