"""Committed offsets: fetches return the newest commit, a commit is stored whole or not at all.

Every commit of a run has an offset of its own, so a fetched offset identifies its commit.
"""

from typing import Any, NamedTuple

from coterie.conversation.versions import FETCH_GROUPS_SINCE
from coterie.coordinator.groups.classic.group import Group, classic
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.shard import GroupShard
from coterie.coordinator.kernel.append import Append
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from tests.simulation.call import Call
from tests.simulation.checks.violation import Violation, require

GroupPartition = tuple[str, str, int]
"""Group, topic, partition."""


class Version(NamedTuple):
    """One record of an offset: the number of its batch, and the value; None for a tombstone."""

    batch: int
    value: OffsetCommitValue | None


class GroupFetch(NamedTuple):
    """What a response says of one group: the first error, and the topics."""

    group_id: str
    error: int
    topics: Any


class CommittedOffsets:
    """The history of every partition that was committed to, newest version last."""

    def __init__(self) -> None:
        self.history: dict[GroupPartition, list[Version]] = {}

    def newest(self, key: GroupPartition) -> Version | None:
        """Return the newest version of a partition, acknowledged or not."""
        versions = self.history.get(key)
        return versions[-1] if versions else None

    def of_group(self, group_id: str) -> dict[GroupPartition, Version]:
        """Return the newest versions of a group without the deleted ones."""
        return {
            key: versions[-1]
            for key, versions in self.history.items()
            if key[0] == group_id and versions and versions[-1].value is not None
        }

    # -- the log -----------------------------------------------------------------------------------

    def appended(self, batch: int, append: Append) -> None:
        """Add the offsets of an append to the history."""
        for key, value in append.records:
            if type(key) is OffsetCommitKey:
                assert value is None or type(value) is OffsetCommitValue
                versions = self.history.setdefault((key.group, key.topic, key.partition), [])
                versions.append(Version(batch, value))

    def lost(self, batches: set[int]) -> None:
        """Remove the offsets of lost batches from the history."""
        for versions in self.history.values():
            while versions and versions[-1].batch in batches:
                versions.pop()

    # -- requests and responses --------------------------------------------------------------------

    def sent(self, call: Call) -> None:
        """Note what an OffsetFetch must return: the newest value of each partition at this time."""
        if call.api == "OffsetFetch":
            request = call.request
            if call.version >= FETCH_GROUPS_SINCE:
                requested = [(group.group_id, group.topics) for group in request.groups]
            else:
                requested = [(request.group_id, request.topics)]
            call.notes["offsets"] = {
                group_id: self._expected(group_id, topics) for group_id, topics in requested
            }

    def _expected(self, group_id: str, topics: Any) -> dict[GroupPartition, Version | None]:
        if topics is None:
            return dict(self.of_group(group_id))
        return {
            (group_id, topic.name, index): self.newest((group_id, topic.name, index))
            for topic in topics
            for index in topic.partition_indexes
        }

    def answered(self, call: Call, message: Any) -> None:
        """Check the response to an OffsetFetch or OffsetCommit."""
        if call.api == "OffsetFetch":
            for fetched in _fetched_groups(call, message):
                if not fetched.error:
                    self._check_fetched(call, fetched)
        elif call.api == "OffsetCommit":
            self._check_acknowledged(call, message)

    def _check_fetched(self, call: Call, fetched: GroupFetch) -> None:
        expected = call.notes["offsets"][fetched.group_id]
        partitions = {
            (fetched.group_id, topic.name, each.partition_index): each
            for topic in fetched.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }
        if partitions.keys() != expected.keys():
            raise Violation(
                "[offsets/fetch]",
                f"{sorted(partitions)} fetched, {sorted(expected)} committed: {call}",
            )
        for key, version in expected.items():
            value = None if version is None else version.value
            committed = (
                (-1, -1, "")
                if value is None
                else (value.offset, value.leader_epoch, value.metadata)
            )
            each = partitions[key]
            actual = (each.committed_offset, each.committed_leader_epoch, each.metadata)
            require(
                actual == committed,
                "[offsets/fetch-is-durable]",
                f"{key}: {actual} fetched, {committed} committed: {call}",
            )

    def _check_acknowledged(self, call: Call, message: Any) -> None:
        """Check that all accepted partitions of a commit are in one batch with their offsets."""
        request = call.request
        offsets = {
            (request.group_id, topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        batches = {number for _, number in call.batches}
        require(
            len(call.batches) <= 1,
            "[offsets/commit-record]",
            f"one commit in {len(call.batches)} appends: {call}",
        )
        for topic in message.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    continue
                key = (request.group_id, topic.name, each.partition_index)
                versions = [v for v in self.history.get(key, []) if v.batch in batches]
                if [v.value and v.value.offset for v in versions] != [offsets[key]]:
                    raise Violation(
                        "[offsets/commit-record]",
                        f"{key} is acknowledged, the log has {versions}: {call}",
                    )

    # -- expiry ------------------------------------------------------------------------------------

    def expired(
        self,
        append: Append,
        group: Group,
        topics: frozenset[str] | None,
        config: GroupConfig,
        now_ms: int,
    ) -> None:
        """Check that every offset that a sweep deletes was due [offsets/expiry].

        Args:
            append: the tombstones; they are not in the history yet.
            group: as it was before the sweep.
            topics: what its last generation subscribes to; None if that is unknown.
            config: has the retention.
            now_ms: the time of the sweep.
        """
        rule = "[offsets/expiry]"
        for key, value in append.records:
            if type(key) is not OffsetCommitKey:
                require(group.state is GroupState.EMPTY, rule, f"{group} expires")
                continue
            require(value is None, rule, "a sweep writes something else than tombstones")
            version = self.newest((key.group, key.topic, key.partition))
            stored = None if version is None else version.value
            require(stored is not None, rule, f"{key} expires, but has no offset")
            assert stored is not None
            due_ms = _due_ms(group, topics, key.topic, stored, config)
            require(
                due_ms is not None and now_ms >= due_ms,
                rule,
                f"{key} of {group} expires too early, at {now_ms}: {stored}",
            )

    def check_overdue(
        self,
        shard: GroupShard,
        topics: dict[str, frozenset[str] | None],
        config: GroupConfig,
        now_ms: int,
    ) -> None:
        """Check after a sweep that no offset of the partition is overdue."""
        for key, versions in self.history.items():
            group_id, topic, _ = key
            group = classic(shard.groups.get(group_id))
            value = versions[-1].value if versions else None
            if group is None or value is None:
                continue
            due_ms = _due_ms(group, topics.get(group_id), topic, value, config)
            require(
                due_ms is None or now_ms < due_ms,
                "[offsets/expiry]",
                f"{key} should have expired at {due_ms}",
            )


def _due_ms(
    group: Group,
    topics: frozenset[str] | None,
    topic: str,
    value: OffsetCommitValue,
    config: GroupConfig,
) -> int | None:
    """Return when an offset expires; None while it is in use."""
    base_ms = _base_ms(group, topics, topic, value)
    if base_ms is None:
        return None
    own_ms = value.expire_timestamp
    return base_ms + config.offsets_retention_ms if own_ms == -1 else own_ms


def _base_ms(
    group: Group, topics: frozenset[str] | None, topic: str, value: OffsetCommitValue
) -> int | None:
    """Return the time from which retention counts; None while the offset is in use."""
    if not group.protocol_type:
        return value.commit_timestamp
    if group.state is GroupState.EMPTY:
        stamp_ms = group.state_timestamp_ms
        return value.commit_timestamp if stamp_ms is None else stamp_ms
    if group.state is not GroupState.STABLE or group.protocol_type != "consumer":
        return None
    return None if topics is None or topic in topics else value.commit_timestamp


def _fetched_groups(call: Call, message: Any) -> list[GroupFetch]:
    if call.version >= FETCH_GROUPS_SINCE:
        return [GroupFetch(each.group_id, each.error_code, each.topics) for each in message.groups]
    partitions = [each.error_code for topic in message.topics for each in topic.partitions]
    error = next(filter(None, [message.error_code, *partitions]), 0)
    return [GroupFetch(call.request.group_id, error, message.topics)]
