"""Verbs of large consumer groups (KIP-848): joins, rounds of heartbeats, changes, conversions."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from tests.soak.turns.answers import Answers
from tests.soak.turns.requests import frame, newest
from tests.soak.turns.session import Session, Verb

_BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
_BEAT_VERSION = newest(_BEAT)
# A member gets its id with the first answer in this version.
_JOIN_VERSION = 3
# The least time between two targets, and some more.
_INTERVAL_S = 1.1
# So many rounds of heartbeats bring every group to rest.
_MOST_ROUNDS = 12
# The topics that groups subscribe to besides the one of many partitions, and one that grows.
_TOPICS = ["w", "grows", *(f"s{number}" for number in range(10))]
_GROWS_FROM, _GROWS_TO = 20, 40
_PATTERNS = 20
# A session is longer than everything that a slow machine does meanwhile.
_TIMEOUT_MS = 300_000


class _Group:
    """The members of one group of the consumer protocol, all on one connection."""

    def __init__(self, session: Session, group_id: str) -> None:
        self.session = session
        self.group_id = group_id
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[dict[str, Any]]] = {}

    def join(self, names: list[str], subscribed: Callable[[int], dict[str, Any]]) -> Answers:
        """Let members join, all at once."""
        self.epochs.update(dict.fromkeys(names, 0))
        self.owned.update((name, []) for name in names)
        return self._beat(
            names,
            [
                {**subscribed(number), "rebalance_timeout_ms": _TIMEOUT_MS}
                for number, _ in enumerate(names)
            ],
        )

    def rest(self) -> Answers:
        """Let all members send heartbeats until none is told anything new."""
        frames: Counter[bytes] = Counter()
        for _ in range(_MOST_ROUNDS):
            time.sleep(_INTERVAL_S)
            before = dict(self.epochs), dict(self.owned)
            answers = self._beat(list(self.epochs), [{}] * len(self.epochs))
            frames += answers.frames
            if before == (self.epochs, self.owned) and len(set(self.epochs.values())) <= 1:
                return Answers(_BEAT, _BEAT_VERSION, frames)
        raise AssertionError(f"{self.group_id} does not come to rest")

    def leave(self, names: list[str]) -> Answers:
        """Let members leave, all at once."""
        for name in names:
            self.epochs.pop(name, None)
            self.owned.pop(name, None)
        return self.session.exchange(
            _BEAT, _BEAT_VERSION, [self._frame(name, -1, {}) for name in names]
        )

    def _beat(self, names: list[str], fields: list[dict[str, Any]]) -> Answers:
        requests = [
            self._frame(name, self.epochs[name], {"topic_partitions": self.owned[name], **more})
            for name, more in zip(names, fields, strict=True)
        ]
        answers = self.session.exchange(_BEAT, _BEAT_VERSION, requests)
        for answer, _ in answers.decoded():
            if answer.error_code:
                continue
            self.epochs[answer.member_id] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[answer.member_id] = [
                    {"topic_id": each.topic_id, "partitions": each.partitions}
                    for each in answer.assignment.topic_partitions
                ]
        return answers

    def _frame(self, name: str, epoch: int, fields: dict[str, Any]) -> bytes:
        return frame(
            _BEAT, _BEAT_VERSION, group_id=self.group_id, member_id=name, member_epoch=epoch,
            **{"rebalance_timeout_ms": -1, **fields},
        )  # fmt: skip


def consumers(session: Session) -> Iterator[Verb]:
    """Yield the verbs; each needs those before it of the same group."""
    creating = ApiKey.CREATE_TOPICS
    topic = {"name": "grows", "num_partitions": _GROWS_FROM, "replication_factor": 1}
    yield session.verb(
        "CreateTopics, one that grows",
        creating,
        lambda: [frame(creating, newest(creating), topics=[topic], timeout_ms=60_000)],
    )._replace(is_needed=True)
    yield from _large_group(session)
    yield from _patterns(session)
    yield from _conversions(session)


def _large_group(session: Session) -> Iterator[Verb]:
    group = _Group(session, "consumers")
    names = [f"m{number}" for number in range(session.sizes.members)]
    named = {"subscribed_topic_names": _TOPICS}
    yield Verb(
        "ConsumerGroupHeartbeat, pipelined, joins",
        lambda: group.join(names, lambda _: named),
        is_needed=True,
    )
    yield Verb("ConsumerGroupHeartbeat, pipelined, rounds until rest", group.rest)
    yield _described(session, "ConsumerGroupDescribe of a large group", "consumers")
    growing = ApiKey.CREATE_PARTITIONS
    yield session.verb(
        "CreatePartitions of a topic of a large group",
        growing,
        lambda: [
            frame(
                growing,
                newest(growing),
                topics=[{"name": "grows", "count": _GROWS_TO}],
                timeout_ms=60_000,
            )
        ],
    )
    yield Verb("ConsumerGroupHeartbeat, after a topic has grown", group.rest)
    yield Verb(
        "ConsumerGroupHeartbeat, pipelined, half of them leave",
        lambda: group.leave(names[::2]),
    )
    yield Verb("ConsumerGroupHeartbeat, after half have left", group.rest)


def _patterns(session: Session) -> Iterator[Verb]:
    """Yield what members with regular expressions do, each of which matches many topics."""
    group = _Group(session, "patterns")
    names = [f"p{number}" for number in range(_PATTERNS)]
    yield Verb(
        "ConsumerGroupHeartbeat, joins by regular expression",
        lambda: group.join(names, lambda number: {"subscribed_topic_regex": f"(s|w).*|x{number}"}),
    )
    yield Verb("ConsumerGroupHeartbeat, regular expressions, rounds", group.rest)
    yield _described(session, "ConsumerGroupDescribe of regular expressions", "patterns")


def _conversions(session: Session) -> Iterator[Verb]:
    """Yield downgrades of a consumer group, and an upgrade.

    Classic members join a consumer group, where they are answered at once.
    """
    group = _Group(session, "converted")
    named = {"subscribed_topic_names": _TOPICS}
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=_TOPICS), 1)
    api = ApiKey.JOIN_GROUP
    yield Verb(
        "ConsumerGroupHeartbeat, one that is joined",
        lambda: group.join(["u0"], lambda _: named),
        is_needed=True,
    )
    yield session.verb(
        "JoinGroup, pipelined, into a consumer group",
        api,
        lambda: (
            [
                frame(
                    api,
                    _JOIN_VERSION,
                    group_id="converted",
                    session_timeout_ms=_TIMEOUT_MS,
                    rebalance_timeout_ms=_TIMEOUT_MS,
                    protocol_type="consumer",
                    protocols=[{"name": "range", "metadata": metadata}],
                    member_id="",
                )
            ]
            * session.sizes.members
        ),
        version=_JOIN_VERSION,
    )._replace(is_needed=True)
    yield Verb("ConsumerGroupHeartbeat, target of classic members", group.rest)
    yield Verb("ConsumerGroupHeartbeat, leave and downgrade", lambda: group.leave(["u0"]))
    yield Verb(
        "ConsumerGroupHeartbeat, join and upgrade", lambda: group.join(["u1"], lambda _: named)
    )
    yield _described(session, "ConsumerGroupDescribe of an upgraded group", "converted")
    yield Verb("ConsumerGroupHeartbeat, leave and downgrade again", lambda: group.leave(["u1"]))


def _described(session: Session, name: str, group_id: str) -> Verb:
    api = ApiKey.CONSUMER_GROUP_DESCRIBE
    return session.verb(name, api, lambda: [frame(api, newest(api), group_ids=[group_id])])
