"""Offsets: an acknowledged commit is read from the next answer on and never an older one; an
unacknowledged one is there as a whole or not at all (I5, I6).

Every commit of a run has an offset of its own, so a value that is read names the commit it is from.
"""

from typing import Any, NamedTuple

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Append
from coterie.coordinator.group import Group, GroupState
from coterie.coordinator.shard import Shard
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from tests.simulation.call import Call
from tests.simulation.checks.violation import Violation, require

Place = tuple[str, str, int]  # group, topic, partition


class Version(NamedTuple):
    """One record of a place: its batch, and the value; None for a tombstone."""

    batch: int
    partition: int  # of `__consumer_offsets`
    value: OffsetCommitValue | None


class Committed:
    """The history of every place that was ever committed to, newest version last."""

    def __init__(self) -> None:
        self.history: dict[Place, list[Version]] = {}

    def newest(self, place: Place) -> Version | None:
        """The newest version of a place, acknowledged or not."""
        versions = self.history.get(place)
        return versions[-1] if versions else None

    def of_group(self, group_id: str) -> dict[Place, Version]:
        """What a group has committed and not deleted."""
        return {
            place: versions[-1]
            for place, versions in self.history.items()
            if place[0] == group_id and versions and versions[-1].value is not None
        }

    # -- the log -----------------------------------------------------------------------------------

    def appended(self, batch: int, append: Append) -> None:
        """Records of a batch, in order."""
        for key, value in append.records:
            if type(key) is OffsetCommitKey:
                place = (key.group, key.topic, key.partition)
                assert value is None or type(value) is OffsetCommitValue
                version = Version(batch, append.partition, value)
                self.history.setdefault(place, []).append(version)

    def lost(self, batches: set[int]) -> None:
        """Batches that will never be durable."""
        for versions in self.history.values():
            while versions and versions[-1].batch in batches:
                versions.pop()

    # -- requests and answers ----------------------------------------------------------------------

    def sent(self, call: Call) -> None:
        """Note what an OffsetFetch has to find: the newest value of each place at this moment."""
        if call.api == "OffsetFetch":
            call.notes["places"] = {
                group_id: self._wanted(group_id, topics) for group_id, topics in _asked(call)
            }

    def _wanted(self, group_id: str, topics: Any) -> dict[Place, Version | None]:
        if topics is None:
            return dict(self.of_group(group_id))
        return {
            (group_id, topic.name, index): self.newest((group_id, topic.name, index))
            for topic in topics
            for index in topic.partition_indexes
        }

    def answered(self, call: Call, message: Any) -> None:
        """Compare what was read; see that what was acknowledged is in the log."""
        if call.api == "OffsetFetch":
            for group_id, error, topics in _told(call, message):
                if not error:
                    self._read(call, call.notes["places"][group_id], group_id, topics)
        elif call.api == "OffsetCommit":
            self._acknowledged(call, message)

    def _read(
        self, call: Call, wanted: dict[Place, Version | None], group_id: str, topics: Any
    ) -> None:
        found = {
            (group_id, topic.name, each.partition_index): each
            for topic in topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }
        if found.keys() != wanted.keys():
            raise Violation("I5", f"{sorted(found)} read, {sorted(wanted)} committed: {call}")
        for place, version in wanted.items():
            value = None if version is None else version.value
            expected = (-1, -1, "") if value is None else _triple(value)
            each = found[place]
            read = (each.committed_offset, each.committed_leader_epoch, each.metadata)
            require(read == expected, "I5", f"{place}: {read} read, {expected} committed: {call}")

    def _acknowledged(self, call: Call, message: Any) -> None:
        """All partitions of a commit went into one batch, with its offset."""
        request = call.request
        offsets = {
            (request.group_id, topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        batches = {number for _, number in call.batches}
        require(len(call.batches) <= 1, "I6", f"one commit in {len(call.batches)} appends: {call}")
        for topic in message.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    continue
                place = (request.group_id, topic.name, each.partition_index)
                versions = [v for v in self.history.get(place, []) if v.batch in batches]
                if [v.value and v.value.offset for v in versions] != [offsets[place]]:
                    raise Violation("I6", f"{place} acknowledged, in the log {versions}: {call}")

    # -- expiry ------------------------------------------------------------------------------------

    def expired(
        self,
        append: Append,
        group: Group,
        topics: frozenset[str] | None,
        config: GroupConfig,
        now_ms: int,
    ) -> None:
        """A sweep wrote tombstones of a group: each offset was due (spec section 14.5).

        Args:
            append: with the tombstones; looked at before it is noted in the history.
            group: as it was before the sweep.
            topics: what its last generation subscribes to; None where nobody can tell.
            config: with the retention.
            now_ms: the time of the sweep.
        """
        for key, value in append.records:
            if type(key) is not OffsetCommitKey:
                require(group.state is GroupState.EMPTY, "14.5", f"{group} expires")
                continue
            require(value is None, "14.5", "a sweep writes tombstones only")
            version = self.newest((key.group, key.topic, key.partition))
            stored = None if version is None else version.value
            require(stored is not None, "14.5", f"{key} expires, but nothing is there")
            assert stored is not None
            base_ms = _base_ms(group, topics, key.topic, stored)
            due = base_ms is not None and now_ms >= (
                base_ms + config.offsets_retention_ms
                if stored.expire_timestamp == -1
                else stored.expire_timestamp
            )
            require(due, "14.5", f"{key} of {group} expires too early, at {now_ms}: {stored}")

    def overdue(
        self,
        shard: Shard,
        topics: dict[str, frozenset[str] | None],
        config: GroupConfig,
        now_ms: int,
    ) -> None:
        """After a sweep nothing that is due is left."""
        for place, versions in self.history.items():
            group = shard.groups.get(place[0])
            value = versions[-1].value if versions else None
            if group is None or value is None:
                continue
            base_ms = _base_ms(group, topics.get(place[0]), place[1], value)
            if base_ms is None:
                continue
            own_ms = value.expire_timestamp
            due_ms = base_ms + config.offsets_retention_ms if own_ms == -1 else own_ms
            require(now_ms < due_ms, "14.5", f"{place} should have expired at {due_ms}")


def _base_ms(
    group: Group, topics: frozenset[str] | None, topic: str, value: OffsetCommitValue
) -> int | None:
    """Since when an offset is unused; None while it is in use."""
    if not group.protocol_type:
        return value.commit_timestamp
    if group.state is GroupState.EMPTY:
        stamp_ms = group.state_timestamp_ms
        return value.commit_timestamp if stamp_ms is None else stamp_ms
    if group.state is not GroupState.STABLE or group.protocol_type != "consumer":
        return None
    return None if topics is None or topic in topics else value.commit_timestamp


def _triple(value: OffsetCommitValue) -> tuple[int, int, str]:
    return value.offset, value.leader_epoch, value.metadata


def _asked(call: Call) -> list[tuple[str, Any]]:
    request = call.request
    if call.version >= 8:
        return [(group.group_id, group.topics) for group in request.groups]
    return [(request.group_id, request.topics)]


def _told(call: Call, message: Any) -> list[tuple[str, int, Any]]:
    if call.version >= 8:
        return [(group.group_id, group.error_code, group.topics) for group in message.groups]
    partitions = [each.error_code for topic in message.topics for each in topic.partitions]
    return [
        (
            call.request.group_id,
            next(filter(None, [message.error_code, *partitions]), 0),
            message.topics,
        )
    ]
