"""Transactions of one record: begin, produce, commit; eight producers, each in a closed loop.

Up to Kafka 3 a client adds the partition, produces and ends the transaction: three requests. Since
Kafka 4 (KIP-890) Produce adds the partition and the end raises the epoch: two requests. A broker
that ends transactions after its answer refuses the next one for a while with
CONCURRENT_TRANSACTIONS; then a producer pauses as long as the Java client does, and tries again.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from typing import Any

from benchmarks.measures import (
    GENERATOR_BUSY,
    MICROSECONDS,
    P50_US,
    P99_US,
    PEAK_RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
    percentile,
)
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss
from benchmarks.requests import ALL_REPLICAS, PRODUCE_TIMEOUT_MS, AgreedApi, Refused
from benchmarks.session import NOT_READY, PATIENCE_S, Conversation, Job, Session, connect
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
)
from coterie.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.protocol.records import encode_batch

_PRODUCERS = 8
_TRANSACTION_TIMEOUT_MS = 60_000
_TRANSACTION_COORDINATOR = 1
# The pause of the Java client between two attempts to add the first partition of a transaction.
_PAUSE_S = 0.020
# A new topic of a real Kafka has no leader for a moment.
_PASSING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_VALUE = b"x" * 100

# The versions of Produce and EndTxn in each row; the other requests have one version.
_VERSIONS = {"added": (9, 3), "implied": (12, 5), "among-open": (9, 3)}
_OPEN_TRANSACTIONS = 1000
_QUICK_OPEN_TRANSACTIONS = 50
_INIT_VERSION, _ADD_VERSION, _FIND_VERSION = 4, 3, 2

CPU_US = Metric("cpu_us_per_transaction", "CPU µs/\ntransaction", 1)
PER_S = Metric("transactions_per_s", "transactions/s", 0, more_is_better=True)
REFUSED = Metric("concurrent_each", "refused\neach", 2)


class _Producer:
    """A transactional producer on a connection of its own.

    Attributes:
        latencies_s: of each transaction.
        refused: how often the transaction before had not ended yet.
    """

    def __init__(
        self, session: Session, conversation: Conversation, topic: str, index: int, name: str = ""
    ) -> None:
        self._session = session
        self._conversation = conversation
        self._topic, self._index = topic, index
        self._name = f"{topic}-{name or index}"
        self._producer_id = self._epoch = -1
        self._sequence = 0
        self.latencies_s = array("d")
        self.refused = 0

    async def start(self, produce_version: int, end_version: int) -> None:
        """Agree on versions, find the coordinator, and get a producer id."""
        at = self._session.requests.at
        self._produce_api = at(ApiKey.PRODUCE, produce_version)
        self._end_api = at(ApiKey.END_TXN, end_version)
        self._raises_epoch = end_version >= 5
        self._add_api = at(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD_VERSION)
        find = FindCoordinatorRequest(key=self._name, key_type=_TRANSACTION_COORDINATOR)
        await self._until_ready(at(ApiKey.FIND_COORDINATOR, _FIND_VERSION), find)
        init = InitProducerIdRequest(
            transactional_id=self._name, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        got: InitProducerIdResponse = await self._until_ready(
            at(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION), init
        )
        self._producer_id, self._epoch = got.producer_id, got.producer_epoch

    async def run(self, until: float) -> None:
        """Make transactions until a time of the loop, at least one."""
        while True:
            began = time.perf_counter()
            await self.begin()
            await self._end()
            now = time.perf_counter()
            self.latencies_s.append(now - began)
            if now >= until:
                return

    async def begin(self) -> None:
        """Begin a transaction with one record."""
        if not self._raises_epoch:
            await self._add()
        await self._produce()

    async def _add(self) -> None:
        topics = [AddPartitionsToTxnRequestTopic(name=self._topic, partitions=[self._index])]
        request = AddPartitionsToTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=topics,
        )

        def error_of(answer: AddPartitionsToTxnResponse) -> int:
            return answer.results_by_topic[0].results_by_partition[0].partition_error_code

        await self._until_ended(self._add_api, request, error_of)

    async def _produce(self) -> None:
        batch = encode_batch(
            [(b"", _VALUE)],
            0,
            int(time.time() * 1000),
            attributes=TRANSACTIONAL,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
        )
        self._sequence += 1
        partitions = [ProduceRequestPartition(index=self._index, records=batch)]
        request = ProduceRequest(
            transactional_id=self._name,
            acks=ALL_REPLICAS,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[ProduceRequestTopic(name=self._topic, partition_data=partitions)],
        )

        def error_of(answer: ProduceResponse) -> int:
            return answer.responses[0].partition_responses[0].error_code

        await self._until_ended(self._produce_api, request, error_of)

    async def _end(self) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        answer: EndTxnResponse = await self._ask(self._end_api, request)
        if answer.error_code:
            raise Refused(ApiKey.END_TXN, answer.error_code)
        if self._raises_epoch:
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequence = 0

    async def _until_ended(self, agreed: AgreedApi, request: Any, error_of: Any) -> None:
        """Send a request again as long as the transaction before has not ended."""
        while True:
            code = error_of(await self._ask(agreed, request))
            if code == ErrorCode.NONE:
                return
            if code not in _PASSING:
                raise Refused(agreed.api, code)
            self.refused += 1
            await asyncio.sleep(_PAUSE_S)

    async def _until_ready(self, agreed: AgreedApi, request: Any) -> Any:
        """Send a request again as long as the coordinator is not ready; return the answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = await self._ask(agreed, request)
            if answer.error_code == ErrorCode.NONE:
                return answer
            passes = answer.error_code in {*NOT_READY, ErrorCode.CONCURRENT_TRANSACTIONS}
            if not passes or time.monotonic() > deadline:
                raise Refused(agreed.api, answer.error_code)
            await asyncio.sleep(_PAUSE_S)

    async def _ask(self, agreed: AgreedApi, request: Any) -> Any:
        return agreed.response(await self._conversation.exchange(agreed.frame(request)))

    def close(self) -> None:
        """Close the connection."""
        self._conversation.transport.close()


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    session = await Session.open(job)
    topic = f"bench-{row.key}-{job.tag}"
    await session.create_topic(topic, _PRODUCERS)
    producers = [
        _Producer(session, await connect(job), topic, index) for index in range(_PRODUCERS)
    ]
    for producer in producers:
        await producer.start(*_VERSIONS[row.key])
    if row.key == "among-open":
        await _open_others(session, topic, quick=job.quick)
    await _load(producers, job.settle_s)
    for producer in producers:
        producer.latencies_s, producer.refused = array("d"), 0
    reset_peak_rss(job.pid)
    stretch = Stretch(job.pid)
    await _load(producers, job.duration_s)
    usage = stretch.end()
    peak = peak_rss_mib(job.pid)
    latencies = sorted(each for producer in producers for each in producer.latencies_s)
    for producer in producers:
        producer.close()
    session.close()
    count = len(latencies)
    numbers = known(
        cpu_us_per_transaction=per_unit_of_cpu(usage, count, MICROSECONDS),
        transactions_per_s=count / usage.seconds,
        p50_us=percentile(latencies, 0.50) * MICROSECONDS,
        p99_us=percentile(latencies, 0.99) * MICROSECONDS,
        concurrent_each=sum(producer.refused for producer in producers) / count,
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, Counter(), usage.others_share, session.requests.versions())


async def _open_others(session: Session, topic: str, *, quick: bool) -> None:
    """Open transactions of other producers with one record each, and leave them open."""
    conversation = await connect(session.job)
    for number in range(_QUICK_OPEN_TRANSACTIONS if quick else _OPEN_TRANSACTIONS):
        other = _Producer(session, conversation, topic, number % _PRODUCERS, f"open-{number}")
        await other.start(*_VERSIONS["among-open"])
        await other.begin()
    conversation.transport.close()


async def _load(producers: list[_Producer], seconds: float) -> None:
    until = time.perf_counter() + seconds
    await asyncio.gather(*(producer.run(until) for producer in producers))


SCENARIO = Scenario(
    key="transactions",
    title="Transactions of one record of 100 bytes, 8 producers",
    rows=(
        Row("added", "add the partition, produce, commit"),
        Row("implied", "produce, commit (KIP-890)"),
        Row("among-open", "the first beside 1,000 open transactions"),
    ),
    metrics=(CPU_US, PER_S, P50_US, P99_US, REFUSED, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=CPU_US,
    run=run,
)
