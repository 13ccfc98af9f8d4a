"""A worker that copies records exactly once: `python -m tests.crash.pipeline_worker ...`.

    python -m tests.crash.pipeline_worker confluent|kafka-python HOST:PORT PARTITION

It reads one partition of `in` from the committed offset of its group, writes each record to `out`,
and commits both in transactions of some records. After an error, and if nothing gets on for some
time, it ends at once, with its transaction open: its parent starts another one.
"""

import faulthandler
import os
import sys
from collections.abc import Callable

import confluent_kafka
import kafka
from confluent_kafka import KafkaException
from kafka.structs import OffsetAndMetadata

SOURCE, TARGET, GROUP = "in", "out", "copies"
_BATCH = 7
_LIMIT_S = 10.0
_STUCK_S = 25.0
_TIMEOUT_MS = 10_000


def transactional_id(partition: int) -> str:
    """Return the transactional id of the workers of a partition."""
    return f"copies-{partition}"


def copy_with_confluent(bootstrap: str, partition: int) -> None:
    """Copy until something fails, with confluent-kafka."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id(partition),
            "transaction.timeout.ms": _TIMEOUT_MS,
            # Otherwise send_offsets_to_transaction may hang after the broker has restarted
            # (librdkafka's issue 5511, docs/testing.md).
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "reconnect.backoff.max.ms": 200,
         "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0}
    )  # fmt: skip
    producer.init_transactions(_LIMIT_S)
    place = confluent_kafka.TopicPartition(SOURCE, partition)
    (found,) = consumer.committed([place], _LIMIT_S)
    place.offset = max(found.offset, 0)
    consumer.assign([place])
    while True:
        messages = consumer.consume(_BATCH, 0.2)
        _gets_on()
        if errors := [each.error() for each in messages if each.error() is not None]:
            raise KafkaException(errors[0])
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(TARGET, message.value(), partition=partition)
        place.offset = (messages[-1].offset() or 0) + 1
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([place], metadata, _LIMIT_S)
        producer.commit_transaction(_LIMIT_S)


def copy_with_kafka_python(bootstrap: str, partition: int) -> None:
    """Copy until something fails, with kafka-python."""
    options = {"bootstrap_servers": bootstrap, "reconnect_backoff_max_ms": 200}
    producer = kafka.KafkaProducer(
        transactional_id=transactional_id(partition),
        transaction_timeout_ms=_TIMEOUT_MS,
        max_block_ms=int(_LIMIT_S * 1000),
        **options,
    )
    consumer = kafka.KafkaConsumer(
        group_id=GROUP, isolation_level="read_committed", enable_auto_commit=False, **options
    )
    place = kafka.TopicPartition(SOURCE, partition)
    producer.init_transactions()
    consumer.assign([place])
    consumer.seek(place, consumer.committed(place) or 0)
    while True:
        _gets_on()
        records = consumer.poll(200, max_records=_BATCH).get(place, [])
        if not records:
            continue
        producer.begin_transaction()
        sent = [producer.send(TARGET, each.value, partition=partition) for each in records]
        for each in sent:
            each.get(_LIMIT_S)
        offset = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction({place: offset}, GROUP)
        producer.commit_transaction()


LIBRARIES: dict[str, Callable[[str, int], None]] = {
    "confluent": copy_with_confluent,
    "kafka-python": copy_with_kafka_python,
}


def _gets_on() -> None:
    """Let the process live on; it prints where it is when it ends."""
    faulthandler.dump_traceback_later(_STUCK_S, exit=True)


def main() -> None:
    """Copy until something fails."""
    library, bootstrap, partition = sys.argv[1:]
    _gets_on()
    try:
        LIBRARIES[library](bootstrap, int(partition))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        # Nothing is closed: a client would abort its transaction.
        os._exit(1)


if __name__ == "__main__":
    main()
