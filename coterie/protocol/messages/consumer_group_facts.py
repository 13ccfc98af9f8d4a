"""Facts about groups with epochs in `coterie.journal`; `journal_records.py` lists all facts.

Consumer groups (KIP-848), share groups and streams groups have them; `group_type` says which. What
is given and taken are the tasks of a streams group, and the partitions of the others. The group log
has the epochs, but not why they rose, and compaction removes most of it [journal/consumer-groups].
"""

from coterie.protocol.wire import Int32, Int64, Message, String, message, since

# The type of the groups of which nothing is said.
CONSUMER = "consumer"


@message(versions=(0, 0), flexible=0)
class GroupEpochRaised(Message):
    """The epoch of a group rose, so that a new target is due.

    Attributes:
        cause: a value of `coterie.coordinator.groups.epochs.Bump`.
        member_count: the members after it.
        member_id, group_instance_id, client_id, client_host: of the member that caused it.
    """

    at_ms: Int64
    epoch: Int32
    cause: String
    member_count: Int32
    member_id: String | None = None
    group_instance_id: String | None = None
    client_id: String | None = None
    client_host: String | None = None
    node_id: Int32 = since(0, tag=9, default=-1)
    group_type: String = since(0, tag=0, default=CONSUMER)


@message(versions=(0, 0), flexible=0)
class TargetComputed(Message):
    """A target assignment was computed.

    Attributes:
        epoch: the group epoch for which it is.
        assignor: the name of the assignor.
        changed_members: the members whose target is another one.
        moved_partitions: the partitions or tasks that go from one member to another.
    """

    at_ms: Int64
    epoch: Int32
    assignor: String
    member_count: Int32
    changed_members: Int32
    moved_partitions: Int32
    node_id: Int32 = since(0, tag=9, default=-1)
    group_type: String = since(0, tag=0, default=CONSUMER)


@message(versions=(0, 0), flexible=0)
class MemberReconciled(Message):
    """A member came closer to its target.

    Attributes:
        epoch, previous_epoch: of the member.
        state, previous_state: STABLE, UNREVOKED_PARTITIONS or UNRELEASED_PARTITIONS; in streams
            groups UNREVOKED_TASKS or UNRELEASED_TASKS.
        added, revoked: how many partitions or tasks it was given, and has been asked to give up.
        state_ms: how long it was in the previous state; -1 if that is not known.
    """

    at_ms: Int64
    member_id: String
    group_instance_id: String | None = None
    client_id: String
    epoch: Int32
    previous_epoch: Int32
    state: String
    previous_state: String
    added: Int32
    revoked: Int32
    state_ms: Int64 = -1
    node_id: Int32 = since(0, tag=9, default=-1)
    group_type: String = since(0, tag=0, default=CONSUMER)


@message(versions=(0, 0), flexible=0)
class GroupConverged(Message):
    """Every member of a group has reached its target.

    Attributes:
        converged_ms: the time since the epoch rose; -1 if that is not known.
    """

    at_ms: Int64
    epoch: Int32
    member_count: Int32
    converged_ms: Int64 = -1
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class GroupTypeChanged(Message):
    """A group with members became one of another type: an upgrade or a downgrade.

    Attributes:
        group_type, previous_type: "classic" and "consumer".
        epoch: the epoch that was the generation before, or the generation that was the epoch.
        member_count: its members at that moment.
    """

    at_ms: Int64
    group_type: String
    previous_type: String
    epoch: Int32
    member_count: Int32
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class RegexResolved(Message):
    """A regular expression of a group was matched with the topics, with another result than before.

    Attributes:
        topic_count: the topics that match now.
        gained, lost: how many topics came and went.
    """

    at_ms: Int64
    regex: String
    topic_count: Int32
    gained: Int32
    lost: Int32
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class StaticMemberLeft(Message):
    """A static member left for a while: its partitions wait for its successor.

    Attributes:
        kept_ms: how long they do, until the session ends.
    """

    at_ms: Int64
    group_instance_id: String
    member_id: String
    client_id: String
    epoch: Int32
    kept_ms: Int64
    node_id: Int32 = since(0, tag=9, default=-1)
