"""What a consumer group's timeline keeps of its members and of a rebalance that runs."""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.model import EpochBump, Handover, Ownership, RecordedMember


class Subscriber(NamedTuple):
    """A member and what it subscribes to.

    Attributes:
        member: its ids and its client; its topics are None if they are not known.
        is_classic, regex, server_assignor: see `EpochMember`.
    """

    member: RecordedMember
    is_classic: bool = False
    regex: str | None = None
    server_assignor: str | None = None


class Step(NamedTuple):
    """Where a member is on its way to its target."""

    at_ms: int
    member_epoch: int
    previous_epoch: int | None
    state: str
    assigned: frozenset[TopicPartition]
    pending: frozenset[TopicPartition]


class Removal(NamedTuple):
    """Why a member was removed."""

    cause: str
    evidence: str | None = None
    silent_ms: int | None = None


class RunningRebalance:
    """A rebalance that has not ended.

    Attributes:
        bump: the rise of the epoch with which it began.
        from_epoch: the epoch before; None for the first one.
    """

    def __init__(self, bump: EpochBump, from_epoch: int | None) -> None:
        """Begin."""
        self.bump = bump
        self.from_epoch = from_epoch
        self.before: dict[TopicPartition, str] = {}
        self.joined: list[str] = []
        self.left: list[str] = []
        self.skipped = 0
        self.unowned_ms = 0
        self.gaps: dict[TopicPartition, int | None] = {}
        # By key how long after the beginning a member first noticed it.
        self.noticed: dict[str, int] = {}


def until_given_up(
    intervals: Iterable[Ownership], handovers: Iterable[Handover]
) -> list[Ownership]:
    """Return ownership until partitions were given up: until then a member may commit for them.

    They are not read any more since the member was asked, which is when they are lost.
    """
    ends: dict[tuple[str, int, str, int | None], int | None] = {
        (each.topic, each.partition, each.from_member_key, each.noticed_ms): each.given_up_ms
        for each in handovers
        if each.noticed_ms is not None
    }
    return [
        each._replace(
            to_ms=ends.get((each.topic, each.partition, each.member_key, each.to_ms), each.to_ms)
        )
        for each in intervals
    ]
