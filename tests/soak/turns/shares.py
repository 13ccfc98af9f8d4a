"""Verbs of one member of a share group that reads thousands of partitions.

Each runs those before it if they have not been run.
"""

import time
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from coterie.protocol.api_keys import ApiKey
from tests.soak.turns.answers import Answers
from tests.soak.turns.client import Client
from tests.soak.turns.requests import frame, newest
from tests.soak.turns.session import Session, Verb, no_answers
from tests.unit.server.produced import batch

_GROUP, _MEMBER, _TOPIC = "reading", "AAAAAAAAAAAAAAAAAAAAAQ", "w"
# Partition, batch and type: so many elements has an acknowledgement in a request.
_ELEMENTS_EACH = 3
# So many are initialised by one request, and so many acquired by one fetch.
_AT_ONCE = 5_000
_MOST_BYTES = 50 << 20
_PATIENCE_MS = 60_000
# The fetch is answered at its end, because so many bytes are never there.
_WAIT_MS = 3_000
_ACCEPT = 1
_FINAL = -1
# The verbs in their order.
_NAMES = (
    "Produce for a share group",
    "InitializeShareGroupState for a share group",
    "ShareFetch for a share group, opening",
    "ShareFetch for a share group",
    "ShareFetch for a share group, accepting",
    "ShareAcknowledge for a share group",
    "ShareFetch for a share group, ending",
)


def shares(session: Session) -> Iterator[Verb]:
    """Yield the verbs."""
    member = _Member(session)
    for number, name in enumerate(_NAMES):
        yield Verb(name, partial(member.run, number))


class _Member:
    """The member, with one connection: a session ends with that which has opened it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._partitions = session.sizes.wide
        self._acknowledged = min(self._partitions, session.sizes.elements // _ELEMENTS_EACH)
        self._topic_id = bytes(16)
        self._epoch = 0
        # The steps that are left, in order.
        self._steps = [
            self.produce,
            self.initialize,
            self.open,
            self.acquire,
            self.acquire_and_accept,
            self.accept,
            self.end,
        ]

    @cached_property
    def _client(self) -> Client:
        client = Client(self._session.port)
        self._session.clients.append(client)
        return client

    def run(self, number: int) -> Answers:
        """Run a step, and those before it that have not been run."""
        answers = no_answers()
        while len(_NAMES) - len(self._steps) <= number:
            answers = self._steps.pop(0)()
        return answers

    def produce(self) -> Answers:
        """Produce two batches of one record to each partition."""
        api, now_ms = ApiKey.PRODUCE, time.time_ns() // 1_000_000
        partitions = [
            {"index": index, "records": batch(b"value", timestamp_ms=now_ms)}
            for index in range(self._partitions)
        ]
        topics = [{"name": _TOPIC, "partition_data": partitions}]
        request = frame(api, newest(api), acks=-1, timeout_ms=_PATIENCE_MS, topic_data=topics)
        return Answers(api, newest(api), self._client.exchange([request, request]))

    def initialize(self) -> Answers:
        """Begin the state of every partition."""
        asked = ApiKey.METADATA
        found = self._client.call(
            asked, newest(asked), topics=[{"topic_id": bytes(16), "name": _TOPIC}]
        )
        self._topic_id = found.topics[0].topic_id
        api = ApiKey.INITIALIZE_SHARE_GROUP_STATE
        requests = []
        for first in range(0, self._partitions, _AT_ONCE):
            partitions = [
                {"partition": index, "state_epoch": 0, "start_offset": 0}
                for index in range(first, min(self._partitions, first + _AT_ONCE))
            ]
            topics = [{"topic_id": self._topic_id, "partitions": partitions}]
            requests.append(frame(api, newest(api), group_id=_GROUP, topics=topics))
        return Answers(api, newest(api), self._client.exchange(requests))

    def open(self) -> Answers:
        """Open the session; the share partitions are loaded then."""
        return self._fetch([self._partition(index) for index in range(self._partitions)])

    def acquire(self) -> Answers:
        """Acquire records of every partition."""
        return self._fetch([])

    def acquire_and_accept(self) -> Answers:
        """Accept the first record of as many partitions as fit a request, and acquire more."""
        return self._fetch([self._accepted(index, 0) for index in range(self._acknowledged)])

    def accept(self) -> Answers:
        """Accept the second record of as many partitions as fit a request."""
        partitions = [self._accepted(index, 1) for index in range(self._acknowledged)]
        return self._send(ApiKey.SHARE_ACKNOWLEDGE, self._next_epoch(), partitions, {})

    def end(self) -> Answers:
        """End the session, which releases what is acquired."""
        answers = self._send(ApiKey.SHARE_FETCH, _FINAL, [], {})
        self._client.close()
        return answers

    def _partition(self, index: int) -> dict[str, Any]:
        return {"partition_index": index, "acknowledgement_batches": []}

    def _accepted(self, index: int, offset: int) -> dict[str, Any]:
        batch = {"first_offset": offset, "last_offset": offset, "acknowledge_types": [_ACCEPT]}
        return {"partition_index": index, "acknowledgement_batches": [batch]}

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch - 1

    def _fetch(self, partitions: list[dict[str, Any]]) -> Answers:
        limits = {
            "max_wait_ms": _WAIT_MS, "min_bytes": 1 << 20, "max_bytes": _MOST_BYTES,
            "max_records": 1 << 30, "batch_size": 1, "forgotten_topics_data": [],
        }  # fmt: skip
        return self._send(ApiKey.SHARE_FETCH, self._next_epoch(), partitions, limits)

    def _send(
        self, api: ApiKey, epoch: int, partitions: list[dict[str, Any]], fields: dict[str, Any]
    ) -> Answers:
        request = frame(
            api,
            newest(api),
            group_id=_GROUP,
            member_id=_MEMBER,
            share_session_epoch=epoch,
            topics=[{"topic_id": self._topic_id, "partitions": partitions}] if partitions else [],
            **fields,
        )
        return Answers(api, newest(api), self._client.exchange([request]))
