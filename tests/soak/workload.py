"""The load of a soak: producers, consumer groups that rebalance, committers and administrators.

Every actor is a task that goes on until `stop` is set. Actors note what was acknowledged in the
ledger, and compare what they read with it. Waits between actions keep the load at a fraction of a
processor, so that minutes of it are minutes of many small events.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable, Coroutine

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from tests.soak.ledger import Ledger

TOPICS = ("orders", "payments")
PARTITIONS = 6
GROUPS = ("billing", "shipping", "reports")
MEMBERS = 3
PRODUCERS = 3
COMMITTERS = 4
ADMINISTRATORS = 2

_PRODUCE_PAUSE_S = 0.02
_COMMIT_PAUSE_S = 0.05
_LIFETIME_S = (1.0, 12.0)
_ADMIN_PAUSE_S = 0.5
_SESSION_MS = 6_000
_READ_BACK_LIMIT_S = 60.0


class Workload:
    """All actors of one run.

    Attributes:
        bootstrap: the server.
        ledger: what was acknowledged.
        stop: set when the actors are to end.
    """

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap = bootstrap
        self.ledger = Ledger()
        self.stop = asyncio.Event()
        self._random = random.Random(seed)

    async def run(self, seconds: float) -> None:
        """Let all actors work for some seconds, then end them and read everything back."""
        await self._create(TOPICS[0], PARTITIONS)
        await self._create(TOPICS[1], PARTITIONS)
        actors: list[Coroutine[None, None, None]] = [
            *(self._produce(number) for number in range(PRODUCERS)),
            *(self._member(group, number) for group in GROUPS for number in range(MEMBERS)),
            *(self._commit(number) for number in range(COMMITTERS)),
            *(self._administer(number) for number in range(ADMINISTRATORS)),
            self._delete_groups(),
        ]
        tasks = [asyncio.create_task(self._guard(actor)) for actor in actors]
        await asyncio.sleep(seconds)
        self.stop.set()
        await asyncio.gather(*tasks)
        for partition in self.ledger.partitions():
            await self._read_back(partition)

    async def _guard(self, actor: Awaitable[None]) -> None:
        try:
            await actor
        except Exception as error:
            self.ledger.violated(f"an actor failed: {type(error).__name__}: {error}")

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)

    # -- records -----------------------------------------------------------------------------------

    async def _produce(self, number: int) -> None:
        """Produce with idempotence; now and then begin again as a new producer."""
        sent = 0
        while not self.stop.is_set():
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                enable_idempotence=True,
                compression_type=self._random.choice([None, "gzip"]),
            )
            await producer.start()
            try:
                for _ in range(self._random.randrange(100, 600)):
                    if self.stop.is_set():
                        break
                    value = f"{number}-{sent}".encode()
                    sent += 1
                    topic = self._random.choice(TOPICS)
                    done = await producer.send_and_wait(topic, value)
                    self.ledger.produced((topic, done.partition), done.offset, value)
                    await self._pause(_PRODUCE_PAUSE_S)
            finally:
                await producer.stop()
            self.ledger.counts["producers"] += 1

    async def _read_back(self, partition: tuple[str, int]) -> None:
        """Read a whole partition without a group and compare it with the ledger."""
        topic = TopicPartition(*partition)
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([topic])
            await consumer.seek_to_beginning(topic)
            end = (await consumer.end_offsets([topic]))[topic]
            records: dict[int, bytes] = {}
            async with asyncio.timeout(_READ_BACK_LIMIT_S):
                while len(records) < end:
                    for batch in (await consumer.getmany(timeout_ms=500)).values():
                        records.update({each.offset: each.value for each in batch})
            self.ledger.read_back(partition, records)
        except TimeoutError:
            self.ledger.violated(f"{partition} could not be read back to offset {end}")
        finally:
            await consumer.stop()

    # -- groups ------------------------------------------------------------------------------------

    async def _member(self, group: str, number: int) -> None:
        """Join, read and commit, leave; the first member of a group is static."""
        while not self.stop.is_set():
            consumer = AIOKafkaConsumer(
                *TOPICS,
                bootstrap_servers=self.bootstrap,
                group_id=group,
                group_instance_id=f"{group}-static" if number == 0 else None,
                client_id=f"{group}-{number}",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=_SESSION_MS,
                heartbeat_interval_ms=500,
            )
            await consumer.start()
            try:
                await self._consume(consumer, self._random.uniform(*_LIFETIME_S))
            finally:
                await consumer.stop()
            self.ledger.counts["memberships"] += 1
            await self._pause(self._random.uniform(0, 1))

    async def _consume(self, consumer: AIOKafkaConsumer, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until and not self.stop.is_set():
            found = await consumer.getmany(timeout_ms=200, max_records=200)
            for (topic, index), records in found.items():
                for record in records:
                    self.ledger.consumed((topic, index), record.offset, record.value)
            if found:
                try:
                    await consumer.commit()
                    self.ledger.counts["group commits"] += 1
                except KafkaError:
                    # The group has rebalanced meanwhile: somebody else reads these records again.
                    self.ledger.counts["refused group commits"] += 1

    async def _commit(self, number: int) -> None:
        """Commit for a group without members, and read the commits back."""
        group, position = f"committer-{number}", 0
        partitions = [(TOPICS[0], index) for index in range(PARTITIONS)]
        while not self.stop.is_set():
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False
            )
            await consumer.start()
            try:
                consumer.assign([TopicPartition(*each) for each in partitions])
                for _ in range(self._random.randrange(20, 100)):
                    if self.stop.is_set():
                        break
                    position += 1
                    partition = self._random.choice(partitions)
                    self.ledger.committing(group, partition, position)
                    wanted = {TopicPartition(*partition): OffsetAndMetadata(position, "soak")}
                    await consumer.commit(wanted)
                    self.ledger.committed(group, partition, position)
                    await self._pause(_COMMIT_PAUSE_S)
                for partition in partitions:
                    found = await consumer.committed(TopicPartition(*partition))
                    self.ledger.fetched(group, partition, -1 if found is None else found)
            finally:
                await consumer.stop()

    # -- administration ----------------------------------------------------------------------------

    async def _create(self, topic: str, partitions: int, **configs: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])
        finally:
            await admin.close()

    async def _administer(self, number: int) -> None:
        """Create topics, use them for a moment, delete them; list and describe what there is."""
        made = 0
        while not self.stop.is_set():
            made += 1
            # The same few names again and again: a new topic must have nothing of the old one.
            topic = f"short-lived-{number}-{made % 3}"
            policy = self._random.choice(["delete", "compact"])
            await self._create(topic, self._random.randrange(1, 8), **{"cleanup.policy": policy})
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
            await producer.start()
            try:
                for key in range(20):
                    value = f"{topic}-{made}-{key}".encode()
                    done = await producer.send_and_wait(topic, value, key=b"%d" % key)
                    self.ledger.produced((topic, done.partition), done.offset, value)
            finally:
                await producer.stop()
            await self._pause(_ADMIN_PAUSE_S)
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                await admin.list_consumer_groups()
                await admin.describe_topics([topic])
                await admin.delete_topics([topic])
            finally:
                await admin.close()
            self.ledger.forget_topic(topic)
            self.ledger.counts["topics deleted"] += 1

    async def _delete_groups(self) -> None:
        """Make groups and delete them with the command line, many at once."""
        made = 0
        while not self.stop.is_set():
            groups = [f"short-lived-{made + index}" for index in range(10)]
            made += len(groups)
            for group in groups:
                consumer = AIOKafkaConsumer(
                    bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False
                )
                await consumer.start()
                try:
                    consumer.assign([TopicPartition(TOPICS[0], 0)])
                    await consumer.commit({TopicPartition(TOPICS[0], 0): 1})
                finally:
                    await consumer.stop()
            await self._groups_command("describe", self._random.choice(GROUPS), "--json")
            await self._groups_command("delete", *groups)
            self.ledger.counts["groups deleted"] += len(groups)
            await self._pause(2.0)

    async def _groups_command(self, *arguments: str) -> None:
        """Run `coterie groups`: aiokafka can neither describe nor delete groups of all versions."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "coterie", "groups", "--bootstrap-server", self.bootstrap),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode:
            self.ledger.violated(f"groups {arguments[0]} failed: {output.decode().strip()}")
