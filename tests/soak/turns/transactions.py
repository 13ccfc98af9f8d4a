"""Verbs of transactions: one of many partitions, many at once, and many that time out."""

import time
from collections.abc import Iterator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from tests.soak.turns.answers import Answers
from tests.soak.turns.requests import frame, largest, newest
from tests.soak.turns.session import Session, Verb, no_answers
from tests.unit.server.produced import batch

# Time after which transactions time out, and how often the server looks for such.
TRANSACTION_TIMEOUT_MS = 4_000
TIMED_OUT_EVERY_MS = 5_000
# The last versions in which a transaction adds its partitions by requests of its own.
_ADD_VERSION = 3
_END_VERSION = 4
# Each transaction of a request for many is a structure with a topic and a partition.
_ELEMENTS_EACH = 3


def transactions(session: Session) -> Iterator[Verb]:
    """Yield the verbs."""
    yield from _of_many_partitions(session)
    yield _add_to_many(session)
    yield from _many_at_once(session)


def _of_many_partitions(session: Session) -> Iterator[Verb]:
    """Yield the requests of the transactional id x0, whose transaction gets all partitions."""
    sizes = session.sizes

    def made(api: ApiKey, version: int, *, deep: bool) -> list[bytes]:
        # One partition that does not exist refuses all.
        elements = min(sizes.elements, sizes.wide + 1 if deep else 2 * sizes.topics)
        return [largest(api, deep=deep, elements=elements, version=version, values=producer())]

    def producer() -> dict[str, Any]:
        producer_id, epoch = session.producers[0]
        return {"producer_id": producer_id, "producer_epoch": epoch}

    for api, version in (
        (ApiKey.ADD_PARTITIONS_TO_TXN, _ADD_VERSION),
        (ApiKey.TXN_OFFSET_COMMIT, newest(ApiKey.TXN_OFFSET_COMMIT)),
    ):
        for shape in ("wide", "deep"):
            yield session.verb(
                f"{api.kafka_name}, {shape}",
                api,
                lambda api=api, version=version, deep=shape == "deep": made(  # type: ignore[misc]
                    api, version, deep=deep
                ),
                version=version,
            )._replace(is_needed=True)
    api = ApiKey.END_TXN
    yield session.verb(
        "EndTxn of a transaction of all partitions",
        api,
        lambda: [frame(api, _END_VERSION, transactional_id="x0", committed=True, **producer())],
        version=_END_VERSION,
    )


def _add_to_many(session: Session) -> Verb:
    """Return a request for as many transactions as it may have."""
    sizes, api = session.sizes, ApiKey.ADD_PARTITIONS_TO_TXN
    count = min(sizes.elements // _ELEMENTS_EACH, sizes.transactional_ids - sizes.pipelined)

    def request() -> list[bytes]:
        each = [
            {
                "transactional_id": f"x{number}",
                "producer_id": session.producers[number][0],
                "producer_epoch": session.producers[number][1],
                "topics": [{"name": f"s{number % sizes.topics}", "partitions": [0]}],
            }
            for number in range(sizes.transactional_ids - count, sizes.transactional_ids)
        ]
        return [frame(api, newest(api), transactions=each)]

    return session.verb("AddPartitionsToTxn of many transactions", api, request)


def _many_at_once(session: Session) -> Iterator[Verb]:
    """Yield transactional requests of many producers, and the end of all by timeout."""
    sizes = session.sizes
    numbers = range(1, 1 + min(sizes.pipelined, sizes.transactional_ids - 1))

    def requests(api: ApiKey, version: int, **fields: Any) -> Iterator[bytes]:
        for number in numbers:
            producer_id, epoch = session.producers[number]
            yield frame(
                api,
                version,
                transactional_id=f"x{number}",
                producer_id=producer_id,
                producer_epoch=epoch,
                **fields,
            )

    def produced() -> Iterator[bytes]:
        for number in numbers:
            records = batch(
                b"value",
                timestamp_ms=time.time_ns() // 1_000_000,
                producer=(*session.producers[number], 0),
                transactional=True,
            )
            partitions = [{"index": 0, "records": records}]
            yield frame(
                ApiKey.PRODUCE,
                newest(ApiKey.PRODUCE),
                transactional_id=f"x{number}",
                acks=-1,
                timeout_ms=60_000,
                topic_data=[{"name": f"s{number % sizes.topics}", "partition_data": partitions}],
            )

    def time_out() -> Answers:
        time.sleep((TRANSACTION_TIMEOUT_MS + 2 * TIMED_OUT_EVERY_MS) / 1_000)
        return no_answers()

    yield Verb(
        "InitProducerId, pipelined, of old ids",
        lambda: session.ids(numbers, TRANSACTION_TIMEOUT_MS),
        is_needed=True,
    )
    api = ApiKey.ADD_OFFSETS_TO_TXN
    yield session.verb(
        "AddOffsetsToTxn, pipelined", api, lambda: requests(api, newest(api), group_id="g0")
    )
    yield session.verb(
        "EndTxn, pipelined",
        ApiKey.END_TXN,
        lambda: requests(ApiKey.END_TXN, _END_VERSION, committed=True),
        version=_END_VERSION,
    )
    yield session.verb("Produce, pipelined, transactional", ApiKey.PRODUCE, produced)
    yield Verb("transactions that time out at once", time_out)
