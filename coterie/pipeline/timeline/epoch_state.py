"""What the timeline of a group with epochs keeps of its members and of a rebalance that runs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.model import (
    Copy,
    EpochBump,
    EpochMember,
    Handover,
    Ownership,
    RecordedMember,
)


class Subscriber(NamedTuple):
    """A member and what it subscribes to.

    Attributes:
        member: its ids and its client; its topics are None if they are not known.
        is_classic, regex, server_assignor, process_id: see `EpochMember`.
        described: what else the record of a member of a streams group has, to compare it.
    """

    member: RecordedMember
    is_classic: bool = False
    regex: str | None = None
    server_assignor: str | None = None
    process_id: str | None = None
    described: tuple[Any, ...] = ()

    @property
    def subscription(self) -> tuple[Any, ...]:
        """What raises the epoch of the group if it changes."""
        return self.member.topics, self.regex, self.described


class Work(NamedTuple):
    """What a member has or shall have: partitions, or active tasks and copies of tasks."""

    partitions: frozenset[TopicPartition] = frozenset()
    copies: frozenset[Copy] = frozenset()


class Step(NamedTuple):
    """Where a member is on its way to its target: what it has, and has yet to give up."""

    at_ms: int
    member_epoch: int
    previous_epoch: int | None
    state: str
    assigned: frozenset[TopicPartition]
    pending: frozenset[TopicPartition]
    copies: frozenset[Copy] = frozenset()
    pending_copies: frozenset[Copy] = frozenset()


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


def present_member(
    group_id: str,
    subscriber: Subscriber,
    step: Step | None,
    target: Iterable[TopicPartition] | None,
    target_copies: Iterable[Copy],
) -> EpochMember:
    """Return a member at the end of the records, without what is known of its group.

    Args:
        group_id: the group.
        subscriber: the member.
        step: where it is; None if the log does not have it.
        target: what it shall have; None if the log does not have it.
        target_copies: the copies that it shall have.
    """
    return EpochMember(
        group_id,
        subscriber.member._replace(assigned=() if step is None else tuple(sorted(step.assigned))),
        subscriber.is_classic,
        subscriber.regex,
        subscriber.server_assignor,
        None,
        None,
        None if step is None else step.member_epoch,
        None if step is None else step.previous_epoch,
        None if step is None else step.state,
        None if step is None else step.at_ms,
        None if target is None else tuple(sorted(target)),
        () if step is None else tuple(sorted(step.pending)),
        process_id=subscriber.process_id,
        copies=() if step is None else tuple(sorted(step.copies)),
        target_copies=tuple(sorted(target_copies)),
        pending_copies=() if step is None else tuple(sorted(step.pending_copies)),
    )
