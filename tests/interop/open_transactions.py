"""Transactions that are left open, and some that hang, for programs about them."""

from confluent_kafka import Producer

from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.records import Record, encode_records
from tests.interop.model import Failed
from tests.interop.requests import ask
from tests.interop.topics import create_topics

# A broker with this setting accepts a transactional batch of a producer that no coordinator knows,
# as releases before 3.6 did.
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
HANGING_PRODUCERS = (5000, 5001)

_LIMIT_S = 60.0
# The last version whose batches are verified, not added by the broker itself.
_PRODUCE_VERSION = 9
_LONG_AGO_MS = 1_700_000_000_000


def leave_open(bootstrap: str) -> Producer:
    """Leave transactions open at a broker that does not verify; return the producer of the first.

    One has the transactional id `open` and the topic `open`. Two hang, in the partitions of the
    topic `hanging`: no coordinator knows their producers.
    """
    create_topics(bootstrap, {"open": 1, "hanging": len(HANGING_PRODUCERS)})
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "open",
            "transaction.timeout.ms": 800_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(_LIMIT_S)
    producer.begin_transaction()
    producer.produce("open", b"committed", partition=0)
    producer.commit_transaction(_LIMIT_S)
    producer.begin_transaction()
    producer.produce("open", b"open", partition=0)
    if producer.flush(_LIMIT_S):
        raise Failed("a record of the open transaction was not acknowledged")
    for index, producer_id in enumerate(HANGING_PRODUCERS):
        _leave_hanging(bootstrap, index, producer_id)
    return producer


def _leave_hanging(bootstrap: str, index: int, producer_id: int) -> None:
    records = encode_records(
        [Record(0, _LONG_AGO_MS, None, b"hanging")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    partition = ProduceRequestPartition(index=index, records=records)
    topic = ProduceRequestTopic(name="hanging", partition_data=[partition])
    request = ProduceRequest(
        transactional_id="nobody", acks=-1, timeout_ms=30_000, topic_data=[topic]
    )
    (answer,) = ask(bootstrap, request, _PRODUCE_VERSION).responses[0].partition_responses
    if answer.error_code:
        raise Failed(f"a transaction cannot be left hanging: error {answer.error_code}")
