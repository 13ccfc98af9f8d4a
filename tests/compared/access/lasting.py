"""What lasts longer than a request: fetch sessions, members of groups, and topics.

Each step is drawn once and done with both brokers, which give sessions and topics ids of their own.
"""

import random
import time
import uuid
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.wire import ZERO_UUID
from tests.compared.access.sides import PAUSE_S, SETTLING_S, Side

# Versions with sessions; from the later one on topics have ids.
_SESSIONS, _WITH_IDS, _NEWEST = 7, 13, 17
_NO_SESSION, _FULL, _LAST = 0, 0, -1
# The epoch of a heartbeat that leaves the group.
_LEAVES = -1
_PATTERNS = ("t.*", "t[0-9]", "u1|t1", ".*", "t1", "t..", "v|t3", "[^t].*")
# Topics that only one of the brokers has.
_INTERNAL = ("__", "coterie.")
# How long a broker may take to match a regular expression, how often it does so in a group, and how
# long the brokers may differ: until the next time, if one came too early.
_MATCHING_S = 0.6
_DIFFERING_S = 15.0
_BETWEEN_MATCHINGS_S = 11.0
# What says that a topic is being created.
_CREATED = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


class FetchStep(NamedTuple):
    """A Fetch in a session.

    Attributes:
        user: who sends it.
        version: its version.
        epoch: 0 begins a session, -1 ends one, and any other number goes on.
        topics: what is added to the session.
        forgotten: what leaves it.
    """

    user: str
    version: int
    epoch: int
    topics: tuple[str, ...]
    forgotten: tuple[str, ...]


def draw_fetch(draw: random.Random, users: list[str], topics: list[str]) -> FetchStep:
    """Draw a Fetch; mostly one that goes on with the session of its user."""
    epoch = draw.choice((_FULL, 1, 1, 1, 1, 1, 1, _LAST))
    added = draw.randrange(4 if epoch == _FULL else 2)
    return FetchStep(
        draw.choice(users),
        draw.choice((_SESSIONS, 12, _WITH_IDS, _NEWEST, _NEWEST, _NEWEST)),
        epoch,
        tuple(draw.sample(topics, added)),
        tuple(draw.sample(topics, draw.choice((0, 0, 1)) if epoch > 0 else 0)),
    )


class Sessions:
    """The fetch sessions of the users of one broker."""

    def __init__(self, side: Side) -> None:
        """Begin without sessions."""
        self._side = side
        # The id and the next epoch, by user and by whether topics have ids.
        self._sessions: dict[tuple[str, bool], tuple[int, int]] = {}

    def answer(self, step: FetchStep) -> str:
        """Send a Fetch; return what its answer says of each topic, without the records."""
        key = step.user, step.version >= _WITH_IDS
        session, epoch = self._sessions.get(key, (_NO_SESSION, _FULL))
        if step.epoch != 1:
            epoch = step.epoch
        names = self._side.topic_ids
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session,
            session_epoch=epoch,
            topics=[
                FetchRequestTopic(
                    topic=each,
                    topic_id=names.get(each, bytes(range(16))),
                    partitions=[
                        FetchRequestPartition(
                            partition=0, fetch_offset=0, partition_max_bytes=10_000
                        )
                    ],
                )
                for each in step.topics
            ],
            forgotten_topics_data=[
                FetchRequestForgottenTopic(
                    topic=each, topic_id=names.get(each, bytes(range(16))), partitions=[0]
                )
                for each in step.forgotten
            ],
        )
        found = self._side.call_as(step.user, request, step.version)
        if found.error_code or epoch == _LAST or not found.session_id:
            self._sessions.pop(key, None)
        else:
            self._sessions[key] = found.session_id, epoch + 1
        topics = {id_: name for name, id_ in names.items()}
        rows = sorted(
            f"{each.topic or topics.get(each.topic_id, '?')}:"
            f" {ErrorCode(one.error_code).name} {one.high_watermark}"
            f"{' with records' if one.records else ''}"
            for each in found.responses
            for one in each.partitions
        )
        is_in_session = found.session_id != _NO_SESSION
        return f"{ErrorCode(found.error_code).name} {is_in_session} {', '.join(rows)}"


class MemberStep(NamedTuple):
    """A member that joins a consumer group with a regular expression.

    Attributes:
        user: who it is.
        group: the group.
        member: its id.
        pattern: the regular expression.
    """

    user: str
    group: str
    member: str
    pattern: str


def draw_member(draw: random.Random, users: list[str], group: str) -> MemberStep:
    """Draw a member of a group."""
    member = str(uuid.UUID(int=draw.getrandbits(128)))
    return MemberStep(draw.choice(users), group, member, draw.choice(_PATTERNS))


