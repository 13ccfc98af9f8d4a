"""Bugs in the offsets of transactions, each with a transcript that finds it.

A text is replaced where one of several conditions of a function is wrong, or one value of a call.
"""

from collections.abc import Callable
from typing import Any

from coterie.protocol.errors import ErrorCode
from tests.faults import Function, answers, calling, confuses, does_nothing, given, with_first
from tests.planting import Plant

_PENDING = "coterie.coordinator.groups.pending_offsets:PendingOffsets"
_REPLAY = "coterie.coordinator.groups.replay"
_COMMIT = "coterie.coordinator.groups.transactional_offsets:commit_transactional"


def _by_transactions(overtake: Callable[..., None]) -> Callable[..., None]:
    """Let only the markers of transactions overtake pending offsets."""

    def some(pending: Any, place: Any, position: int | None = None) -> None:
        if position is not None:
            overtake(pending, place, position)

    return some


def _by_commits(overtake: Callable[..., None]) -> Callable[..., None]:
    """Let only plain commits overtake pending offsets."""

    def some(pending: Any, place: Any, position: int | None = None) -> None:
        if position is None:
            overtake(pending, place)

    return some


def _overtaken_by_none(end: Function) -> Function:
    """End a transaction none of whose offsets a later record has overtaken."""

    def run(pending: Any, producer_id: int) -> Any:
        ended = end(pending, producer_id)
        for offset in ended.values():
            offset.overtaken = False
        return ended

    return run


TRANSACTION_PLANTS: tuple[tuple[Plant, str], ...] = (
    (
        Plant(
            "an abort commits the offsets",
            f"{_REPLAY}:replay_marker",
            fault=given(commit=True),
        ),
        "offsets/transaction_commits_and_aborts",
    ),
    (
        Plant(
            "a commit of a transaction always wins",
            f"{_REPLAY}:replay_marker",
            fault=calling(f"{_PENDING}.end", _overtaken_by_none),
        ),
        "offsets/transaction_and_plain_commit",
    ),
    (
        Plant(
            "a plain commit does not overtake pending offsets",
            "coterie.coordinator.groups.pending_offsets:PendingOffsets.overtake",
            fault=_by_transactions,
        ),
        "offsets/transaction_and_plain_commit",
    ),
    (
        Plant(
            "transactions do not overtake each other",
            "coterie.coordinator.groups.pending_offsets:PendingOffsets.overtake",
            fault=_by_commits,
        ),
        "offsets/transaction_and_plain_commit",
    ),
    (
        Plant(
            "a committed transaction overtakes newer ones",
            f"{_PENDING}.overtake",
            fault=with_first(2),
        ),
        "offsets/transaction_of_interleaved_producers",
    ),
    (
        Plant(
            "a tombstone leaves pending offsets",
            "coterie.coordinator.groups.pending_offsets:PendingOffsets.drop",
            fault=does_nothing,
        ),
        "offsets/transaction_whose_offsets_are_deleted",
    ),
    (
        Plant(
            "only committed offsets are deleted with a group",
            "coterie.coordinator.groups.transactional_offsets:pending_keys",
            fault=answers([]),
        ),
        "offsets/transaction_whose_offsets_are_deleted",
    ),
    (
        Plant(
            "pending offsets cannot be deleted",
            "coterie.coordinator.groups.offsets:delete_offsets",
            fault=calling(
                "coterie.coordinator.groups.pending_offsets:PendingOffsets.is_pending",
                answers(value=False),
            ),
        ),
        "offsets/transaction_whose_offsets_are_deleted",
    ),
    (
        Plant(
            "pending offsets of a deleted topic stay",
            "coterie.coordinator.groups.expiry:delete_topic_offsets",
            fault=calling(
                "coterie.coordinator.groups.pending_offsets:PendingOffsets.partitions", answers(())
            ),
        ),
        "offsets/transaction_whose_offsets_are_deleted",
    ),
    (
        Plant(
            "an offset expires although its partition has a pending one",
            "coterie.coordinator.groups.expiry:expire_group",
            fault=calling(
                "coterie.coordinator.groups.pending_offsets:PendingOffsets.is_pending",
                answers(value=False),
            ),
        ),
        "offsets/transaction_blocks_expiry",
    ),
    (
        Plant(
            "a group with nothing but pending offsets is removed",
            "coterie.coordinator.groups.expiry:expire_group",
            fault=given({"partition.logged.pending.by_group": {}}),
        ),
        "offsets/transaction_blocks_expiry",
    ),
    (
        Plant(
            "stable readers see the last committed offset",
            "coterie.coordinator.groups.offsets:_refuse_unstable",
            fault=does_nothing,
        ),
        "offsets/transaction_commits_and_aborts",
    ),
    (
        Plant(
            "all readers are refused while an offset is pending",
            "coterie.coordinator.groups.offsets:fetch",
            fault=given(stable=True),
        ),
        "offsets/transaction_commits_and_aborts",
    ),
    (
        Plant(
            "a commit with an old epoch is accepted",
            _COMMIT,
            fault=given(logged_epoch=-1),
            also=(
                Plant(
                    "the epoch of a producer is not known",
                    "coterie.coordinator.groups.partition_state:PartitionState.producer_epoch",
                    fault=answers(-1),
                ),
            ),
        ),
        "offsets/transaction_of_an_old_epoch",
    ),
    (
        Plant(
            "a marker that is being written has no epoch",
            "coterie.coordinator.groups.partition_state:PartitionState.producer_epoch",
            fault=given({"self.marker_epochs": {}}),
        ),
        "offsets/transaction_of_an_old_epoch",
    ),
    (
        Plant(
            "a generation of an unknown group is accepted",
            _COMMIT,
            "elif request.generation_id >= 0:",
            "elif False:",
        ),
        "offsets/transaction_group_checks",
    ),
    (
        Plant(
            "a blank identity is refused",
            "coterie.coordinator.groups.classic.group:Group.transactional_commit_error",
            "if generation_id < 0 and not request.member_id and request.group_instance_id is None:",
            "if False:",
        ),
        "offsets/transaction_group_checks",
    ),
    (
        Plant(
            "an old generation is accepted",
            "coterie.coordinator.groups.classic.group:Group.transactional_commit_error",
            fault=confuses(ErrorCode.ILLEGAL_GENERATION, ErrorCode.NONE),
        ),
        "offsets/transaction_group_checks",
    ),
    (
        Plant(
            "metadata is not limited in a transaction",
            _COMMIT,
            fault=calling(
                "coterie.coordinator.groups.offsets:is_metadata_too_large", answers(value=False)
            ),
        ),
        "offsets/transaction_metadata_too_large",
    ),
    (
        Plant(
            "a load drops open transactions",
            "coterie.coordinator.groups.shard:GroupShard.replay_open",
            fault=does_nothing,
        ),
        "offsets/transaction_survives_a_restart",
    ),
    (
        Plant(
            "a load forgets what was overtaken",
            "coterie.coordinator.groups.replay:replay_pending",
            fault=given(overtaken=False),
        ),
        "offsets/transaction_survives_a_restart",
    ),
    (
        Plant(
            "a group with nothing but pending offsets is not loaded",
            "coterie.coordinator.groups.shard:GroupShard._restore_groups",
            fault=given({"self.logged.pending.by_group": {}}),
        ),
        "offsets/transaction_survives_a_restart",
    ),
    (
        Plant(
            "records of a transaction share a plain batch",
            "coterie.coordinator.kernel.shard:Shard.settle",
            "operation.partition = self.partition",
            "operation.partition, operation.form = self.partition, None",
        ),
        "offsets/transaction_commits_and_aborts",
    ),
)
