"""Crashes while consumer groups live: what members were told is still so at the next start.

A broker starts on the disk that the crash has left. Then

- what it has loaded is what the records of the log say, whose parts fit together: no partition has
  two owners, no member is ahead of the target, no group is of two types;
- a group has at least the largest epoch that a member was told, and a deleted group is gone;
- each member is known with its epoch and its partitions, unless it had asked to leave;
- each offset is the last one that was acknowledged, or a later one;
- all members come to rest, each partition with one of them, and the next member gets a larger epoch
  than any before.
"""

from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.group_like import GroupLike
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.broker import Broker
from tests.crash.broker_run import answer_to
from tests.crash.group_members import Ledger, Life, State, StoryMember, settle
from tests.crash.group_story import NO_OFFSET, SETTINGS, STORIES, record_story
from tests.crash.logged_groups import live_records, logged_groups, newest_records
from tests.crash.losses import Crash
from tests.crash.restart import Wrong
from tests.crash.story_crashes import StoryCrashes
from tests.unit.server.manual import Client, open_log

_LATER_MS = 20


class _Restarted:
    """A broker that has started after a crash; see `group_members.Broker`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client = Client(broker)
        self.done = 0

    def ask_all(self, request: Any, version: int) -> Any:
        """See `Broker`."""
        return answer_to(self.client, request, version)

    def pause(self) -> None:
        """See `Broker`."""
        self.client.loop.advance(_LATER_MS)

    def group(self, group_id: str) -> GroupLike | None:
        """Return a group as it is in memory."""
        return self.broker.coordinator.group(group_id)


class GroupCrashes(StoryCrashes):
    """The crashes of one story of consumer groups."""

    what = "groups"
    stories = tuple(STORIES)
    settings = SETTINGS
    record = staticmethod(record_story)

    def check(self, crash: Crash) -> None:
        """See `StoryCrashes`."""
        restarted = _Restarted(self.start_after(crash))
        restarted.client.loop.turn()
        _check_log(restarted.broker)
        ledger: Ledger = self.story.ledger
        newest = {each.group_id: each for each in ledger.lives if _asked(each, crash.operations)}
        for life in newest.values():
            _check_group(restarted, life, crash.operations)
        for key in ledger.commits:
            _check_offset(restarted, ledger, key, crash.operations)
        for life in newest.values():
            _live_on(restarted, life, crash.operations)


def _asked(life: Life, operations: int) -> bool:
    return any(moment <= operations for moment in life.asked)


def _check_log(broker: Broker) -> None:
    """Check that the records fit together, and that what was loaded is what they say."""
    newest = newest_records(open_log(broker, OFFSETS_TOPIC))
    errors = [error for group in logged_groups(newest).values() for error in group.errors()]
    if errors:
        raise Wrong("; ".join(errors))
    loaded, logged = live_records(broker.coordinator), frozenset(newest.items())
    if loaded != logged:
        raise Wrong(f"loaded, and not logged: {loaded - logged}; not loaded: {logged - loaded}")


def _check_group(restarted: _Restarted, life: Life, operations: int) -> None:
    group = restarted.group(life.group_id)
    deleted = [each for each in life.deleted if each <= operations]
    if len(deleted) > 1 and group is not None:
        raise Wrong(f"{life.group_id} was deleted, and is there: {group}")
    told = life.told(operations)
    if deleted or told < 0:
        return
    epoch = getattr(group, "epoch", None) or getattr(group, "generation_id", None)
    if epoch is None or epoch < told:
        raise Wrong(f"{life.group_id} is at {epoch}, and a member was told {told}")


def _check_offset(
    restarted: _Restarted, ledger: Ledger, key: tuple[str, str, int], operations: int
) -> None:
    allowed = [NO_OFFSET]
    for each in ledger.commits[key]:
        if each.answered is not None and each.answered <= operations:
            allowed = [each.offset]
        elif each.asked <= operations:
            allowed.append(each.offset)
    group_id, topic, partition = key
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=False)
    found = restarted.ask_all(request, 8).groups[0]
    assert not found.error_code, found
    offset = found.topics[0].partitions[0].committed_offset
    if offset not in allowed:
        raise Wrong(f"{key} has the offset {offset} and not one of {allowed}")


def _live_on(restarted: _Restarted, life: Life, operations: int) -> None:
    """Let the members of a group go on, and one more join."""
    known = {each: each.at(operations) for each in life.members}
    members = [
        _gone_on(restarted, each, state, life, operations)
        for each, state in known.items()
        if state is not None
    ]
    _let_others_leave(restarted, life.group_id, {each.member_id for each in members})
    group = restarted.group(life.group_id)
    if not isinstance(group, ConsumerGroup):
        return
    settle(members)
    _check_owners(restarted, group)
    told = max(life.told(operations), *(each.epoch for each in members), 0)
    last = StoryMember(
        restarted, Ledger(), life.group_id, "last", subscribed_topic_names=["t"]
    ).join()
    if last.epoch <= told:
        raise Wrong(f"a new member gets the epoch {last.epoch}, after {told}")


def _let_others_leave(restarted: _Restarted, group_id: str, known: set[str]) -> None:
    """Let the members leave that had asked to join, or to leave, and got no answer."""
    group = restarted.group(group_id)
    if isinstance(group, ConsumerGroup):
        for each in [each for each in group.members.values() if each.member_id not in known]:
            leaving = LeaveGroupRequestMember(
                member_id=each.member_id, group_instance_id=each.instance_id
            )
            request = LeaveGroupRequest(group_id=group_id, members=[leaving])
            answer = restarted.ask_all(request, 4)
            assert not answer.error_code, answer


def _gone_on(
    restarted: _Restarted, member: StoryMember, state: State, life: Life, operations: int
) -> StoryMember:
    """Return a member that has gone on with what it knew.

    Raises:
        Wrong: it is not known, or not with its epoch.
    """
    again = member.after_crash(restarted, state)
    error = again.beat()
    # What was asked for since may have made another group of it.
    is_changed = any(state.since <= moment <= operations for moment in life.asked)
    if error == ErrorCode.ILLEGAL_GENERATION and member.uses_classic and is_changed:
        return again.join()
    if error or again.epoch < state.epoch:
        raise Wrong(f"{member} goes on at {state} and gets {error!r}, {again.epoch}")
    return again


def _check_owners(restarted: _Restarted, group: ConsumerGroup) -> None:
    """Check that each partition of the topics of a group at rest has an owner.

    The log says who owns what, and that nobody else does.
    """
    names = restarted.broker.topics.by_name
    for name in group.subscribed_topics():
        if name in names:
            for index in range(len(names[name].partitions)):
                if group.owner(names[name].topic_id, index) is None:
                    raise Wrong(f"nobody has partition {index} of {name}: {group}")