class _Member:
    """A member of a group of one broker."""

    def __init__(self, side: Side, step: MemberStep) -> None:
        self._side = side
        self._step = step
        self._epoch = 0
        self._owned: list[HeartbeatTopicPartitions] = []
        self.error = ErrorCode.NONE

    def heartbeat(self) -> None:
        """Send a heartbeat, and own what is assigned."""
        joins = not self._epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._step.group,
            member_id=self._step.member,
            member_epoch=self._epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=self._step.pattern if joins else None,
            topic_partitions=[] if joins else self._owned,
        )
        found: ConsumerGroupHeartbeatResponse = self._side.call_as(self._step.user, request, 1)
        self.error = ErrorCode(found.error_code)
        if not self.error:
            self._epoch = found.member_epoch
            if found.assignment is not None:
                self._owned = found.assignment.topic_partitions

    def leave(self) -> None:
        """Leave the group, whatever the user may do by now."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._step.group,
            member_id=self._step.member,
            member_epoch=_LEAVES,
        )
        self._side.call(request, 1)

    @property
    def topics(self) -> list[str]:
        """The topics that it has partitions of."""
        return sorted(
            name
            for name in (self._side.topic_name(each.topic_id) for each in self._owned)
            if not name.startswith(_INTERNAL)
        )


class Members:
    """The members of the groups of both brokers, in pairs."""

    def __init__(self, kafka: Side, ours: Side) -> None:
        """Begin without members."""
        self._sides = kafka, ours
        self._groups: dict[str, tuple[float, list[MemberStep], list[tuple[_Member, _Member]]]] = {}

    def join(self, step: MemberStep) -> tuple[str, str]:
        """Let a member join; return what its group has then, in each broker."""
        _, steps, members = self._groups.get(step.group, (0.0, [], []))
        kafka, ours = (_Member(side, step) for side in self._sides)
        members.append((kafka, ours))
        steps.append(step)
        self._groups[step.group] = time.monotonic(), steps, members
        return self._settled(step.group)

    def due(self) -> list[str]:
        """Return the groups whose regular expressions may be matched again."""
        now_s = time.monotonic()
        return [
            group
            for group, (at_s, *_) in self._groups.items()
            if now_s - at_s > _BETWEEN_MATCHINGS_S
        ]

    def were_taken_away(self, group: str) -> bool:
        """Return whether Kafka has left several members without any partition."""
        members = self._groups[group][2]
        return len(members) > 1 and not any(kafka.topics for kafka, _ in members)

    def end(self, group: str) -> None:
        """Let all members leave a group, and delete it."""
        for pair in self._groups.pop(group)[2]:
            for each in pair:
                each.leave()
        for side in self._sides:
            side.call(DeleteGroupsRequest(groups_names=[group]), 2)

    def _settled(self, group: str) -> tuple[str, str]:
        """Send heartbeats until the members have what they will have; return it."""
        members = self._groups[group][2]
        began_s = time.monotonic()
        while True:
            for pair in members:
                for each in pair:
                    each.heartbeat()
            found = self._shown(group, 0), self._shown(group, 1)
            limit_s = _MATCHING_S if found[0] == found[1] else _DIFFERING_S
            is_refused = all(each.error for pair in members for each in pair)
            if is_refused or time.monotonic() - began_s > limit_s:
                return found
            time.sleep(PAUSE_S)

    def _shown(self, group: str, side: int) -> str:
        """Return the members with their errors, and the topics that they have together.

        Which of them has what depends on the order of changes, which differs: a join between two
        matchings takes all partitions away in Kafka [consumer-groups/joiner-without-topics].
        """
        _, steps, members = self._groups[group]
        mine = [pair[side] for pair in members]
        shown = (
            f"{step.user} {step.pattern} {each.error.name}"
            for step, each in zip(steps, mine, strict=True)
        )
        topics = sorted({topic for each in mine for topic in each.topics})
        return f"{'; '.join(shown)}: {' '.join(topics)}"


def ask_for_topics(side: Side, user: str, version: int, names: list[str]) -> str:
    """Let Metadata create topics; return the errors, where it is the same whether one is there."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=each, topic_id=ZERO_UUID) for each in names],
        allow_auto_topic_creation=True,
    )
    found = side.call_as(user, request, version)
    return ", ".join(sorted(f"{each.name}: {_creation(each.error_code)}" for each in found.topics))


def _creation(code: int) -> str:
    return "created" if code in _CREATED else ErrorCode(code).name


def created_topics(kafka: Side, ours: Side, names: list[str]) -> tuple[str, str]:
    """Return which of some topics are there, in each broker, and delete them."""
    end_s = time.monotonic() + _DIFFERING_S
    # Kafka creates them later.
    while _there(kafka, names) != _there(ours, names) and time.monotonic() < end_s:
        time.sleep(PAUSE_S)
    time.sleep(SETTLING_S)
    found = _there(kafka, names), _there(ours, names)
    for side, there in zip((kafka, ours), found, strict=True):
        deletion = DeleteTopicsRequest(
            topics=[DeleteTopicsRequestTopic(name=each, topic_id=ZERO_UUID) for each in there],
            topic_names=[],
            timeout_ms=10_000,
        )
        side.call(deletion, 6)
        while _there(side, names):
            time.sleep(PAUSE_S)
    return ", ".join(found[0]), ", ".join(found[1])


def _there(side: Side, names: list[str]) -> list[str]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return sorted(each.name for each in side.call(request, 12).topics if each.name in names)
